package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// call runs the command.
func call(args ...string) (status int, stdout, stderr string) {
	var out, err bytes.Buffer
	status = run(args, &out, &err)
	return status, out.String(), err.String()
}

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestBadArguments: status 2, and a word on what is wrong and what is right.
func TestBadArguments(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"usage", "sim"}},
		{[]string{"simulate"}, []string{`"simulate"`, "there are sim"}},
		{[]string{"sim", "--seed", "x"}, []string{"seed"}},
		{[]string{"sim", "--nonsense"}, []string{"nonsense"}},
		{[]string{"sim", "17"}, []string{`"17" is no flag`}},
		{[]string{"sim", "--seeds", "0"}, []string{"--seeds is 0", "1 or more"}},
		{[]string{"sim", "--parallel", "0"}, []string{"--parallel is 0"}},
		{[]string{"sim", "--workload", "tpcc"}, []string{`"tpcc"`, "bank, ring, random, churn, mix"}},
		{[]string{"sim", "--memory-nodes", "99"}, []string{"memory nodes is 99", "1 to 8"}},
		{[]string{"sim", "--replicas", "3", "--memory-nodes", "2"}, []string{"copies is 3"}},
		{[]string{"sim", "--seeds", "2", "--trace", "x"}, []string{"--trace", "--seeds is 2"}},
		{[]string{"sim", "--trace", filepath.Join(t.TempDir(), "no", "file")}, []string{"--trace"}},
		{[]string{"sim", "--plan", "no-such-file"}, []string{"no-such-file"}},
		{[]string{"sim", "--plan", write(t, `{"faults": [{"kind": "loss", "rate": 2}]}`)}, []string{"fault 0", "rate is 2", "at most 1"}},
		{[]string{"sim", "--plan", write(t, `{"faults": [{"kind": "lose", "rate": 1}]}`)}, []string{"fault 0", `kind is "lose"`, "loss"}},
		{[]string{"sim", "--plan", write(t, `{"faults": [{"kind": "pause", "host": "c9", "at_ns": 1, "for_ns": 1}]}`)}, []string{"seed 1", `host is "c9"`, "c0"}},
		{[]string{"sim", "--plan", write(t, `{"faults": [{"kind": "crash", "host": "m0", "at_ns": 1}]}`)}, []string{`host is "m0"`}},
		{[]string{"sim", "--plan", write(t, `{"faults": [], "aims": [{"host": "c0", "moment": "tea", "nth": 1}]}`)}, []string{"aim 0", `moment is "tea"`, "lock"}},
		{[]string{"sim", "--plan", write(t, `{"faults": [], "aim": []}`)}, []string{`"aim"`}},
		{[]string{"sim", "--plan", write(t, `{"faults": []} {}`)}, []string{"more behind"}},
		{[]string{"sim", "--plan", write(t, `{"fault`)}, []string{"plan"}},
	} {
		status, _, stderr := call(c.args...)
		if status != exitBad {
			t.Errorf("%v: the status is %d, want %d", c.args, status, exitBad)
		}
		for _, w := range c.want {
			if !strings.Contains(stderr, w) {
				t.Errorf("%v: %q does not say %q", c.args, stderr, w)
			}
		}
	}
}

// TestHelp: asked for, it is no error.
func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"help"}, {"--help"}, {"sim", "--help"}} {
		if status, out, err := call(args...); status != exitOK || !strings.Contains(out+err, "sim") {
			t.Errorf("%v: status %d, %q", args, status, out+err)
		}
	}
}

// TestSim: a run that is well says so, twice in the same words but for the time it took,
// and its trace tells of transactions.
func TestSim(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	first := ""
	for range 2 {
		status, out, stderr := call("sim", "--seed", "1", "--workload", "bank", "--txns", "4", "--trace", trace)
		if status != exitOK || stderr != "" {
			t.Fatalf("status %d: %s%s", status, out, stderr)
		}
		line, _, _ := strings.Cut(out, "\n")
		if !strings.Contains(line, "1, 0 failed, hash") || first != "" && line != first {
			t.Errorf("the first line is %q, and was %q", line, first)
		}
		first = line
		for _, w := range []string{"seeds", "transactions", "faults", "recoveries", "verbs"} {
			if !strings.Contains(out, w) {
				t.Errorf("%q does not tell of %s", out, w)
			}
		}
	}
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "transfer commit") || !strings.Contains(string(text), "takes WRITE") {
		t.Errorf("the trace of %d bytes has no transfer, or no WRITE", len(text))
	}
}

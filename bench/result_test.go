package bench

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"fjord/txn"
)

func sampleResult() *Result {
	c := &Config{Provider: "mem", MemoryNodes: 3, Replicas: 3, Coordinators: 8, Lock: "cas", Values: map[string]any{"seed": uint64(9)}}
	return &Result{
		Benchmark: "toy", Config: c.Values, config: c, Seed: 9, Seconds: 2,
		Figures: Figures{Attempted: 1_000_010, Committed: 1_000_000, TPS: 500_000,
			Aborted: map[string]uint64{"locked": 7, "version": 0, "poor": 3},
			Latency: Latency{Mean: 2.5, P50: 2, P90: 3, P99: 4, P999: 5.5, Max: 1234.567}},
		Transactions: map[string]Figures{"Pay": {}, "Look": {}},
		Verbs:        Verbs{Read: 2_000_000, RoundTrips: 1_500_000},
		CheckList:    []Check{{"no_locks", true, ""}, {"money", false, "1 cent is gone"}},
		types:        []string{"Pay", "Look"}, reasons: []string{"locked", "version", "poor"},
	}
}

func TestTextReport(t *testing.T) {
	r := sampleResult()
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1,000,000", "500,000", "poor", "1234.6", "round trips", "1.50", "money     FAIL  1 cent is gone", "no_locks  pass\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "version") {
		t.Errorf("the report has a column for a reason that did not occur:\n%s", b.String())
	}
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	if last := lines[len(lines)-1]; last != r.BenchLine() {
		t.Errorf("the last line is %q", last)
	}
	// In a table every line is as long as the first.
	for i, l := range lines {
		if strings.HasPrefix(l, "transaction ") {
			for _, row := range lines[i+1 : i+4] {
				if len(row) != len(l) {
					t.Errorf("columns are not aligned:\n%s\n%s", l, row)
				}
			}
		}
	}
}

// benchLine is the grammar of a result in https://go.dev/design/14313-benchmark-format.
var benchLine = regexp.MustCompile(`^Benchmark\p{Lu}\S*-[0-9]+\t[0-9]+(\t[0-9.]+ \S+)+$`)

func TestBenchLine(t *testing.T) {
	r := sampleResult()
	got := r.BenchLine()
	if !benchLine.MatchString(got) {
		t.Errorf("no line of go test -bench: %q", got)
	}
	for _, want := range []string{"BenchmarkToy/provider=mem/replicas=3/coordinators=8-", "\t1000000\t2000.0 ns/op\t500000.0 tps\t2000 p50-ns\t", "\t1234567 max-ns"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	r.Figures = Figures{}
	if got := r.BenchLine(); !benchLine.MatchString(got) {
		t.Errorf("nothing committed: %q", got)
	}
}

func TestJSONReport(t *testing.T) {
	r := sampleResult()
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"benchmark", "config", "build", "host", "seed", "seconds", "attempted", "committed", "aborted", "tps", "latency_us", "transactions", "verbs", "checks"} {
		if _, ok := got[key]; !ok {
			t.Errorf("no %q", key)
		}
	}
	for _, key := range []string{"error", "interrupted"} {
		if _, ok := got[key]; ok {
			t.Errorf("%q in the report of a run that ended well", key)
		}
	}
}

func TestFailure(t *testing.T) {
	r := sampleResult()
	if err := r.Failure(); err == nil || !strings.Contains(err.Error(), "money: 1 cent is gone") {
		t.Errorf("a failed check: %v", err)
	}
	r.CheckList = r.CheckList[:1]
	if err := r.Failure(); err != nil {
		t.Errorf("nothing failed: %v", err)
	}
	r.Error = "boom"
	if err := r.Failure(); err == nil || err.Error() != "boom" {
		t.Errorf("a failed run: %v", err)
	}
}

func TestProgressText(t *testing.T) {
	s := txn.Stats{Committed: 3_000_000, Cancelled: 1_000_000}
	s.Aborted[txn.ReasonLocked] = 1_000_000
	if got, want := progressText("measuring", &part{start: 1e9, end: 11e9}, 4e9, s), "measuring: 1,000,000 tps, 25.0 % of the attempts aborted by conflicts, 7s left"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := progressText("measuring", &part{start: 1e9, txns: 8_000_000}, 4e9, s), "measuring: 1,000,000 tps, 25.0 % of the attempts aborted by conflicts, 3s left"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestProgressWithoutTerminal(t *testing.T) {
	if terminal(&bytes.Buffer{}) != nil {
		t.Error("a buffer passes for a terminal")
	}
	p := NewProgress(nil)
	p.line("x")
	p.clear()
}

func TestThousands(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", 100000: "100,000"} {
		if got := thousands(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

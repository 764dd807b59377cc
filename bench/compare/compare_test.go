package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRatioIsTheMedianOfRatios(t *testing.T) {
	// The machine halves its speed in the middle round; the ratio within a round is 2 throughout.
	group := []result{
		{Engine: "base", Rounds: []measurement{{PerSecond: 200}, {PerSecond: 100}, {PerSecond: 240}}},
		{Engine: "peer", Rounds: []measurement{{PerSecond: 100}, {PerSecond: 50}, {PerSecond: 120}}},
	}
	summarize(group, []string{"base", "absent"})
	if peer := group[1]; peer.PerSecond != 100 || len(peer.BaseOverThis) != 1 || peer.BaseOverThis["base"] != 2 {
		t.Errorf("%v/s and ratios %v, want 100/s and 2 to base", peer.PerSecond, peer.BaseOverThis)
	}
}

func TestMedianOfAnEvenNumber(t *testing.T) {
	v := []float64{4, 1, 2, 8}
	if m := medianOver(len(v), func(i int) float64 { return v[i] }); m != 3 {
		t.Errorf("the median of %v is %v, want 3", v, m)
	}
}

func TestThousands(t *testing.T) {
	for f, want := range map[float64]string{0: "0", 999.4: "999", 1000: "1 000", 1234567: "1 234 567"} {
		if got := thousands(f); got != want {
			t.Errorf("%v prints as %q, want %q", f, got, want)
		}
	}
}

func TestRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.json")
	var stdout, stderr bytes.Buffer
	status := run([]string{"--rounds", "2", "--duration", "5ms", "--warmup", "1ms", "--goroutines", "1,2", "--base", "occ",
		"--settings", "contended", "--engines", "occ,floor-1", "--json", file}, &stdout, &stderr)
	if status != exitPassed || stderr.Len() > 0 {
		t.Fatalf("exit status %d: %s", status, stderr.String())
	}
	if n := strings.Count(stdout.String(), "| floor-1"); n != 1 {
		t.Errorf("floor-1 has %d lines, want one, with one goroutine:\n%s", n, stdout.String())
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rep report
	if err := json.Unmarshal(b, &rep); err != nil {
		t.Fatal(err)
	}
	if len(rep.Results) != 3 || len(rep.Checks) != 3 || !rep.passed() {
		t.Errorf("%d results and checks %v, want three of each, all true", len(rep.Results), rep.Checks)
	}
	for _, r := range rep.Results {
		if r.PerSecond <= 0 || len(r.Rounds) != 2 || r.BaseOverThis["occ"] <= 0 {
			t.Errorf("%+v", r)
		}
	}
}

func TestBadArguments(t *testing.T) {
	for _, args := range [][]string{
		{"--engines", "oracle"}, {"--settings", "lukewarm"}, {"--goroutines", "1,x"}, {"--goroutines", "0"},
		{"--rounds", "0"}, {"--duration", "0s"}, {"--nonsense"}, {"stray"},
	} {
		var stdout, stderr bytes.Buffer
		if status := run(args, &stdout, &stderr); status != exitUsage || stderr.Len() == 0 {
			t.Errorf("%v: exit status %d, stderr %q", args, status, stderr.String())
		}
	}
}

// leaky is occ, but a part of the money has disappeared from it in the end.
type leaky struct{ engine }

func (e leaky) totals() (totals, error) {
	sum, err := e.engine.totals()
	sum.cents--
	return sum, err
}

func TestMissingMoneyIsFoundAndSaid(t *testing.T) {
	s := spec{name: "leaky", open: func(l ledger) (engine, error) {
		e, err := openOCC(arrayIndex)(l)
		return leaky{e}, err
	}}
	cfg := config{engines: []spec{s}, settings: []setting{testSetting}, goroutines: []int{1}, rounds: 1, duration: time.Millisecond}
	var loud, table bytes.Buffer
	rep := report{Checks: map[string]bool{}}
	err := compare(cfg, &loud, func(group []result) error {
		rep.add(group)
		return printGroup(&table, group, nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	if rep.passed() || !strings.Contains(loud.String(), "CHECK FAILED") || !strings.Contains(table.String(), "CHECK FAILED") {
		t.Errorf("nobody said so: %q, %q", loud.String(), table.String())
	}
}

func TestEngineErrorStopsTheRun(t *testing.T) {
	broken := errors.New("broken")
	s := spec{name: "broken", open: func(ledger) (engine, error) { return nil, broken }}
	cfg := config{engines: []spec{s}, settings: []setting{testSetting}, goroutines: []int{1}, rounds: 1}
	if err := compare(cfg, nil, nil); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

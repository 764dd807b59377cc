package simtest

import (
	"strings"
	"testing"

	"fjord/verbs/sim"
)

// TestBadOptions: what cannot be run is refused, with a word on what could.
func TestBadOptions(t *testing.T) {
	crash := &Plan{Faults: []sim.Fault{{Kind: sim.KindCrash, Host: "m0", AtNS: 5_000_000}}}
	stranger := &Plan{Faults: []sim.Fault{{Kind: sim.KindPause, Host: "c7", AtNS: 5_000_000, ForNS: 1000}}}
	rate := &Plan{Faults: []sim.Fault{{Kind: sim.KindLoss, Rate: 1.5}}}
	for _, c := range []struct {
		o    Options
		want []string
	}{
		{Options{Workload: "tpcc"}, []string{`"tpcc"`, "bank, ring, random, churn, mix"}},
		{Options{Nodes: 9}, []string{"memory nodes is 9", "1 to 8"}},
		{Options{Copies: -1}, []string{"copies is -1"}},
		{Options{Nodes: 2, Copies: 3}, []string{"copies is 3", "2 memory nodes"}},
		{Options{Plan: crash}, []string{"fault 0", `host is "m0"`, "c0"}},
		{Options{Plan: stranger, Coordinators: 2}, []string{`host is "c7"`, "c0, c1"}},
		{Options{Plan: rate}, []string{"fault 0", "rate is 1.5"}},
		{Options{Plan: &Plan{Aims: []Aim{{Host: "c0", Moment: "lunch", Nth: 1}}}}, []string{"aim 0", `moment is "lunch"`, "validate"}},
		{Options{Plan: &Plan{Aims: []Aim{{Host: "m0", Moment: MomentLog, Nth: 1}}}}, []string{"aim 0", `host is "m0"`}},
		{Options{Plan: &Plan{Aims: []Aim{{Host: "c0", Moment: MomentLog}}}}, []string{"aim 0", "nth is 0"}},
		{Options{Plan: &Plan{RefusePercent: 100}}, []string{"refuse_percent is 100", "0 to 99"}},
		{Options{Plan: &Plan{BreakEveryNS: -1}}, []string{"break_every_ns is -1"}},
	} {
		_, err := Run(1, c.o)
		if err == nil {
			t.Errorf("%+v is run", c.o)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%+v: %q does not say %q", c.o, err, w)
			}
		}
	}
}

// TestEverySetupIsSound: whatever seeds draw can be built and loaded.
func TestEverySetupIsSound(t *testing.T) {
	seen := make(map[string]int)
	for seed := range uint64(2000) {
		s, err := NewSetup(seed, Options{})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := s.Plan.validate(s.hosts()...); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		seen[s.Workload]++
		for _, w := range newWorkloads(&s) {
			if err := w.schema().Validate(); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
			for _, k := range w.keys() {
				if tableOf(k) != w.name() || len(k) > w.schema().KeySize {
					t.Errorf("seed %d: the key %q is not of the table %q", seed, k, w.name())
				}
			}
		}
	}
	for _, w := range Workloads() {
		if seen[w] < 200 {
			t.Errorf("%s is drawn %d times in 2000", w, seen[w])
		}
	}
}

// TestGivenPlanAndNumbersAreRun: what Options say is what the Setup has, and the rest
// stays as drawn.
func TestGivenPlanAndNumbersAreRun(t *testing.T) {
	plan := &Plan{Faults: []sim.Fault{{Kind: sim.KindLoss, Rate: 0.5, AtNS: startNS, ForNS: 1000}}}
	drawn, err := NewSetup(7, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSetup(7, Options{Workload: "ring", Nodes: 3, Copies: 2, Coordinators: 1, Workers: 2, Transactions: 5, Plan: plan})
	if err != nil {
		t.Fatal(err)
	}
	if s.Workload != "ring" || s.Nodes != 3 || s.Copies != 2 || s.Coordinators != 1 || s.Workers != 2 || s.Transactions != 5 || len(s.Plan.Faults) != 1 {
		t.Errorf("the setup is %+v", s)
	}
	if s.Lock != drawn.Lock || s.ValueSize != drawn.ValueSize || s.NIC != drawn.NIC || s.SuspectAfter != drawn.SuspectAfter {
		t.Errorf("the setup is %+v, and was drawn as %+v", s, drawn)
	}
}

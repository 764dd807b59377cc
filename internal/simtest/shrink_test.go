package simtest

import (
	"testing"

	"fjord/verbs/sim"
)

// TestShrink: of a run that fails whenever two of its faults, two coordinators and
// three transactions are there, just these are left.
func TestShrink(t *testing.T) {
	s, err := NewSetup(1, Options{Workload: "bank", Nodes: 2, Copies: 1, Coordinators: 4, Workers: 3, Transactions: 40})
	if err != nil {
		t.Fatal(err)
	}
	s.Plan = Plan{RefusePercent: 5, BreakEveryNS: 1000, Aims: []Aim{{Host: "c1", Moment: MomentLog, Nth: 1}, {Host: "c0", Moment: MomentCell, Nth: 2}}}
	for i := range int64(40) {
		s.Plan.Faults = append(s.Plan.Faults, sim.Fault{Kind: sim.KindLoss, Rate: 0.1, AtNS: i + 1})
	}
	s.Plan.Faults = append(s.Plan.Faults, sim.Fault{Kind: sim.KindCrash, Host: "c3", AtNS: 9}, sim.Fault{Kind: sim.KindPause, Host: "c1", AtNS: 9, ForNS: 9})
	runs := 0
	run := func(_ uint64, o Options) (Result, error) {
		runs++
		x := s
		x.Plan, x.Coordinators, x.Workers, x.Transactions = *o.Plan, max(o.Coordinators, 1), max(o.Workers, 1), max(o.Transactions, 1)
		if o.Coordinators == 0 {
			x.Coordinators = s.Coordinators
		}
		if o.Workers == 0 {
			x.Workers = s.Workers
		}
		if o.Transactions == 0 {
			x.Transactions = s.Transactions
		}
		r := Result{Setup: x}
		if err := x.Plan.validate(x.hosts()...); err != nil {
			return r, err
		}
		needed := 0
		for _, f := range o.Plan.Faults {
			if f.AtNS == 13 || f.Host == "c1" {
				needed++
			}
		}
		for _, a := range o.Plan.Aims {
			if a.Moment == MomentCell {
				needed++
			}
		}
		switch {
		case needed == 3 && x.Coordinators >= 2 && x.Transactions >= 3:
			r.Failures = []string{"money: it is gone"}
		case x.Workers == 2:
			r.Failures = []string{"panic: something else"}
		}
		return r, nil
	}
	sh := &shrinker{seed: 1, kind: "money", best: Result{Setup: s, Failures: []string{"money: it is gone"}}, run: run}
	sh.shrink()
	b := &sh.best.Setup
	if len(b.Plan.Faults) != 2 || len(b.Plan.Aims) != 1 || b.Plan.RefusePercent != 0 || b.Plan.BreakEveryNS != 0 || b.Coordinators != 2 || b.Workers != 1 || b.Transactions != 3 {
		t.Errorf("after %d runs what is left is the plan %+v, %d coordinators, %d workers, %d transactions; want 2 faults, an aim, 2, 1, 3", runs, b.Plan, b.Coordinators, b.Workers, b.Transactions)
	}
	if runs > shrinkRuns {
		t.Errorf("%d runs were made, the bound is %d", runs, shrinkRuns)
	}
	if want := "go run ./cmd/fjord sim --seed 1 --coordinators 2 --workers 1 --txns 3 --plan p.json"; Replay(1, sh.opt, "p.json") != want {
		t.Errorf("replay is %q, want %q", Replay(1, sh.opt, "p.json"), want)
	}
}

// TestGivenPlanRepeatsTheRun: the plan that a seed draws, given as a plan, makes the
// same run: a failure can be replayed from what was printed.
func TestGivenPlanRepeatsTheRun(t *testing.T) {
	for seed := range uint64(4) {
		drawn, err := Run(seed, Options{})
		if err != nil {
			t.Fatal(err)
		}
		given, err := Run(seed, Options{Plan: &drawn.Setup.Plan})
		if err != nil {
			t.Fatal(err)
		}
		if drawn.Hash != given.Hash {
			t.Errorf("seed %d: the hash is %016x, with the plan given %016x", seed, drawn.Hash, given.Hash)
		}
	}
}

package simtest

import (
	"os"
	"testing"
)

// TestFound repeats runs that have found a fault in the engine, and must not again.
func TestFound(t *testing.T) {
	for _, f := range []struct {
		what string
		seed uint64
		opt  Options
		plan string // file in testdata; none: the seed draws it
	}{
		{"a deletion that was undone was taken for absence", 10, Options{Workload: "random", Nodes: 2, Copies: 2, Coordinators: 4}, "pending-absence.json"},
		{"the outcome of a recovery's own transaction stayed unknown", 1077, Options{}, ""},
		{"recoveries waited for one another's locks", 5701, Options{}, ""},
		{"a session without a seat was taken for one of a coordinator without a seat", 36, Options{}, ""},
		{"a coordinator that was fenced while it joined waited for ever", 117, Options{}, ""},
	} {
		t.Run(f.what, func(t *testing.T) {
			if f.plan != "" {
				file, err := os.Open("testdata/" + f.plan)
				if err != nil {
					t.Fatal(err)
				}
				p, err := ReadPlan(file)
				if err != nil {
					t.Fatal(err)
				}
				f.opt.Plan = &p
			}
			r, err := Run(f.seed, f.opt)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range r.Failures {
				t.Errorf("seed %d: %v", f.seed, x)
			}
		})
	}
}

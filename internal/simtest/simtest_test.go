package simtest_test

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"testing"

	"fjord/internal/simtest"
)

var (
	seeds    = flag.Int("seeds", 100, "how many seeds to run")
	start    = flag.Uint64("start", 1, "the first seed")
	one      = flag.Uint64("seed", 0, "run this seed only")
	workload = flag.String("workload", "", "run this workload only")
)

// TestMain lets garbage lie: worlds are small and short-lived.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// planFile is what a failure calls the plan that it prints.
const planFile = "plan.json"

// TestCampaign runs seeds, and prints what they came to. A seed that fails is shrunk.
func TestCampaign(t *testing.T) {
	c := simtest.Campaign{Options: simtest.Options{Workload: *workload}, Start: *start, Seeds: *seeds, Parallel: runtime.GOMAXPROCS(0)}
	if *one != 0 {
		c.Start, c.Seeds = *one, 1
	}
	if testing.Short() || raceEnabled {
		c.Seeds = min(c.Seeds, 10)
	}
	totals, err := c.Run()
	if err != nil {
		t.Fatal(err)
	}
	totals.Print(os.Stdout)
	for i := range totals.Failed {
		r, o := &totals.Failed[i], c.Options
		r.Print(os.Stdout, o, planFile)
		if i == 0 {
			small, o := simtest.Shrink(*r, o)
			small.Print(os.Stdout, o, planFile)
		}
		t.Errorf("seed %d failed", r.Setup.Seed)
	}
}

// TestSameSeedSameRun: a seed gives one history, whatever runs beside it.
func TestSameSeedSameRun(t *testing.T) {
	hashes := make(map[uint64]uint64)
	n := 12
	if raceEnabled {
		n = 3
	}
	for range 2 {
		c := simtest.Campaign{Start: 1000, Seeds: n, Parallel: 3, Done: func(r *simtest.Result) {
			if h, ok := hashes[r.Setup.Seed]; ok && h != r.Hash {
				t.Errorf("seed %d: the hash is %016x, and was %016x", r.Setup.Seed, r.Hash, h)
			}
			hashes[r.Setup.Seed] = r.Hash
		}}
		if _, err := c.Run(); err != nil {
			t.Fatal(err)
		}
	}
	different := make(map[uint64]bool)
	for _, h := range hashes {
		different[h] = true
	}
	if len(different) != len(hashes) {
		t.Errorf("%d seeds have %d hashes", len(hashes), len(different))
	}
}

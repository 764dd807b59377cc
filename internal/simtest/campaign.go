package simtest

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"fjord/verbs/sim"
)

// Campaign is many runs.
type Campaign struct {
	Options  Options
	Start    uint64 // the first seed
	Seeds    int
	Parallel int  // runs at once; each keeps one processor busy
	First    bool // end at the first seed that fails
	// Done is called after each run, in no order, by one goroutine at a time.
	Done func(*Result)
}

// Run runs them all, and returns what they came to.
func (c *Campaign) Run() (Totals, error) {
	if err := c.Options.Validate(); err != nil {
		return Totals{}, err
	}
	t := Totals{Errors: make(map[string]uint64), Events: make(map[string]uint64), Struck: make(map[sim.Kind]uint64)}
	began := time.Now()
	var mu sync.Mutex
	var failed error
	next, end := c.Start, c.Start+uint64(c.Seeds)
	var wg sync.WaitGroup
	for range max(1, c.Parallel) {
		wg.Go(func() {
			for {
				mu.Lock()
				seed := next
				next++
				mu.Unlock()
				if seed >= end {
					return
				}
				res, err := Run(seed, c.Options)
				mu.Lock()
				if err != nil {
					failed, end = fmt.Errorf("seed %d: %w", seed, err), 0
				} else {
					t.add(&res)
					if c.Done != nil {
						c.Done(&res)
					}
					if c.First && !res.OK() {
						end = min(end, seed) // those before it go on
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Wall = time.Since(began)
	slices.SortFunc(t.Failed, func(a, b Result) int { return int(int64(a.Setup.Seed - b.Setup.Seed)) })
	return t, failed
}

// Totals are what runs came to together.
type Totals struct {
	Seeds     int
	VirtualNS int64
	Wall      time.Duration
	Work      time.Duration // of all runs, one after the other
	Verbs     uint64
	Committed uint64
	Aborted   uint64
	Unknown   uint64
	Errors    map[string]uint64
	Events    map[string]uint64
	Struck    map[sim.Kind]uint64
	Undecided int
	Hash      uint64 // of all histories
	Failed    []Result
}

func (t *Totals) add(r *Result) {
	t.Seeds++
	t.VirtualNS += r.VirtualNS
	t.Work += r.Wall
	t.Verbs += r.Verbs
	t.Committed += r.Committed
	t.Aborted += r.Aborted
	t.Unknown += r.Unknown
	t.Hash ^= (r.Hash + r.Setup.Seed) * 0x9e3779b97f4a7c15
	addAll(t.Errors, r.Errors)
	addAll(t.Events, r.Events)
	addAll(t.Struck, r.Struck)
	if r.Undecided {
		t.Undecided++
	}
	if !r.OK() {
		t.Failed = append(t.Failed, *r)
	}
}

func addAll[K comparable](to, from map[K]uint64) {
	for k, n := range from {
		to[k] += n
	}
}

// Print writes the totals.
func (t *Totals) Print(w io.Writer) {
	fmt.Fprintf(w, "seeds         %d, %d failed, hash %016x\n", t.Seeds, len(t.Failed), t.Hash)
	fmt.Fprintf(w, "time          %.3f s virtual, %.1f s wall, %.1f seeds/s\n", float64(t.VirtualNS)/1e9, t.Wall.Seconds(), float64(t.Seeds)/t.Wall.Seconds())
	fmt.Fprintf(w, "transactions  %d committed, %d aborted, %d unknown; clients were told: %s\n", t.Committed, t.Aborted, t.Unknown, list(t.Errors))
	fmt.Fprintf(w, "faults        %s\n", list(t.Struck))
	fmt.Fprintf(w, "recoveries    %d of dead coordinators, %d coordinators joined again, %d recoveries tried again\n", t.Events[eventRecovered], t.Events[eventRejoined], t.Events[eventAgain])
	fmt.Fprintf(w, "verbs         %d, %.0f per second of one processor\n", t.Verbs, float64(t.Verbs)/t.Work.Seconds())
	if t.Undecided > 0 {
		fmt.Fprintf(w, "undecided     %d histories, at the checker's bound of steps\n", t.Undecided)
	}
}

// What coordinators log of recoveries.
const (
	eventRecovered = "recovered a dead coordinator"
	eventRejoined  = "taken for dead and fenced; joined again"
	eventAgain     = "recovery of a coordinator failed; it is tried again"
)

// list writes counts in the order of their names.
func list[K ~string](counts map[K]uint64) string {
	var s []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		if counts[k] > 0 {
			s = append(s, fmt.Sprintf("%d %s", counts[k], k))
		}
	}
	if len(s) == 0 {
		return "none"
	}
	return strings.Join(s, ", ")
}

package simtest

import (
	"fmt"
	"time"

	"fjord/internal/serial"
	"fjord/verbs/sim"
)

// Result is what became of a run.
type Result struct {
	Setup    Setup
	Failures []string // empty: all is well
	Hash     uint64   // of the history and of everything that has happened

	VirtualNS int64
	Wall      time.Duration
	Verbs     uint64
	Committed uint64 // attempts, by outcome
	Aborted   uint64
	Unknown   uint64
	Errors    map[string]uint64   // that clients were told
	Events    map[string]uint64   // what coordinators have logged
	Struck    map[sim.Kind]uint64 // faults, by kind
	Undecided bool                // the checker gave up
}

// OK tells whether nothing is wrong.
func (r *Result) OK() bool { return len(r.Failures) == 0 }

// wallClock is for speed alone; nothing in a run depends on it.
func wallClock() time.Duration { return time.Duration(time.Now().UnixNano()) }

func (r *run) result(wall time.Duration) Result {
	checked := time.Now()
	var verdict serial.Result
	if r.phase >= phaseVerdict {
		verdict = r.judge()
		r.history.checkValues(r.fail)
	}
	res := Result{Setup: r.setup, Failures: r.failures, Hash: r.history.hash.Sum64()*31 + r.world.Hash(),
		VirtualNS: r.world.Now(), Wall: wall + time.Since(checked), Verbs: r.world.Stats().Verbs,
		Aborted: r.outcomes[0], Committed: r.outcomes[1], Unknown: r.outcomes[2],
		Errors: r.errors, Events: r.events, Struck: make(map[sim.Kind]uint64), Undecided: verdict.Undecided}
	res.Struck["refused connection"], res.Struck["broken connection"] = r.refused, r.broken
	res.Struck["aimed crash"], res.Struck["aimed pause"] = r.hits[false], r.hits[true]
	for i, n := range r.world.Struck() {
		res.Struck[r.setup.Plan.Faults[i].Kind] += n
	}
	return res
}

// String is the result in a line or more.
func (r *Result) String() string {
	return fmt.Sprintf("seed %d: %d failures, hash %016x", r.Setup.Seed, len(r.Failures), r.Hash)
}

package bench

import (
	"context"
	"errors"

	"fjord/txn"
)

// The reasons of an aborted attempt: first those of txn.Reason, then these, then
// the benchmark's rollbacks.
const (
	reasonUnknown = txn.NumReasons + iota
	reasonCancelled
	reasonError
	numFixedReasons
)

// reasonNames returns the name of every reason by its number.
func reasonNames(rollbacks []*Rollback) []string {
	var names []string
	for r := range txn.NumReasons {
		names = append(names, txn.Reason(r).String())
	}
	names = append(names, "unknown", "cancelled", "error")
	for _, r := range rollbacks {
		names = append(names, r.reason)
	}
	return names
}

// reasonOf returns the number of the reason for which an attempt ended with err.
func reasonOf(err error, rollbacks []*Rollback) int {
	for i, r := range rollbacks {
		if err == r { // the plain case first: no allocation
			return numFixedReasons + i
		}
	}
	// Before the conflicts: an unknown outcome may have any cause, and a context
	// may have ended a wait for a lock.
	if errors.Is(err, txn.ErrCommitUnknown) {
		return reasonUnknown
	}
	if conflict := (*txn.ConflictError)(nil); errors.As(err, &conflict) && int(conflict.Reason) < txn.NumReasons {
		return int(conflict.Reason)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return reasonCancelled
	}
	for i, r := range rollbacks {
		if errors.Is(err, r) {
			return numFixedReasons + i
		}
	}
	return reasonError
}

// tally counts the attempts of one transaction type.
type tally struct {
	committed uint64
	aborted   []uint64 // by the number of the reason
	latencies latencies
}

func newTally(reasons, digits int) tally {
	return tally{aborted: make([]uint64, reasons), latencies: newLatencies(digits)}
}

func (t *tally) merge(o *tally) {
	t.committed += o.committed
	for i, n := range o.aborted {
		t.aborted[i] += n
	}
	t.latencies.merge(&o.latencies)
}

func (t *tally) totalAborted() uint64 {
	var sum uint64
	for _, n := range t.aborted {
		sum += n
	}
	return sum
}

// figures turns the counts of a measured part of some seconds into what is
// reported.
func (t *tally) figures(reasons []string, seconds float64) Figures {
	f := Figures{
		Attempted: t.committed + t.totalAborted(),
		Committed: t.committed,
		Aborted:   make(map[string]uint64, len(reasons)),
		Latency:   t.latencies.summary(),
	}
	for i, n := range t.aborted {
		f.Aborted[reasons[i]] = n
	}
	if seconds > 0 {
		f.TPS = float64(t.committed) / seconds
	}
	return f
}

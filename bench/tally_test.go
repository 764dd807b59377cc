package bench

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"fjord/txn"
)

func TestReasonOf(t *testing.T) {
	poor, gone := NewRollback("insufficient_funds"), NewRollback("gone")
	rollbacks := []*Rollback{poor, gone}
	names := reasonNames(rollbacks)
	locked := &txn.ConflictError{Reason: txn.ReasonLocked}
	for _, c := range []struct {
		err  error
		want string
	}{
		{locked, "locked"},
		{&txn.ConflictError{Reason: txn.ReasonVersion}, "version"},
		{fmt.Errorf("gave up: %w", &txn.ConflictError{Reason: txn.ReasonPending}), "pending"},
		{&txn.ConflictError{Reason: txn.ReasonInsert}, "insert"},
		{poor, "insufficient_funds"},
		{fmt.Errorf("wrapped: %w", gone), "gone"},
		{&txn.UnknownError{Cause: context.Canceled}, "unknown"},
		{&txn.UnknownError{Cause: locked}, "unknown"},
		{context.Canceled, "cancelled"},
		{fmt.Errorf("waiting: %w", context.DeadlineExceeded), "cancelled"},
		{errors.Join(context.Canceled, locked), "locked"},
		{txn.ErrNotFound, "error"},
		{NewRollback("insufficient_funds"), "error"}, // not one that was declared
	} {
		if got := names[reasonOf(c.err, rollbacks)]; got != c.want {
			t.Errorf("%v is %q, want %q", c.err, got, c.want)
		}
	}
}

func TestTallyFigures(t *testing.T) {
	reasons := reasonNames([]*Rollback{NewRollback("poor")})
	a, b := newTally(len(reasons), latencyDigits), newTally(len(reasons), latencyDigits)
	a.committed, b.committed = 10, 20
	a.aborted[txn.ReasonVersion], b.aborted[txn.ReasonVersion] = 1, 2
	b.aborted[reasonUnknown] = 3
	b.aborted[numFixedReasons] = 4
	a.merge(&b)
	f := a.figures(reasons, 2)
	if f.Committed != 30 || f.Attempted != 40 || f.TPS != 15 {
		t.Errorf("got %+v", f)
	}
	for reason, want := range map[string]uint64{"locked": 0, "version": 3, "pending": 0, "insert": 0, "unknown": 3, "cancelled": 0, "error": 0, "poor": 4} {
		if got, ok := f.Aborted[reason]; !ok || got != want {
			t.Errorf("%s is %d (there: %v), want %d", reason, got, ok, want)
		}
	}
	if f := a.figures(reasons, 0); f.TPS != 0 {
		t.Errorf("tps of no time is %v", f.TPS)
	}
}

func TestChecksKeepTheWorseResult(t *testing.T) {
	c := &Checks{}
	c.Add("a", true, "")
	c.Add("b", true, "")
	if !c.OK() {
		t.Error("all passed and yet not OK")
	}
	c.Add("a", false, "bad")
	c.Add("a", true, "")
	if c.OK() || len(c.List()) != 2 || c.List()[0] != (Check{"a", false, "bad"}) {
		t.Errorf("got %+v", c.List())
	}
}

func TestCountsAreComparedWithTheEngine(t *testing.T) {
	count := newTally(numFixedReasons+1, latencyDigits)
	count.committed = 100
	count.aborted[txn.ReasonLocked] = 7
	count.aborted[reasonUnknown] = 1
	count.aborted[reasonCancelled] = 2
	count.aborted[numFixedReasons] = 5
	engine := txn.Stats{Committed: 100, Cancelled: 7, Unknown: 1}
	engine.Aborted[txn.ReasonLocked] = 7
	c := &Checks{}
	c.addCounts(&count, engine)
	if !c.OK() {
		t.Errorf("equal counts: %+v", c.List())
	}
	for _, change := range []func(*txn.Stats){
		func(s *txn.Stats) { s.Committed++ },
		func(s *txn.Stats) { s.Aborted[txn.ReasonVersion]++ },
		func(s *txn.Stats) { s.Cancelled-- },
		func(s *txn.Stats) { s.Unknown = 0 },
	} {
		other := engine
		change(&other)
		c := &Checks{}
		c.addCounts(&count, other)
		if c.OK() || c.List()[0].Detail == "" {
			t.Errorf("a difference was not found: %+v against %+v", count, other)
		}
	}
}

package txn

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"fjord/coord"
	"fjord/layout"
)

// A conflict over a cell that is no key's names a key of the table that it
// belongs to, and one over an allocator the table that wants space.
func TestConflictOverACellWithoutKey(t *testing.T) {
	ctx := context.Background()
	db, err := Open(ctx, Options{MemoryNodes: 1, NodeMemory: 24 << 20, Sessions: 4, AddressCache: 64, MaxRetries: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tab, err := db.CreateTable(ctx, Schema{Name: "t", KeySize: 8, ValueSize: 8, Capacity: 1})
	if err != nil {
		t.Fatal(err)
	}
	s, err := db.co.AcquireManual(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	swap := func(a layout.Addr, from, to uint64) {
		t.Helper()
		old, _ := s.Alloc(8)
		node, va := db.co.Primary(a)
		s.CAS(node, va+layout.OffLock, from, to, old)
		s.Ring()
		if err := s.Wait(); err != nil || binary.LittleEndian.Uint64(old.B()) != from {
			t.Fatalf("lock %v: %v", a, err)
		}
	}
	insert := func() error {
		return db.Update(ctx, func(tx *Tx) error {
			for k := range byte(20) { // into one bucket of 8: the overflow cursor is needed
				if err := tx.Put(tab, []byte{'k', k}, nil); err != nil {
					return err
				}
			}
			return nil
		})
	}
	create := func() error {
		_, err := db.CreateTable(ctx, Schema{Name: "other", KeySize: 8, ValueSize: 8, Capacity: 1})
		return err
	}
	for _, c := range []struct {
		what       string
		cell       layout.Addr
		run        func() error
		table, key string
	}{
		{"overflow cursor", tab.cursorAddr(0), insert, "t", "k"},
		{"allocator", coord.AllocatorAddr(0), create, "catalog", "other"},
	} {
		swap(c.cell, 0, 77)
		err := c.run()
		swap(c.cell, 77, 0)
		var e *ConflictError
		if !errors.As(err, &e) || e.Reason != ReasonLocked || e.Table != c.table || len(e.Key) < len(c.key) || string(e.Key[:len(c.key)]) != c.key {
			t.Errorf("%s: %v; want a conflict over table %q and key %x", c.what, err, c.table, c.key)
		}
		if err := c.run(); err != nil {
			t.Errorf("%s, when it is free: %v", c.what, err)
		}
	}
}

// What the layer below refuses a session or a seat with comes out as an error of
// this one, and keeps what it says.
func TestErrorsOfSessions(t *testing.T) {
	for below, want := range map[error]error{
		coord.ErrNested: ErrNested, coord.ErrEnded: ErrClosed, coord.ErrNoSession: ErrFull, coord.ErrNoSeat: ErrFull,
		coord.ErrNoNode: ErrUnavailable, coord.ErrConfig: ErrOptions,
	} {
		err := sessionError(fmt.Errorf("in detail: %w", below))
		if !errors.Is(err, want) {
			t.Errorf("%v becomes %v, want one that is %v", below, err, want)
		}
		if below != coord.ErrNested && !errors.Is(err, below) {
			t.Errorf("%v is lost in %v", below, err)
		}
	}
	other := errors.New("other")
	if err := sessionError(other); err != other {
		t.Errorf("got %v", err)
	}
}

// The reasons in histories are words that a reader knows.
func TestReasonsInHistories(t *testing.T) {
	for want, err := range map[string]error{
		"unknown": &UnknownError{Cause: errors.New("x")}, "locked": fmt.Errorf("x: %w", &ConflictError{Reason: ReasonLocked}),
		"unavailable": &brokenError{errors.New("x")}, "rollback": errors.New("x"),
	} {
		if got := reasonOf(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
	cause := errors.New("cause")
	var unknown error = &UnknownError{ID: 7, Cause: cause}
	var broken error = &brokenError{cause}
	if !errors.Is(unknown, ErrCommitUnknown) || !errors.Is(unknown, cause) || !errors.Is(broken, ErrUnavailable) || !errors.Is(broken, cause) {
		t.Error("an error does not lead to its cause")
	}
}

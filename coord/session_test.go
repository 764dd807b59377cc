package coord

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"fjord/layout"
	"fjord/lock"
)

// outside is an address that no region has: a request for it breaks its connection.
const outside = 8

// freeCell is a cell that nobody uses.
func freeCell(shard uint16) layout.Addr { return layout.MakeAddr(shard, 8<<10) }

// lockCell locks a cell with a token.
func lockCell(t *testing.T, s *Session, a layout.Addr, tok lock.Token) {
	t.Helper()
	old, ok := s.Alloc(8)
	node, va := s.c.Primary(a)
	s.CAS(node, va+layout.OffLock, 0, uint64(tok), old)
	s.Ring()
	if err := s.Wait(); err != nil || !ok || binary.LittleEndian.Uint64(old.B()) != 0 {
		t.Fatalf("lock %v: %v, found %#x", a, err, binary.LittleEndian.Uint64(old.B()))
	}
}

// unhold frees it.
func unhold(s *Session, a layout.Addr, tok lock.Token) {
	node, va := s.c.Primary(a)
	s.Unhold(node, va, a, tok)
}

// posting has a session post all its requests, as with devices that lend no memory.
func posting(s *Session) {
	for i := range s.conns {
		s.conns[i].lender = nil
	}
}

// lockWord reads the lock of a cell.
func lockWord(t *testing.T, s *Session, a layout.Addr) uint64 {
	t.Helper()
	b, _ := s.Alloc(8)
	node, va := s.c.Primary(a)
	s.Read(node, va+layout.OffLock, b)
	s.Ring()
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	return binary.LittleEndian.Uint64(b.B())
}

// However many requests fail on one connection, the failure of another is seen too.
func TestEveryBrokenConnectionIsSeen(t *testing.T) {
	c := newTestCluster(t, small(2, 1))
	s := acquire(t, join(t, c, c, 1))
	defer s.Release()
	b, _ := s.Alloc(8)
	for range batchMax + 40 {
		s.Read(0, outside, b)
	}
	s.Read(1, outside, b)
	s.Ring()
	if s.Wait() == nil || !s.Lost(0) || !s.Lost(1) {
		t.Errorf("broken: %v; lost: node 0 %v, node 1 %v", s.Broken(), s.Lost(0), s.Lost(1))
	}
	if err := s.Repair(context.Background()); err != nil || s.Broken() != nil {
		t.Errorf("repair: %v, then %v", err, s.Broken())
	}
	lockCell(t, s, freeCell(0), 7)
	unhold(s, freeCell(0), 7)
	s.RingQuiet()
	if got := lockWord(t, s, freeCell(0)); got != 0 {
		t.Errorf("after the repair a lock was not freed: %#x", got)
	}
}

// Where requests execute as they are posted, a release that was rung out is not
// remembered, and both log slots are free. One that is staged still is.
func TestReleasesThatHaveExecutedAreForgotten(t *testing.T) {
	c := newTestCluster(t, small(2, 1))
	s := acquire(t, join(t, c, c, 1))
	defer s.Release()
	posting(s)
	takeLog(t, s)
	for i := range uint16(2) {
		lockCell(t, s, freeCell(i), 7)
		unhold(s, freeCell(i), 7)
	}
	if s.LogFree() {
		t.Error("the log slot is free before the releases are posted")
	}
	s.RingQuiet()
	if len(s.owed) != 0 || !s.LogFree() {
		t.Errorf("%d releases are remembered", len(s.owed))
	}
	if a, b := lockWord(t, s, freeCell(0)), lockWord(t, s, freeCell(1)); a != 0 || b != 0 {
		t.Errorf("locks %#x and %#x were not freed", a, b)
	}
}

// takeLog takes the log slot at hand.
func takeLog(t *testing.T, s *Session) {
	t.Helper()
	if err := s.TakeLog(context.Background()); err != nil {
		t.Fatalf("take log slot %d: %v", s.log, err)
	}
}

// A release that is lost with its connection is remembered until the repair makes
// it good; until then its log slot is passed over. One on another connection is not.
func TestLostReleasesAreMadeGood(t *testing.T) {
	c := newTestCluster(t, small(2, 1))
	s := acquire(t, join(t, c, c, 1))
	defer s.Release()
	takeLog(t, s)
	lost := s.log
	for i := range uint16(2) {
		lockCell(t, s, freeCell(i), 7)
	}
	b, _ := s.Alloc(8)
	s.Read(0, outside, b)
	unhold(s, freeCell(0), 7) // behind it: flushed
	unhold(s, freeCell(1), 7)
	s.RingQuiet()
	if !s.Lost(0) || s.Lost(1) || s.LogFree() {
		t.Fatalf("lost: node 0 %v, node 1 %v; log slot free: %v", s.Lost(0), s.Lost(1), s.LogFree())
	}
	for range 2 * logSlots {
		s.NextLog()
		if s.log == lost || !s.LogFree() {
			t.Errorf("log slot %d is turned to, free: %v; a release is owed on %d", s.log, s.LogFree(), lost)
		}
	}
	if len(s.owed) != 1 {
		t.Errorf("%d releases are remembered, want the lost one", len(s.owed))
	}
	if err := s.Repair(context.Background()); err != nil {
		t.Fatal(err)
	}
	if a, b := lockWord(t, s, freeCell(0)), lockWord(t, s, freeCell(1)); a != 0 || b != 0 {
		t.Errorf("locks are %#x and %#x", a, b)
	}
	if s.NextLog(); s.log != lost || !s.LogFree() {
		t.Errorf("after the repair log slot %d is next, free: %v; want %d", s.log, s.LogFree(), lost)
	}
}

// A connection that has failed matters to those who use it. What others do goes on
// beside it, for many turns, and so do their log slots, until the node is back: then
// the release that was lost on it is made good.
func TestFailuresAreTheirsWhoUseTheConnection(t *testing.T) {
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			c := newTestCluster(t, small(2, 1))
			w := &wire{Cluster: c}
			s := acquireIn(t, way, c, w)
			defer s.Release()
			ctx := context.Background()
			takeLog(t, s)
			lost := s.log
			lockCell(t, s, freeCell(0), 7)
			b, _ := s.Alloc(8)
			s.Read(0, outside, b)
			unhold(s, freeCell(0), 7) // flushed
			s.RingQuiet()
			w.refuse.Store(true)
			for range 5 {
				s.Reset()
				s.NextLog()
				lockCell(t, s, freeCell(1), 8) // and awaits it
				if err := s.Failed(); err != nil || s.Broken() == nil || !s.Lost(0) {
					t.Fatalf("failed: %v, broken: %v; want a failure that is another's", err, s.Broken())
				}
				takeLog(t, s)
				if s.log == lost {
					t.Fatalf("log slot %d is taken, on which a release is owed", lost)
				}
				unhold(s, freeCell(1), 8)
				s.RingQuiet()
				if err := s.Repair(ctx); err != nil {
					t.Errorf("repair of a connection that was not used: %v", err)
				}

				s.Reset()
				b, _ := s.Alloc(8)
				s.Read(0, 8, b)
				s.Ring()
				if err := s.Wait(); err == nil || !s.Void(0) || s.Void(1) {
					t.Errorf("use of the connection: %v; nothing executed: %v", err, s.Void(0))
				}
				if err := s.Repair(ctx); err == nil {
					t.Error("it was repaired while the node is away")
				}
			}
			if s.Reset(); s.Use(0) == nil || s.Use(1) != nil || s.Failed() == nil {
				t.Error("Use does not tell which connection has failed")
			}
			w.refuse.Store(false)
			s.Reset()
			if err := s.Repair(ctx); err != nil || s.Broken() != nil {
				t.Fatalf("with the node back: %v, broken: %v", err, s.Broken())
			}
			if got := lockWord(t, s, freeCell(0)); got != 0 || s.owes(s.conns[0]) {
				t.Errorf("the lock is %#x; owed: %+v", got, s.owed)
			}
		})
	}
}

// A probe behind a release of an earlier turn is no use of its connection. If it
// fails the log slot cannot be had, and the other is taken.
func TestFailedProbeIsNoUse(t *testing.T) {
	c := newTestCluster(t, small(2, 1))
	w := &wire{Cluster: c}
	s := acquireIn(t, "posted and awaited", c, w)
	defer s.Release()
	takeLog(t, s)
	lost := s.log
	lockCell(t, s, freeCell(0), 7)
	b, _ := s.Alloc(8)
	s.Read(0, outside, b)
	unhold(s, freeCell(0), 7)
	s.ring(s.conns[0], false) // nobody looks at completions, as nobody waits
	w.refuse.Store(true)
	s.Reset()
	s.NextLog()
	s.Reset()
	if s.NextLog(); s.log != lost {
		t.Fatalf("log slot %d is next, want %d", s.log, lost)
	}
	lockCell(t, s, freeCell(1), 8)
	if !s.Lost(0) {
		t.Fatal("the probe has told nothing")
	}
	takeLog(t, s)
	if s.log == lost {
		t.Errorf("log slot %d is taken, on which a release is owed", lost)
	}
	if err := s.Failed(); err != nil {
		t.Errorf("the probe counts as use: %v", err)
	}
	unhold(s, freeCell(1), 8)
	s.RingQuiet()
	w.refuse.Store(false)
	if err := s.Settle(context.Background()); err != nil {
		t.Error(err)
	}
}

// Without any slot left the log cannot be taken, and the error says what for.
func TestNoLogSlotLeft(t *testing.T) {
	c := newTestCluster(t, small(2, 1))
	w := &wire{Cluster: c}
	s := acquireIn(t, "posted and awaited", c, w)
	defer s.Release()
	for i := range uint16(logSlots) { // one on each node
		s.Reset()
		b, _ := s.Alloc(8)
		s.NextLog()
		takeLog(t, s)
		lockCell(t, s, freeCell(i), 7)
		s.Read(int(i), outside, b)
		unhold(s, freeCell(i), 7)
		s.RingQuiet()
	}
	w.refuse.Store(true)
	s.Reset()
	s.NextLog()
	wantErr(t, s.TakeLog(context.Background()), ErrNoNode, "all 2 log slots")
	w.refuse.Store(false)
	takeLog(t, s)
	if a, b := lockWord(t, s, freeCell(0)), lockWord(t, s, freeCell(1)); a != 0 || b != 0 {
		t.Errorf("locks are %#x and %#x", a, b)
	}
}

// What was posted on a connection that has failed may land as long as the old QP is
// there: Settle sees to its end, and wants no more where nothing is owed.
func TestSettleEndsBrokenConnections(t *testing.T) {
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			c := newTestCluster(t, small(2, 1))
			w := &wire{Cluster: c}
			s := acquireIn(t, way, c, w)
			defer s.Release()
			ctx := context.Background()
			b, _ := s.Alloc(8)
			s.Read(0, outside, b)
			s.Ring()
			if s.Wait() == nil {
				t.Fatal("no failure")
			}
			s.Reset()
			w.keep.Store(true)
			wantErr(t, s.Settle(ctx), ErrNoNode, "memory node 0")
			if err := s.Repair(ctx); err != nil {
				t.Errorf("repair of what this turn has not used: %v", err)
			}
			w.keep.Store(false)
			w.refuse.Store(true)
			if err := s.Settle(ctx); err != nil {
				t.Errorf("with the old QP gone: %v", err)
			}
			if n := len(c.nodes[0].links); n != 0 {
				t.Errorf("%d QPs are left at memory node 0", n)
			}
			tries := w.connects.Load()
			if err := s.Repair(ctx); err != nil || w.connects.Load() != tries {
				t.Errorf("repair where nothing is due: %v, %d tries", err, w.connects.Load()-tries)
			}
			w.refuse.Store(false)
			if err := s.Settle(ctx); err != nil || s.Broken() != nil {
				t.Errorf("with the node back: %v, broken: %v", err, s.Broken())
			}
		})
	}
}

// A repair that fails on the way is nobody's use of the connection either.
func TestFailedRepairIsNoUse(t *testing.T) {
	c := newTestCluster(t, small(2, 1))
	s := acquire(t, join(t, c, c, 1))
	defer s.Release()
	b, _ := s.Alloc(8)
	s.Read(0, outside, b)
	s.Ring()
	_ = s.Wait()
	nowhere := layout.MakeAddr(0, 1<<40) // the look at it breaks the new connection
	s.owed = append(s.owed, owed{addr: nowhere, token: 7, seq: idSeqMask, node: 0, slot: noSlot})
	s.Reset()
	lockCell(t, s, freeCell(1), 7)
	if err := s.Repair(context.Background()); err != nil || s.Failed() != nil || !s.Lost(0) {
		t.Errorf("repair: %v, failed: %v, lost: %v", err, s.Failed(), s.Lost(0))
	}
	unhold(s, freeCell(1), 7)
	s.RingQuiet()
	s.owed = nil
}

// Releases that nothing is known of, though every connection is well, are told as
// that.
func TestSettleSaysWhatItKnows(t *testing.T) {
	c := newTestCluster(t, small(2, 1))
	s := acquireIn(t, "posted and awaited", c, c)
	defer s.Release()
	s.owed = append(s.owed, owed{addr: freeCell(1), token: 7, seq: idSeqMask, node: 1})
	err := s.Settle(context.Background())
	if err == nil || strings.Contains(err.Error(), "%!") || !strings.Contains(err.Error(), "1 lock releases") || !strings.Contains(err.Error(), "memory node 1") {
		t.Errorf("got %v", err)
	}
	s.owed = nil
}

// A connection that cannot be brought up leaves nothing behind at the memory node.
func TestConnectionThatFailsIsUndone(t *testing.T) {
	c := newTestCluster(t, small(2, 1))
	dev, err := c.NewDevice("compute")
	if err != nil {
		t.Fatal(err)
	}
	no := errors.New("not today")
	d := &asynchronous{Device: dev, refuse: no}
	co := joinOn(t, d, c, 1)
	for range 3 {
		_, err := co.AcquireManual(context.Background())
		wantErr(t, err, no, "memory node 0")
	}
	if n := len(c.nodes[0].links); n != 0 {
		t.Errorf("%d QPs are left at memory node 0", n)
	}
	d.refuse = nil
	acquire(t, co).Release()
}

// More requests than a doorbell takes go out with several, in order.
func TestLongBatches(t *testing.T) {
	c := newTestCluster(t, small(1, 1))
	s := acquire(t, join(t, c, c, 1))
	defer s.Release()
	posting(s)
	node, va := s.c.Primary(freeCell(0))
	before := s.Stats
	const n = 5*sqDepth + 3
	src, _ := s.Alloc(8 * n)
	for i := range n {
		binary.LittleEndian.PutUint64(src.B()[8*i:], uint64(i+1))
		s.Write(node, va+layout.OffLock, src.Slice(8*i, 8*i+8))
	}
	s.Ring()
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	d := s.Stats.Sub(before)
	if want := uint64(n+batchMax-1) / batchMax; d.Write != n || d.BytesOut != 8*n || d.Doorbells != want || d.RoundTrips != 1 {
		t.Errorf("%d writes of %d bytes, %d doorbells, %d round trips; want %d, %d, %d, 1", d.Write, d.BytesOut, d.Doorbells, d.RoundTrips, n, 8*n, want)
	}
	if got := lockWord(t, s, freeCell(0)); got != n {
		t.Errorf("the last write was %d, want %d", got, n)
	}
	lockFree, _ := s.Alloc(8)
	clear(lockFree.B())
	s.Write(node, va+layout.OffLock, lockFree)
	s.Ring()
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
}

// Where a device lends its memory, what cannot be done there is posted, in order,
// and what comes behind it too, up to the doorbell.
func TestWindowsAndPostsKeepTheirOrder(t *testing.T) {
	c := newTestCluster(t, small(1, 1))
	s := acquire(t, join(t, c, c, 1))
	defer s.Release()
	lockCell(t, s, freeCell(0), 7) // the first posts find what a window can be opened to
	unhold(s, freeCell(0), 7)
	s.RingQuiet()
	node, va := s.c.Primary(freeCell(0))
	b, _ := s.Alloc(32)
	for i := range 4 {
		b.SetWord(8*i, uint64(i+1))
	}
	before := s.Stats
	s.Write(node, va, b.Slice(0, 8))
	if !s.conns[0].open {
		t.Fatal("no window was opened")
	}
	s.Write(node, va, b.Slice(8, 12)) // half a word
	if s.conns[0].open || s.conns[0].n != 1 {
		t.Errorf("half a word: window open %v, %d staged; want closed, 1", s.conns[0].open, s.conns[0].n)
	}
	s.Write(node, va, b.Slice(16, 24))
	if s.conns[0].open || s.conns[0].n != 2 {
		t.Errorf("behind half a word: window open %v, %d staged; want closed, 2", s.conns[0].open, s.conns[0].n)
	}
	s.RingOn()
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := lockWord(t, s, freeCell(0)); got != 3 {
		t.Errorf("the cell holds %d, the last write was 3", got)
	}
	s.Write(node, va, b.Slice(24, 32))
	s.RingOn()
	if !s.conns[0].open {
		t.Error("RingOn closed the window")
	}
	s.Write(node, va, s.zero)
	s.RingQuiet()
	if s.conns[0].open {
		t.Error("RingQuiet left the window open")
	}
	d := s.Stats.Sub(before)
	if d.Write != 5 || d.Doorbells != 5 { // window, post, the look, and two more
		t.Errorf("%d writes, %d doorbells; want 5 and 5", d.Write, d.Doorbells)
	}
	s.Read(node, 8, b)
	s.Ring()
	if s.Wait() == nil || !s.Lost(node) {
		t.Error("a READ outside of the region did not fail")
	}
	if err := s.Repair(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := lockWord(t, s, freeCell(0)); got != 0 {
		t.Errorf("after the repair the cell holds %d", got)
	}
}

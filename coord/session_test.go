package coord

import (
	"context"
	"encoding/binary"
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

// A release that is lost with its connection is remembered until the repair makes
// it good; until then its log slot is taken. One on another connection is not.
func TestLostReleasesAreMadeGood(t *testing.T) {
	c := newTestCluster(t, small(2, 1))
	s := acquire(t, join(t, c, c, 1))
	defer s.Release()
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
	s.NextLog()
	if !s.LogFree() {
		t.Error("the other log slot is taken too")
	}
	s.NextLog()
	if len(s.owed) != 1 || s.LogFree() {
		t.Errorf("%d releases are remembered, want the lost one; its log slot is free: %v", len(s.owed), s.LogFree())
	}
	if err := s.Repair(context.Background()); err != nil {
		t.Fatal(err)
	}
	if a, b := lockWord(t, s, freeCell(0)), lockWord(t, s, freeCell(1)); a != 0 || b != 0 || !s.LogFree() {
		t.Errorf("locks are %#x and %#x; log slot free: %v", a, b, s.LogFree())
	}
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

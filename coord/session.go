package coord

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"fjord/internal/words"
	"fjord/layout"
	"fjord/lock"
	"fjord/verbs"
)

// Session runs one transaction at a time: it has a QP to every memory node, a
// CQ, registered buffers and log slots. It belongs to the worker that acquired
// it until Release.
//
// Requests are staged by Read, Write, CAS and the like, rung out with one
// doorbell per QP by Ring, and awaited by Wait. A failure on one QP spoils that
// QP only; Repair brings it back.
type Session struct {
	c     *Coordinator
	seat  Seat // under which it is connected
	index int
	// User is what the layer above keeps with the session.
	User any
	// Stats counts what was posted and awaited.
	Stats VerbStats

	owner uint64 // 0: idle, else who runs on it; read and taken with sync/atomic
	ended uint64 // times it was released, for drain; likewise

	number uint16
	seq    uint32

	conns   []*conn
	cq      verbs.CQ
	waiter  *verbs.Waiter
	pending int  // signaled requests not yet polled
	sync    bool // the device executes requests while they are posted
	spoiled int  // connections that have failed
	turn    uint64
	arena   arena
	lkey    uint32
	log     int    // index of the log slot in use
	taken   bool   // it holds an entry of this turn's
	owed    []owed // in the order of posting
	zero    Buf    // a word that is always 0
	wcs     [16]verbs.WC
}

const (
	batchMax   = 128          // requests rung out with one doorbell
	sqDepth    = 4 * batchMax // slots of a send queue
	unlockSize = 16
)

// conn is a connection to a memory node.
type conn struct {
	node   int
	qp     verbs.QP
	wrs    *[batchMax]verbs.SendWR
	sges   *[batchMax][2]verbs.SGE // their pieces
	n      int                     // staged
	posted uint64
	done   uint64 // requests up to here have executed
	asked  uint64 // position of the latest signaled request
	free   uint64 // queue slots up to here are free again
	err    error  // the first failure since the last repair
	used   uint64 // the session's turn in which its doorbell was rung last
	broke  uint64 // used, when it failed
	remote uint32 // the responder's QPN
	rkey   uint32

	pieces bool // one of those staged has two pieces
	probed bool // the first of those staged is a probe, which is nobody's use of it

	lender verbs.Windower // the QP, if it can lend the node's memory
	open   bool           // it does
	window verbs.Window   // of no size when it is closed, or to be counted as another doorbell
	size   uint64         // of the window that is open
	_      [8]byte
}

// A connection takes whole cache lines: sessions on other processors have theirs beside it.
var _ [0]byte = [unsafe.Sizeof(conn{}) % 64]byte{}

// A request's ID is its node, and if it is signaled that and its position: so a
// completion finds its connection.
const (
	idNodeShift = 48
	idSignaled  = 1 << 47
	idSeqMask   = idSignaled - 1
)

// owed is a release that was posted but is not known to have executed.
type owed struct {
	addr    layout.Addr
	token   lock.Token
	version layout.Version // to install; 0: release the lock alone
	seq     uint64         // its position on its connection
	node    int32
	slot    int32 // that holds the entry of its transaction; noSlot: none does
}

// noSlot is the log slot of a transaction that has written no entry.
const noSlot = -1

func newSession(ctx context.Context, c *Coordinator, index int) (_ *Session, err error) {
	s := &Session{c: c, seat: c.Seat(), index: index, lkey: c.mr.LKey(), waiter: verbs.NewWaiter(c.rt)}
	s.sync = c.dev.Attr().Caps&verbs.CapSyncPost != 0
	conns := make([]conn, len(c.layout.Nodes))
	for i := range conns {
		s.conns = append(s.conns, &conns[i])
	}
	defer func() {
		if err != nil {
			s.free()
		}
	}()
	if !s.arena.init(&c.local) {
		return nil, fmt.Errorf("%w: all of %d bytes are in use, and a session takes %d; lower what transactions read and write at once, or raise Sessions",
			ErrNoMemory, len(c.mem.Bytes()), chunkSize)
	}
	s.zero, _ = s.arena.alloc(8) // the first chunk has room
	clear(s.zero.B())
	if s.cq, err = c.dev.CreateCQ(sqDepth * len(s.conns)); err != nil {
		return nil, fmt.Errorf("coord: session: %w", err)
	}
	for i, k := range s.conns {
		k.node, k.rkey = i, c.layout.Nodes[i].RKey
		k.wrs, k.sges = new([batchMax]verbs.SendWR), new([batchMax][2]verbs.SGE)
		for j := range k.wrs {
			k.sges[j][0].LKey, k.sges[j][1].LKey = s.lkey, s.lkey
			k.wrs[j].SGL, k.wrs[j].RKey, k.wrs[j].ID = k.sges[j][:1], k.rkey, uint64(i)<<idNodeShift
		}
		if err = s.connect(ctx, k); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// connect makes the QP of a connection.
func (s *Session) connect(ctx context.Context, k *conn) error { return s.connectAs(ctx, k, s.seat.ID) }

func (s *Session) connectAs(ctx context.Context, k *conn, id uint16) error {
	dev := s.c.dev
	qp, err := s.c.pd.CreateQP(verbs.QPInit{SendCQ: s.cq, RecvCQ: s.cq, MaxSendWR: sqDepth, MaxSendSGE: 2,
		MaxInline: min(dev.Attr().MaxInline, 64)})
	if err != nil {
		return fmt.Errorf("coord: connect to memory node %d: %w", k.node, err)
	}
	here := verbs.Endpoint{GID: dev.Attr().GID, QPN: qp.Num(), PSN: uint32(s.c.rt.Secret()) & (1<<24 - 1)}
	there, err := s.c.dir.Connect(ctx, k.node, id, here)
	if err == nil {
		if err = verbs.BringUp(qp, here, there, verbs.DefaultConnAttr(dev.Attr())); err != nil {
			_ = s.c.dir.Disconnect(context.WithoutCancel(ctx), k.node, there.QPN)
		}
	}
	if err != nil {
		_ = qp.Close() // the first error is the one to tell
		s.c.lost(id, err)
		return fmt.Errorf("coord: connect to memory node %d: %w", k.node, err)
	}
	if k.err != nil {
		s.spoiled--
	}
	k.qp, k.remote, k.err = qp, there.QPN, nil
	k.lender = nil
	if s.sync {
		k.lender, _ = qp.(verbs.Windower)
	}
	k.asked, k.free = k.posted, k.posted
	return nil
}

// free gives back what newSession took.
func (s *Session) free() {
	for _, k := range s.conns {
		if k.qp != nil {
			_ = k.qp.Close() // fails only if closed already
			_ = s.c.dir.Disconnect(context.Background(), k.node, k.remote)
			k.qp = nil
		}
	}
	if s.cq != nil {
		_ = s.cq.Close()
	}
	s.arena.free()
}

// Index is the session's place in its coordinator: which log slots it has.
func (s *Session) Index() int { return s.index }

// Coordinator returns the session's coordinator.
func (s *Session) Coordinator() *Coordinator { return s.c }

// Number is the session number in the session's tokens.
func (s *Session) Number() uint16 { return s.number }

// NextToken names a new transaction. When a session's sequence is used up it
// goes on under a fresh session number.
func (s *Session) NextToken() (lock.Token, error) {
	if s.seq == math.MaxUint32 || s.number == 0 {
		n, err := s.c.pool.number()
		if err != nil {
			return 0, err
		}
		s.number, s.seq = n, 0
	}
	s.seq++
	return lock.MakeToken(s.seat.ID, s.number, s.seq), nil
}

// Alloc returns registered memory until Reset; ok is false if there is no more.
func (s *Session) Alloc(n int) (Buf, bool) { return s.arena.alloc(n) }

// Quick is Alloc from what is at hand. It returns nil if Alloc has to be asked.
func (s *Session) Quick(n int) Buf { return s.arena.next(n) }

// Reset begins a turn: it takes back all buffers, and connections that have failed
// matter only if they are used again.
func (s *Session) Reset() {
	s.turn++
	s.arena.reset(s.zero.n)
}

// reach returns the place of a request in the memory of the connection's node, as
// far as the window is open. Where it returns nil, borrow may do better; else the
// request has to be staged.
func (k *conn) reach(va uint64, n int) unsafe.Pointer {
	off := va - k.window.VA
	if (off|uint64(n))&uneven != 0 || off+uint64(n) > k.window.Size {
		return nil
	}
	return unsafe.Add(k.window.Base, off)
}

// uneven are the bits of an offset or a length that are set when it is not that of
// whole words, or is negative.
const uneven = 1<<63 | 7

// borrow is reach for the first request of what would be a doorbell: it opens the
// window, if what is staged is not to come first.
func (s *Session) borrow(k *conn, va uint64, n int) unsafe.Pointer {
	switch {
	case k.window.Size > 0: // outside of it, or uneven
		return nil
	case k.open:
		k.window.Size = k.size
	case k.lender == nil || k.n > 0:
		return nil
	default:
		if k.window, k.open = k.lender.OpenWindow(k.rkey); !k.open {
			return nil
		}
		k.size = k.window.Size
	}
	s.Stats.Doorbells++
	return k.reach(va, n)
}

// giveBack closes the window.
func (k *conn) giveBack() {
	k.open, k.window.Size = false, 0
	k.lender.CloseWindow()
}

// stage returns a connection that has room for some requests, 2 at most.
func (s *Session) stage(k *conn) *conn {
	if k.open {
		k.giveBack() // what it was used for comes first, in a doorbell of its own
	}
	if k.n > batchMax-2 {
		s.ring(k, true)
	}
	return k
}

// next returns the connection's next request, of one piece.
func (k *conn) next(op verbs.Opcode, flags verbs.SendFlags, va uint64, b Buf) *verbs.SendWR {
	i := k.n & (batchMax - 1) // the mask says to the compiler that it is in range
	k.n++
	g := &k.sges[i][0]
	g.Addr, g.Length = b.Addr(), uint32(b.n)
	w := &k.wrs[i]
	w.RemoteAddr, w.Opcode, w.Flags = va, op, flags
	return w
}

// Read stages a READ of as many bytes as dst has.
func (s *Session) Read(node int, va uint64, dst Buf) {
	s.Stats.Read++
	s.Stats.BytesIn += uint64(dst.n)
	k := s.conns[node]
	p := k.reach(va, dst.n)
	if p == nil {
		p = s.borrow(k, va, dst.n)
	}
	if p != nil {
		words.LoadWords(dst.p, p, dst.n>>3)
		return
	}
	s.stage(k).next(verbs.OpRead, 0, va, dst)
}

// Write stages a WRITE of src.
func (s *Session) Write(node int, va uint64, src Buf) {
	s.Stats.Write++
	s.Stats.BytesOut += uint64(src.n)
	k := s.conns[node]
	p := k.reach(va, src.n)
	if p == nil {
		p = s.borrow(k, va, src.n)
	}
	if p != nil {
		words.StoreWords(p, src.p, src.n>>3)
		return
	}
	s.stage(k).next(verbs.OpWrite, 0, va, src)
}

// Write2 stages one WRITE of two pieces.
func (s *Session) Write2(node int, va uint64, a, b Buf) {
	s.Stats.Write++
	s.Stats.BytesOut += uint64(a.n + b.n)
	k := s.conns[node]
	p := k.reach(va, a.n+b.n)
	if p == nil {
		p = s.borrow(k, va, a.n+b.n)
	}
	if p != nil && a.n&7 == 0 {
		words.StoreWords(p, a.p, a.n>>3)
		words.StoreWords(unsafe.Add(p, a.n), b.p, b.n>>3)
		return
	}
	s.stage(k)
	g := &k.sges[k.n&(batchMax-1)][1]
	g.Addr, g.Length = b.Addr(), uint32(b.n)
	w := k.next(verbs.OpWrite, 0, va, a)
	w.SGL, k.pieces = w.SGL[:2], true
}

// Prefetch says that a cell is about to be asked for.
func (s *Session) Prefetch(node int, va uint64) {
	k := s.conns[node]
	p := k.reach(va, layout.CellAlign)
	if p == nil {
		p = s.borrow(k, va, layout.CellAlign)
	}
	if p != nil {
		words.Prefetch(p)
	}
}

// CAS stages a compare and swap; the word found goes to old, 8 bytes.
func (s *Session) CAS(node int, va, compare, swap uint64, old Buf) {
	s.Stats.CAS++
	s.Stats.BytesOut += 16
	s.Stats.BytesIn += 8
	k := s.conns[node]
	p := k.reach(va, 8)
	if p == nil {
		p = s.borrow(k, va, 8)
	}
	if p != nil {
		old.SetWord(0, words.CAS((*uint64)(p), compare, swap))
		return
	}
	w := s.stage(k).next(verbs.OpCAS, 0, va, old)
	w.CompareAdd, w.Swap = compare, swap
}

// Lock stages the CAS that takes a cell's lock for t, and behind it the READ of
// the cell's slot. That goes to mem, and behind it the word that the CAS found.
func (s *Session) Lock(node int, va uint64, t lock.Token, mem Buf, slot int) {
	s.Stats.CAS++
	s.Stats.Read++
	s.Stats.BytesOut += 16
	s.Stats.BytesIn += uint64(8 + slot)
	k := s.conns[node]
	p := k.reach(va, slot)
	if p == nil {
		p = s.borrow(k, va, slot)
	}
	if p != nil {
		mem.SetWord(slot, words.CAS((*uint64)(p), 0, uint64(t))) // the lock is the first word
		words.LoadWords(mem.p, p, slot>>3)
		return
	}
	w := s.stage(k).next(verbs.OpCAS, 0, va+layout.OffLock, mem.Slice(slot, slot+8))
	w.CompareAdd, w.Swap = 0, uint64(t)
	k.next(verbs.OpRead, 0, va, mem.Slice(0, slot))
}

// Unlock stages, for a cell whose new image is committed, the one WRITE that
// frees its lock and clears pending. node and va are those of its primary. pair are
// the two words that it writes, 0 and v, and stay untouched until Reset.
func (s *Session) Unlock(node int, va uint64, a layout.Addr, t lock.Token, v layout.Version, pair Buf) {
	s.Stats.Write++
	s.Stats.BytesOut += unlockSize
	k := s.conns[node]
	p := k.reach(va, unlockSize)
	if p == nil {
		p = s.borrow(k, va, unlockSize)
	}
	if p != nil {
		words.Release((*uint64)(p), 0)
		words.Release((*uint64)(unsafe.Add(p, layout.OffVersion)), uint64(v))
		return
	}
	s.owe(k, va, a, t, v, pair)
}

// Unhold stages the release of a lock that is held by t: its word alone.
func (s *Session) Unhold(node int, va uint64, a layout.Addr, t lock.Token) {
	s.Stats.Write++
	s.Stats.BytesOut += 8
	k := s.conns[node]
	p := k.reach(va, 8)
	if p == nil {
		p = s.borrow(k, va, 8)
	}
	if p != nil {
		words.Release((*uint64)(p), 0)
		return
	}
	s.owe(k, va, a, t, 0, s.zero)
}

// owe stages the WRITE that frees a lock, and notes that it is owed.
func (s *Session) owe(k *conn, va uint64, a layout.Addr, t lock.Token, v layout.Version, words Buf) {
	s.stage(k).next(verbs.OpWrite, s.c.inline, va+layout.OffLock, words)
	slot := int32(noSlot)
	if s.taken {
		slot = int32(s.log)
	}
	s.owed = append(s.owed, owed{addr: a, token: t, version: v, seq: k.posted + uint64(k.n), node: int32(k.node), slot: slot})
}

// Ring rings the doorbell of every connection with staged requests. The last of
// each is signaled; Wait waits for it.
func (s *Session) Ring() { s.ringAll(true, false) }

// RingOn is Ring when others follow as soon as these have been answered, up to
// RingQuiet: windows stay open.
func (s *Session) RingOn() { s.ringAll(true, true) }

// RingQuiet rings the doorbells for requests that nobody waits for.
func (s *Session) RingQuiet() {
	s.ringAll(false, false)
	if s.c.inline == 0 {
		_ = s.drain() // buffers are about to be used again; a failure stays with its connection
	}
}

func (s *Session) ringAll(await, on bool) {
	rung := false
	for _, k := range s.conns {
		if k.open {
			if k.window.Size = 0; !on {
				k.giveBack()
			}
		}
		if k.n > 0 {
			s.ring(k, await)
			rung = true
		}
	}
	if rung && s.sync {
		s.rung()
	}
}

// ring rings the doorbell of one connection.
func (s *Session) ring(k *conn, await bool) {
	n := k.n
	k.n = 0
	if n > 1 || !k.probed {
		k.used = s.turn
	}
	k.probed = false
	if k.err != nil {
		k.posted += uint64(n) // nothing of it will execute, as done tells
		return
	}
	wrs := k.wrs[:n]
	// Where requests have executed when they are posted, only slots are to be had back.
	asked := !s.sync && (await || s.c.inline == 0) || k.posted+uint64(n)-k.free >= sqDepth/2
	if asked {
		s.ask(k, &wrs[n-1], n)
	}
	s.Stats.Doorbells++
	posted, err := k.qp.PostSend(wrs)
	k.posted += uint64(n)
	if asked {
		wrs[n-1].ID = uint64(k.node) << idNodeShift
		if posted == n {
			s.pending++
		}
	}
	if k.pieces {
		k.pieces = false
		for i := range wrs {
			wrs[i].SGL = wrs[i].SGL[:1]
		}
	}
	if err != nil {
		s.spoil(k, err)
	}
}

// rung follows when all doorbells have been rung and what was posted has executed: it
// learns what became of it. Failures complete, signaled or not.
func (s *Session) rung() {
	if c := s.cq.Poll(s.wcs[:]); c > 0 {
		s.takeAll(c)
	}
	if s.spoiled == 0 {
		s.owed = s.owed[:0] // everything has executed
		return
	}
	for _, k := range s.conns {
		if k.err == nil {
			k.done = k.posted
		}
	}
}

// takeAll looks at c completions that were polled, and at all that follow.
func (s *Session) takeAll(c int) {
	for ; c > 0; c = s.cq.Poll(s.wcs[:]) {
		s.take(s.wcs[:c])
	}
}

// ask makes w, the last of n staged requests, signaled, and waits for slots if
// there are not enough.
func (s *Session) ask(k *conn, w *verbs.SendWR, n int) {
	for k.posted-k.free+uint64(n) > sqDepth {
		if s.pending == 0 || s.poll() != nil {
			break // PostSend will say what is wrong
		}
	}
	k.asked = k.posted + uint64(n)
	w.Flags |= verbs.FlagSignaled
	w.ID |= idSignaled | k.asked
}

// Wait waits for everything that Ring rang out: one round trip. It returns Failed;
// what was used and did not fail has executed.
func (s *Session) Wait() error {
	s.Stats.RoundTrips++
	if s.pending == 0 && s.spoiled == 0 {
		return nil
	}
	return s.await()
}

func (s *Session) await() error {
	if err := s.drain(); err != nil {
		return err
	}
	return s.Failed()
}

// drain takes completions until none is awaited.
func (s *Session) drain() error {
	for s.pending > 0 {
		if err := s.poll(); err != nil {
			return err
		}
	}
	return nil
}

// Broken returns the failure of a connection that has failed since its last
// repair, nil if all are well.
func (s *Session) Broken() error {
	if s.spoiled == 0 {
		return nil
	}
	return s.failure(anyConn)
}

// Failed is Broken for the connections that this turn has used: the others'
// failures are not its own.
func (s *Session) Failed() error {
	if s.spoiled == 0 {
		return nil
	}
	return s.failure(s.mine)
}

func (s *Session) failure(counts func(*conn) bool) error {
	for _, k := range s.conns {
		if k.err != nil && counts(k) {
			return k.err
		}
	}
	return nil
}

// anyConn takes every connection.
func anyConn(*conn) bool { return true }

// mine tells that this turn has used a connection.
func (s *Session) mine(k *conn) bool { return k.used == s.turn }

// due tells that releases on a broken connection are owed, or that requests of it may
// still be on their way.
func (s *Session) due(k *conn) bool { return k.qp != nil || s.owes(k) }

// owes tells that releases on a connection are not known to have executed.
func (s *Session) owes(k *conn) bool {
	return slices.ContainsFunc(s.owed, func(o owed) bool { return int(o.node) == k.node && s.open(&o) })
}

// open tells that a release is not known to have executed.
func (s *Session) open(o *owed) bool { return o.seq > s.conns[o.node].done }

// spoil notes the failure of a connection; the first one counts.
func (s *Session) spoil(k *conn, err error) {
	if k.err == nil {
		k.err = fmt.Errorf("coord: memory node %d: %w", k.node, err)
		if k.open {
			k.giveBack()
		}
		k.lender = nil // until it is repaired
		k.broke = k.used
		s.spoiled++
	}
}

// Lost tells whether requests on a connection may not have executed.
func (s *Session) Lost(node int) bool { return s.conns[node].err != nil }

// Use is for those who are about to use a connection, and had better know before
// whether it has failed: it returns Failed of this one.
func (s *Session) Use(node int) error {
	k := s.conns[node]
	k.used = s.turn
	return k.err
}

// Void tells that no request of this turn on a connection has executed: it had
// failed before the first.
func (s *Session) Void(node int) bool {
	k := s.conns[node]
	return k.err != nil && k.broke != s.turn
}

func (s *Session) poll() error {
	n, err := s.waiter.Poll(s.cq, s.wcs[:], 0)
	if err != nil {
		return err
	}
	s.take(s.wcs[:n])
	return nil
}

// take looks at completions.
func (s *Session) take(wcs []verbs.WC) {
	for i := range wcs {
		wc := &wcs[i]
		k := s.conns[wc.ID>>idNodeShift]
		if wc.ID&idSignaled != 0 {
			s.pending--
			k.free = wc.ID & idSeqMask
		}
		switch {
		case wc.Status == verbs.StatusSuccess:
			k.done = max(k.done, wc.ID&idSeqMask)
		case k.err == nil:
			s.spoil(k, wc.Err())
		case wc.Status != verbs.StatusWRFlushErr:
			k.err = fmt.Errorf("coord: memory node %d: %w", k.node, wc.Err()) // the cause, not its consequences
		}
	}
}

// trim forgets releases that are known to have executed.
func (s *Session) trim() {
	keep := s.owed[:0]
	for _, o := range s.owed {
		if s.open(&o) {
			keep = append(keep, o)
		}
	}
	s.owed = keep
}

// NextLog turns to the next log slot, and stages, where needed, requests that
// will tell whether the unlocks of the transaction that last used it are done.
// They ride with the doorbells of the round trip that comes next. A slot that can
// only be had by a repair is passed over.
func (s *Session) NextLog() {
	s.taken = false
	s.turnLog()
	if len(s.owed) == 0 {
		return
	}
	s.trim()
	for i := 1; i < logSlots && s.logBlocked(); i++ {
		s.turnLog()
	}
	s.probeLog()
}

func (s *Session) turnLog() { s.log = (s.log + 1) % logSlots }

// probeLog stages what will tell whether the log slot is free.
func (s *Session) probeLog() {
	for i := range s.owed {
		if o := &s.owed[i]; int(o.slot) == s.log {
			s.probe(o)
		}
	}
}

// probe stages a request that does nothing, if none is staged, behind a release:
// when it has executed, so has that. It is no use of the connection.
func (s *Session) probe(o *owed) {
	if k := s.conns[o.node]; k.n == 0 {
		s.Write(int(o.node), 0, s.zero.Slice(0, 0))
		k.probed = true
	}
}

// LogFree tells whether the log slot may be overwritten.
func (s *Session) LogFree() bool {
	return !slices.ContainsFunc(s.owed, func(o owed) bool { return int(o.slot) == s.log && s.open(&o) })
}

// logBlocked tells whether a release is owed on the log slot whose connection has
// failed.
func (s *Session) logBlocked() bool {
	return slices.ContainsFunc(s.owed, func(o owed) bool { return int(o.slot) == s.log && s.conns[o.node].err != nil && s.open(&o) })
}

// TakeLog takes the log slot for an entry: releases are owed on it from here on. It
// waits until those of the entry that stands there are known to have executed.
func (s *Session) TakeLog(ctx context.Context) error {
	if len(s.owed) > 0 {
		if err := s.awaitLog(ctx); err != nil {
			return err
		}
	}
	s.taken = true
	return nil
}

// awaitLog waits until the log slot is free. Where a connection has failed it takes
// another slot instead, and repairs it only if there is none.
func (s *Session) awaitLog(ctx context.Context) error {
	if s.LogFree() {
		return nil
	}
	for range 2 {
		for range logSlots {
			s.probeLog()
			s.Ring()
			_ = s.Wait() // a failure shows in the slot
			if s.trim(); s.LogFree() {
				return nil
			}
			s.turnLog()
		}
		if err := s.repairAll(ctx, s.due, s.due); err != nil {
			return fmt.Errorf("coord: all %d log slots of the session wait for lock releases: %w", logSlots, err)
		}
	}
	return s.unsettled()
}

// LogSlotSize is the size of a log slot.
func (s *Session) LogSlotSize() int { return int(s.c.layout.Header.LogSlotSize) }

// LogAddr is the virtual address of the present log slot at a node.
func (s *Session) LogAddr(node int) uint64 {
	l := s.c.layout
	return l.Nodes[node].Base + l.Header.LogSlotAt(s.seat.Place, s.index, s.log)
}

// Repair brings broken connections back, of those that this turn has used or on
// which something is due: the old QP is destroyed at the memory node first, so that
// nothing of it can land later; then releases that may have been lost are made good.
// It fails if a node that this turn has used is not reachable.
func (s *Session) Repair(ctx context.Context) error {
	return s.repairAll(ctx, func(k *conn) bool { return s.mine(k) || s.due(k) }, s.mine)
}

// repairAll is Repair of those that are wanted. It fails if one of those that count is
// not reachable.
func (s *Session) repairAll(ctx context.Context, wanted, counts func(*conn) bool) error {
	var first error
	for _, k := range s.conns {
		if k.open {
			k.giveBack() // nothing may wait meanwhile
		}
	}
	for _, k := range s.conns {
		if k.err == nil || !wanted(k) {
			continue
		}
		used := k.used
		err := s.repair(ctx, k)
		k.used = used // a repair is nobody's use of it
		if err != nil && first == nil && counts(k) {
			first = err
		}
	}
	return first
}

func (s *Session) repair(ctx context.Context, k *conn) error {
	for s.pending > 0 { // let the flushes arrive, they belong to the old QP
		if err := s.poll(); err != nil {
			return err
		}
	}
	if k.qp != nil {
		if err := s.c.dir.Disconnect(ctx, k.node, k.remote); err != nil {
			return fmt.Errorf("coord: memory node %d: %w", k.node, err)
		}
		_ = k.qp.Close() // fails only if closed already
		k.qp = nil
	}
	if err := s.connect(ctx, k); err != nil {
		return err
	}
	return s.redeem(ctx, k)
}

// redeem makes good the releases that a failed connection may have lost. Each
// lock is looked at first, and freed only if it still holds its token: it may
// have been freed and taken by another since.
func (s *Session) redeem(ctx context.Context, k *conn) error {
	debts := append([]owed(nil), s.owed...)
	keep := s.owed[:0]
	for _, o := range debts {
		if int(o.node) != k.node {
			keep = append(keep, o)
		}
	}
	s.owed = keep
	done := k.done // what Free posts completes behind these, and says nothing of them
	for i, o := range debts {
		if int(o.node) != k.node || o.seq <= done {
			continue
		}
		if err := s.Free(o.addr, o.token, o.version); err != nil {
			for _, p := range debts[i:] {
				if int(p.node) == k.node && p.seq > done {
					p.seq = idSeqMask // only a redeem can tell
					s.owed = append(s.owed, p)
				}
			}
			s.spoil(k, err)
			return err
		}
	}
	k.done = k.posted
	return nil
}

// Free releases a lock of which it is not known whether t holds it: it is READ,
// and freed only if it does. With a version, the cell's image of that version is
// t's and committed: pending is cleared as well, also where only the lock was
// freed.
func (s *Session) Free(a layout.Addr, t lock.Token, v layout.Version) error {
	buf, ok := s.Alloc(24)
	words, ok2 := s.Alloc(unlockSize)
	if !ok || !ok2 {
		return errNoLocal
	}
	node, va := s.c.Primary(a)
	s.Read(node, va, buf)
	s.Ring()
	if err := s.waitFor(node); err != nil {
		return err
	}
	mine := layout.Lock(buf.B()) == uint64(t)
	half := v != 0 && layout.CellVersion(buf.B()) == v|layout.Pending && layout.Writer(buf.B()) == uint64(t)
	words.SetWord(0, 0)
	words.SetWord(8, uint64(v))
	switch {
	case mine && v != 0:
		s.Write(node, va+layout.OffLock, words)
	case mine:
		s.Write(node, va+layout.OffLock, words.Slice(0, 8))
	case half:
		s.Write(node, va+layout.OffVersion, words.Slice(8, 16))
	default:
		return nil
	}
	s.Ring()
	return s.waitFor(node)
}

var errNoLocal = errors.New("coord: local registered memory is used up")

// waitFor is Wait that looks at one connection only.
func (s *Session) waitFor(node int) error {
	_ = s.Wait() // failures of other connections are not this caller's
	return s.conns[node].err
}

// Settle waits until all releases are known to have executed, and nothing else is on
// its way.
func (s *Session) Settle(ctx context.Context) error {
	if s.Fenced() {
		s.owed = s.owed[:0] // what it has not released others do
		return nil
	}
	for range 2 {
		if err := s.repairAll(ctx, anyConn, s.due); err != nil {
			return err
		}
		if s.trim(); len(s.owed) == 0 {
			return nil
		}
		for i := range s.owed {
			s.probe(&s.owed[i])
		}
		s.Ring()
		_ = s.Wait() // the next turn looks at failures
	}
	return s.unsettled()
}

// unsettled says what is known of the releases that are owed, nil if none is.
func (s *Session) unsettled() error {
	s.trim()
	if len(s.owed) == 0 {
		return nil
	}
	err := s.failure(s.owes)
	if err == nil {
		err = fmt.Errorf("memory node %d answers, but not about them", s.owed[0].node)
	}
	return fmt.Errorf("coord: %d lock releases are not known to have executed: %w", len(s.owed), err)
}

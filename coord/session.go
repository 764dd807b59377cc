package coord

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

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
	index int
	// User is what the layer above keeps with the session.
	User any
	// Stats counts what was posted and awaited.
	Stats VerbStats

	owner uint64 // 0: idle, else who runs on it; read and taken with sync/atomic
	ended uint64 // times it was released, for drain; likewise

	number uint16
	seq    uint32

	conns   []conn
	cq      verbs.CQ
	waiter  *verbs.Waiter
	wcs     [16]verbs.WC
	pending int  // signaled requests not yet polled
	rung    bool // Ring was called, Wait was not
	sync    bool // the device executes requests while they are posted
	spoiled int  // connections that have failed
	arena   arena
	lkey    uint32
	log     int // index of the log slot in use
	owed    []owed
	zero    Buf // a word that is always 0
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
	remote uint32 // the responder's QPN
	rkey   uint32
	n      int // staged
	posted uint64
	done   uint64           // requests up to here have executed
	asked  uint64           // position of the latest signaled request
	free   uint64           // queue slots up to here are free again
	err    error            // the first failure since the last repair
	owedTo [logSlots]uint64 // position of the latest release posted, by log slot
	wrs    *[batchMax]verbs.SendWR
	sges   *[batchMax][2]verbs.SGE // what they point to
}

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
	seq     uint64
	node    int
	slot    int // log slot of its transaction
}

func newSession(ctx context.Context, c *Coordinator, index int) (_ *Session, err error) {
	s := &Session{c: c, index: index, lkey: c.mr.LKey(), waiter: verbs.NewWaiter(c.rt)}
	s.sync = c.dev.Attr().Caps&verbs.CapSyncPost != 0
	s.conns = make([]conn, len(c.layout.Nodes))
	defer func() {
		if err != nil {
			s.free()
		}
	}()
	if !s.arena.init(&c.local) {
		return nil, fmt.Errorf("%w: no local memory for another session", ErrConfig)
	}
	s.zero, _ = s.arena.alloc(8) // the first chunk has room
	clear(s.zero.B())
	if s.cq, err = c.dev.CreateCQ(sqDepth * len(s.conns)); err != nil {
		return nil, fmt.Errorf("coord: session: %w", err)
	}
	for i := range s.conns {
		k := &s.conns[i]
		k.node, k.rkey = i, c.layout.Nodes[i].RKey
		k.wrs, k.sges = new([batchMax]verbs.SendWR), new([batchMax][2]verbs.SGE)
		for j := range k.wrs {
			k.sges[j][0].LKey, k.sges[j][1].LKey = s.lkey, s.lkey
			k.wrs[j].SGL, k.wrs[j].RKey, k.wrs[j].ID = k.sges[j][:], k.rkey, uint64(i)<<idNodeShift
		}
		if err = s.connect(ctx, k); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// connect makes the QP of a connection.
func (s *Session) connect(ctx context.Context, k *conn) error {
	dev := s.c.dev
	qp, err := s.c.pd.CreateQP(verbs.QPInit{SendCQ: s.cq, RecvCQ: s.cq, MaxSendWR: sqDepth, MaxSendSGE: 2,
		MaxInline: min(dev.Attr().MaxInline, 64)})
	if err != nil {
		return fmt.Errorf("coord: connect to memory node %d: %w", k.node, err)
	}
	here := verbs.Endpoint{GID: dev.Attr().GID, QPN: qp.Num(), PSN: uint32(s.c.rt.Secret()) & (1<<24 - 1)}
	there, err := s.c.dir.Connect(ctx, k.node, here)
	if err == nil {
		err = verbs.BringUp(qp, here, there, verbs.DefaultConnAttr(dev.Attr()))
	}
	if err != nil {
		_ = qp.Close() // the first error is the one to tell
		return fmt.Errorf("coord: connect to memory node %d: %w", k.node, err)
	}
	if k.err != nil {
		s.spoiled--
	}
	k.qp, k.remote, k.err = qp, there.QPN, nil
	k.asked, k.free = k.posted, k.posted
	return nil
}

// free gives back what newSession took.
func (s *Session) free() {
	for i := range s.conns {
		if k := &s.conns[i]; k.qp != nil {
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

// Waiter returns the session's waiter.
func (s *Session) Waiter() *verbs.Waiter { return s.waiter }

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
	return lock.MakeToken(s.c.seat.ID, s.number, s.seq), nil
}

// Alloc returns registered memory until Reset; ok is false if there is no more.
func (s *Session) Alloc(n int) (Buf, bool) { return s.arena.alloc(n) }

// Reset takes back all buffers.
func (s *Session) Reset() {
	s.arena.reset(s.zero.n)
}

// stage returns the connection to a node and the index of its next request.
func (s *Session) stage(node int) (*conn, int) {
	k := &s.conns[node]
	if k.n == batchMax {
		s.ring(k, true)
	}
	i := k.n
	k.n = i + 1
	return k, i & (batchMax - 1) // the mask says to the compiler that i is in range
}

// Read stages a READ of as many bytes as dst has.
func (s *Session) Read(node int, va uint64, dst Buf) {
	k, i := s.stage(node)
	w, g := &k.wrs[i], &k.sges[i][0]
	g.Addr, g.Length = dst.Addr(), uint32(dst.n)
	w.Opcode, w.Flags, w.RemoteAddr, w.SGL = verbs.OpRead, 0, va, w.SGL[:1]
	s.Stats.Read++
	s.Stats.BytesIn += uint64(dst.n)
}

// Write stages a WRITE of src.
func (s *Session) Write(node int, va uint64, src Buf) {
	k, i := s.stage(node)
	w, g := &k.wrs[i], &k.sges[i][0]
	g.Addr, g.Length = src.Addr(), uint32(src.n)
	w.Opcode, w.Flags, w.RemoteAddr, w.SGL = verbs.OpWrite, 0, va, w.SGL[:1]
	s.Stats.Write++
	s.Stats.BytesOut += uint64(src.n)
}

// Write2 stages one WRITE of two pieces.
func (s *Session) Write2(node int, va uint64, a, b Buf) {
	k, i := s.stage(node)
	w, g := &k.wrs[i], &k.sges[i]
	g[0].Addr, g[0].Length = a.Addr(), uint32(a.n)
	g[1].Addr, g[1].Length = b.Addr(), uint32(b.n)
	w.Opcode, w.Flags, w.RemoteAddr, w.SGL = verbs.OpWrite, 0, va, w.SGL[:2]
	s.Stats.Write++
	s.Stats.BytesOut += uint64(a.n + b.n)
}

// CAS stages a compare and swap; the word found goes to old, 8 bytes.
func (s *Session) CAS(node int, va, compare, swap uint64, old Buf) {
	k, i := s.stage(node)
	w, g := &k.wrs[i], &k.sges[i][0]
	g.Addr, g.Length = old.Addr(), 8
	w.Opcode, w.Flags, w.RemoteAddr, w.SGL = verbs.OpCAS, 0, va, w.SGL[:1]
	w.CompareAdd, w.Swap = compare, swap
	s.Stats.CAS++
	s.Stats.BytesOut += 16
	s.Stats.BytesIn += 8
}

// Unlock stages, for a cell whose new image is committed, the one WRITE that
// frees its lock and clears pending. words are the two that it writes, 0 and v,
// and stay untouched until Reset.
func (s *Session) Unlock(a layout.Addr, t lock.Token, v layout.Version, words Buf) {
	node, va := s.c.Primary(a)
	s.Write(node, va+layout.OffLock, words)
	s.owe(node, a, t, v)
}

// Unhold stages the release of a lock that is held by t: its word alone.
func (s *Session) Unhold(a layout.Addr, t lock.Token) {
	node, va := s.c.Primary(a)
	s.Write(node, va+layout.OffLock, s.zero)
	s.owe(node, a, t, 0)
}

// owe notes that the request staged last frees a lock.
func (s *Session) owe(node int, a layout.Addr, t lock.Token, v layout.Version) {
	k := &s.conns[node]
	if s.c.inline {
		k.wrs[(k.n-1)&(batchMax-1)].Flags = verbs.FlagInline
	}
	k.owedTo[s.log] = k.posted + uint64(k.n)
	n := len(s.owed)
	if n == cap(s.owed) {
		s.owed = append(s.owed, owed{})
	}
	s.owed = s.owed[:n+1]
	o := &s.owed[n]
	o.addr, o.token, o.version, o.seq, o.node, o.slot = a, t, v, k.owedTo[s.log], node, s.log
}

// Ring rings the doorbell of every connection with staged requests. The last of
// each is signaled; Wait waits for it.
func (s *Session) Ring() {
	s.rung = true
	for i := range s.conns {
		if k := &s.conns[i]; k.n > 0 {
			s.ring(k, true)
		}
	}
}

// RingQuiet rings the doorbells for requests that nobody waits for.
func (s *Session) RingQuiet() {
	for i := range s.conns {
		if k := &s.conns[i]; k.n > 0 {
			s.ring(k, false)
		}
	}
	if !s.c.inline {
		_ = s.drain() // buffers are about to be used again; a failure stays with its connection
	}
}

func (s *Session) ring(k *conn, signal bool) {
	n := k.n
	k.n = 0
	if k.err != nil {
		k.posted += uint64(n) // nothing of it will execute, as done tells
		return
	}
	if s.sync {
		signal = false // what was posted has executed; only slots are to be had back
	}
	signal = signal || !s.c.inline || k.posted-k.asked >= sqDepth/2
	for k.posted-k.free+uint64(n) > sqDepth {
		if s.pending == 0 || s.poll() != nil {
			break // PostSend will say what is wrong
		}
	}
	w := &k.wrs[(n-1)&(batchMax-1)]
	if signal {
		k.asked = k.posted + uint64(n)
		w.Flags |= verbs.FlagSignaled
		w.ID |= idSignaled | k.asked
	}
	s.Stats.Doorbells++
	posted, err := k.qp.PostSend(k.wrs[:n])
	k.posted += uint64(n)
	if signal {
		w.ID = uint64(k.node) << idNodeShift
		if posted == n {
			s.pending++
		}
	}
	if err != nil {
		s.spoil(k, fmt.Errorf("coord: memory node %d: %w", k.node, err))
	}
	if s.sync {
		if c := s.cq.Poll(s.wcs[:]); c > 0 { // failures complete, signaled or not
			s.take(s.wcs[:c])
		}
		if k.err == nil {
			k.done = k.posted
		}
	}
}

// Wait waits for everything that Ring rang out: one round trip. It returns the
// first failure; what did not fail has executed.
func (s *Session) Wait() error {
	if s.rung {
		s.rung = false
		s.Stats.RoundTrips++
		if !s.sync {
			if err := s.drain(); err != nil {
				return err
			}
		}
	}
	return s.Broken()
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
	for i := range s.conns {
		if s.conns[i].err != nil {
			return s.conns[i].err
		}
	}
	return nil
}

// spoil notes the failure of a connection; the first one counts.
func (s *Session) spoil(k *conn, err error) {
	if k.err == nil {
		k.err = err
		s.spoiled++
	}
}

// Lost tells whether requests on a connection may not have executed.
func (s *Session) Lost(node int) bool { return s.conns[node].err != nil }

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
		k := &s.conns[wc.ID>>idNodeShift]
		if wc.ID&idSignaled != 0 {
			s.pending--
			k.free = wc.ID & idSeqMask
		}
		switch {
		case wc.Status == verbs.StatusSuccess:
			k.done = max(k.done, wc.ID&idSeqMask)
		case k.err == nil:
			s.spoil(k, fmt.Errorf("coord: memory node %d: %w", k.node, wc.Err()))
		case wc.Status != verbs.StatusWRFlushErr:
			k.err = fmt.Errorf("coord: memory node %d: %w", k.node, wc.Err()) // the cause, not its consequences
		}
	}
}

// trim forgets releases that are known to have executed.
func (s *Session) trim() {
	keep := s.owed[:0]
	for _, o := range s.owed {
		if o.seq > s.conns[o.node].done {
			keep = append(keep, o)
		}
	}
	s.owed = keep
}

// NextLog turns to the next log slot, and stages, where needed, requests that
// will tell whether the unlocks of the transaction that last used it are done.
// They ride with the doorbells of the round trip that comes next.
func (s *Session) NextLog() {
	s.log = (s.log + 1) % logSlots
	for i := range s.conns {
		if k := &s.conns[i]; k.owedTo[s.log] > k.done && k.n == 0 {
			s.Write(i, 0, s.zero.Slice(0, 0))
		}
	}
	if len(s.owed) >= trimAt {
		s.trim()
	}
}

// trimAt is how many releases are remembered before those that are done are
// looked for.
const trimAt = 64

// LogFree tells whether the log slot may be overwritten.
func (s *Session) LogFree() bool {
	for i := range s.conns {
		if k := &s.conns[i]; k.owedTo[s.log] > k.done {
			return false
		}
	}
	return true
}

// LogSlotSize is the size of a log slot.
func (s *Session) LogSlotSize() int { return int(s.c.layout.Header.LogSlotSize) }

// LogAddr is the virtual address of the present log slot at a node.
func (s *Session) LogAddr(node int) uint64 {
	l := s.c.layout
	return l.Nodes[node].Base + l.Header.LogSlotAt(s.c.seat.Place, s.index, s.log)
}

// Repair brings broken connections back: the old QP is destroyed at the memory
// node first, so that nothing of it can land later; then releases that may have
// been lost are made good. It fails if a node is not reachable.
func (s *Session) Repair(ctx context.Context) error {
	var first error
	for i := range s.conns {
		k := &s.conns[i]
		if k.err == nil {
			continue
		}
		if err := s.repair(ctx, k); err != nil && first == nil {
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
		if o.node != k.node {
			keep = append(keep, o)
		}
	}
	s.owed = keep
	done := k.done // what Free posts completes behind these, and says nothing of them
	for i, o := range debts {
		if o.node != k.node || o.seq <= done {
			continue
		}
		if err := s.Free(o.addr, o.token, o.version); err != nil {
			for _, p := range debts[i:] {
				if p.node == k.node && p.seq > done {
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
	binary.LittleEndian.PutUint64(words.B(), 0)
	binary.LittleEndian.PutUint64(words.B()[8:], uint64(v))
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

// Settle waits until all releases are known to have executed.
func (s *Session) Settle(ctx context.Context) error {
	for range 2 {
		if s.Broken() != nil {
			if err := s.Repair(ctx); err != nil {
				return err
			}
		}
		s.trim()
		if len(s.owed) == 0 {
			return nil
		}
		for _, o := range s.owed {
			if k := &s.conns[o.node]; k.n == 0 {
				s.Write(o.node, 0, s.zero.Slice(0, 0))
			}
		}
		s.Ring()
		_ = s.Wait() // the next turn looks at failures
	}
	s.trim()
	if len(s.owed) > 0 {
		return fmt.Errorf("coord: %d lock releases are not known to have executed: %w", len(s.owed), s.Broken())
	}
	return nil
}

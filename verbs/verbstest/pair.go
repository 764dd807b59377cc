package verbstest

import (
	"bytes"
	"unsafe"

	"fjord/internal/words"
	"fjord/verbs"
)

// conf are the knobs of a connection that a test may turn.
type conf struct {
	init  verbs.QPInit // CQs are filled in
	conn  verbs.ConnAttr
	size  uint64       // of each side's region
	depth int          // of each CQ
	mr    verbs.Access // of each side's region
	idle  bool         // leave both QPs in RESET
}

// side is one end of a connection with what belongs to it. Its waits are for
// one worker at a time.
type side struct {
	t          *T
	dev        verbs.Device
	pd         verbs.PD
	send, recv verbs.CQ
	qp         verbs.QP
	mr         verbs.MR
	psn        uint32
	conn       verbs.ConnAttr
	sendW      *verbs.Waiter
	recvW      *verbs.Waiter
	nextID     uint64
}

// pair connects A and B.
func (t *T) pair(turn ...func(c *conf)) (a, b *side) {
	t.Helper()
	return t.connect(t.a, t.b, turn...)
}

func (t *T) connect(da, db verbs.Device, turn ...func(c *conf)) (a, b *side) {
	t.Helper()
	c := conf{size: 64 << 10, depth: 256, mr: verbs.AccessAll, init: verbs.QPInit{MaxSendWR: 64, MaxRecvWR: 64,
		MaxSendSGE: min(da.Attr().MaxSGE, db.Attr().MaxSGE, 8), MaxRecvSGE: min(da.Attr().MaxSGE, db.Attr().MaxSGE, 8),
		MaxInline: min(da.Attr().MaxInline, db.Attr().MaxInline, 256)}}
	c.conn = verbs.DefaultConnAttr(da.Attr())
	c.conn.MTU = min(c.conn.MTU, db.Attr().ActiveMTU)
	c.conn.RdAtomic = min(c.conn.RdAtomic, db.Attr().MaxQPRdAtomic)
	for _, f := range turn {
		f(&c)
	}
	a, b = t.side(da, c), t.side(db, c)
	if !c.idle {
		t.bringUp(a, b)
	}
	return a, b
}

// impatient gives a silent peer some 17 ms. (The usual half second keeps
// a busy host from looking like a dead one.)
func impatient(c *conf) { c.conn.Timeout, c.conn.RetryCnt = 10, 3 }

func idle(c *conf) { c.idle = true }

func sized(n uint64) func(c *conf) { return func(c *conf) { c.size = n } }

func (t *T) side(d verbs.Device, c conf) *side {
	t.Helper()
	s := &side{t: t, dev: d, conn: c.conn, sendW: verbs.NewWaiter(t.rt), recvW: verbs.NewWaiter(t.rt), nextID: 1}
	s.pd = t.newPD(d)
	s.send, s.recv = t.newCQ(d, c.depth), t.newCQ(d, c.depth)
	s.mr = t.register(s.pd, c.size, c.mr)
	s.qp = s.newQP(c)
	return s
}

// newQP makes another QP on the side's own PD and CQs.
func (s *side) newQP(c conf) verbs.QP {
	s.t.Helper()
	c.init.SendCQ, c.init.RecvCQ = s.send, s.recv
	qp, err := s.pd.CreateQP(c.init)
	if err != nil {
		s.t.Fatalf("CreateQP(%+v): %v", c.init, err)
	}
	s.psn = uint32(s.t.rt.Secret()) & (1<<24 - 1)
	return qp
}

func (t *T) newPD(d verbs.Device) verbs.PD {
	t.Helper()
	pd, err := d.AllocPD()
	if err != nil {
		t.Fatalf("AllocPD: %v", err)
	}
	return pd
}

func (t *T) newCQ(d verbs.Device, depth int) verbs.CQ {
	t.Helper()
	cq, err := d.CreateCQ(depth)
	if err != nil {
		t.Fatalf("CreateCQ(%d): %v", depth, err)
	}
	return cq
}

// mapped returns memory that the suite frees at the end.
func (t *T) mapped(size uint64) *verbs.Memory {
	t.Helper()
	m, err := verbs.MapMemory(size, verbs.HugeTransparent)
	if err != nil {
		t.Fatalf("MapMemory(%d): %v", size, err)
	}
	t.mems = append(t.mems, m)
	return m
}

func (t *T) register(pd verbs.PD, size uint64, access verbs.Access) verbs.MR {
	t.Helper()
	mr, err := pd.RegisterMR(t.mapped(size), access)
	if err != nil {
		t.Fatalf("RegisterMR(%d bytes, %#x): %v", size, access, err)
	}
	return mr
}

func (s *side) endpoint() verbs.Endpoint {
	return verbs.Endpoint{GID: s.dev.Attr().GID, QPN: s.qp.Num(), PSN: s.psn}
}

// bringUp connects two sides in RESET.
func (t *T) bringUp(a, b *side) {
	t.Helper()
	// The responder first: what the other sends at once must find it.
	if err := verbs.BringUp(b.qp, b.endpoint(), a.endpoint(), b.conn); err != nil {
		t.Fatal(err)
	}
	if err := verbs.BringUp(a.qp, a.endpoint(), b.endpoint(), a.conn); err != nil {
		t.Fatal(err)
	}
}

// reconnect takes both sides the way back: RESET, then up with new PSNs.
func (t *T) reconnect(a, b *side) {
	t.Helper()
	for _, s := range []*side{a, b} {
		s.modify(verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState)
		s.psn = uint32(t.rt.Secret()) & (1<<24 - 1)
	}
	t.bringUp(a, b)
}

func (s *side) modify(attr verbs.QPAttr, mask verbs.AttrMask) {
	s.t.Helper()
	if err := s.qp.Modify(attr, mask); err != nil {
		s.t.Fatalf("Modify(%v, %v) in %v: %v", attr.State, mask, s.qp.State(), err)
	}
}

func (s *side) toErr() {
	s.t.Helper()
	s.modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState)
}

// is waits until the QP is in that state.
func (s *side) is(st verbs.QPState) {
	s.t.Helper()
	s.t.eventually("QP is in "+st.String(), func() bool { return s.qp.State() == st })
}

// sge names n bytes of the side's region.
func (s *side) sge(off, n int) verbs.SGE {
	return verbs.SGE{Addr: s.mr.Addr() + uint64(off), Length: uint32(n), LKey: s.mr.LKey()}
}

func (s *side) sgl(off, n int) []verbs.SGE { return []verbs.SGE{s.sge(off, n)} }

// to makes a signaled request between n bytes at local offset off and peer's
// region at roff. CompareAdd and Swap are the caller's.
func (s *side) to(peer *side, op verbs.Opcode, off, n, roff int) verbs.SendWR {
	s.nextID++
	wr := verbs.SendWR{ID: s.nextID, Opcode: op, Flags: verbs.FlagSignaled, SGL: s.sgl(off, n)}
	switch op {
	case verbs.OpSend, verbs.OpSendImm:
	case verbs.OpRead, verbs.OpWrite, verbs.OpWriteImm, verbs.OpCAS, verbs.OpFAA, verbs.OpInvalid:
		wr.RemoteAddr, wr.RKey = peer.mr.Addr()+uint64(roff), peer.mr.RKey()
	}
	return wr
}

func (s *side) post(wrs ...verbs.SendWR) {
	s.t.Helper()
	if n, err := s.qp.PostSend(wrs); err != nil || n != len(wrs) {
		s.t.Fatalf("PostSend of %d requests in %v: accepted %d, %v", len(wrs), s.qp.State(), n, err)
	}
}

// receive posts a receive of n bytes at off and returns its ID.
func (s *side) receive(off, n int) uint64 {
	s.t.Helper()
	s.nextID++
	return s.receiveWR(verbs.RecvWR{ID: s.nextID, SGL: s.sgl(off, n)})
}

func (s *side) receiveWR(wr verbs.RecvWR) uint64 {
	s.t.Helper()
	if n, err := s.qp.PostRecv([]verbs.RecvWR{wr}); err != nil || n != 1 {
		s.t.Fatalf("PostRecv in %v: accepted %d, %v", s.qp.State(), n, err)
	}
	return wr.ID
}

// sent waits for the next completion of the send CQ, arrived for that of the
// receive CQ.
func (s *side) sent() verbs.WC {
	s.t.Helper()
	return s.t.next(s.sendW, s.send)
}

func (s *side) arrived() verbs.WC {
	s.t.Helper()
	return s.t.next(s.recvW, s.recv)
}

func (t *T) next(w *verbs.Waiter, cq verbs.CQ) verbs.WC {
	t.Helper()
	var wc [1]verbs.WC
	if _, err := w.Poll(cq, wc[:], t.deadline()); err != nil {
		t.Fatalf("no completion: %v", err)
	}
	return wc[0]
}

// none checks that a CQ is empty.
func (t *T) none(cq verbs.CQ, when string) {
	t.Helper()
	var wc [1]verbs.WC
	if cq.Poll(wc[:]) != 0 {
		t.Fatalf("%s there is a completion: %v", when, show(wc[0]))
	}
}

// do runs one request to success.
func (s *side) do(wr verbs.SendWR) verbs.WC {
	s.t.Helper()
	s.post(wr)
	wc := s.sent()
	if wc.Status != verbs.StatusSuccess || wc.ID != wr.ID {
		s.t.Fatalf("%v with ID %d completed as %v", wr.Opcode, wr.ID, show(wc))
	}
	return wc
}

// fails runs one request that must end with status want and take the QP to ERR.
func (s *side) fails(wr verbs.SendWR, want verbs.Status) {
	s.t.Helper()
	s.post(wr)
	s.ends(wr, want)
	s.is(verbs.StateErr)
}

// ends waits for the failed completion of wr.
func (s *side) ends(wr verbs.SendWR, want verbs.Status) {
	s.t.Helper()
	wc := s.sent()
	if wc.Status != want || wc.ID != wr.ID || wc.QPN != s.qp.Num() || wc.Opcode != wr.Opcode.Completion() {
		s.t.Fatalf("%v with ID %d completed as %v, right is %v", wr.Opcode, wr.ID, show(wc), want)
	}
}

// same compares a completion field by field; the vendor's code is his own.
func (t *T) same(got, want verbs.WC) {
	t.Helper()
	got.VendorErr = 0
	if got.Status != verbs.StatusSuccess { // then the other fields mean nothing
		got = verbs.WC{ID: got.ID, Status: got.Status, Opcode: got.Opcode, QPN: got.QPN}
	}
	if got != want {
		t.Fatalf("completion is   %v\nright would be %v", show(got), show(want))
	}
}

func show(w verbs.WC) string {
	type plain verbs.WC
	return sprintf("%v %v %+v", w.Opcode, w.Status, plain(w))
}

// peek reads the side's region as its owner may while peers write: word by word.
func (s *side) peek(off, n int) []byte {
	b := make([]byte, n)
	words.Load(unsafe.Pointer(unsafe.SliceData(b)), unsafe.Pointer(&s.mr.Bytes()[off]), n)
	return b
}

func (s *side) poke(off int, b []byte) {
	words.Store(unsafe.Pointer(&s.mr.Bytes()[off]), unsafe.Pointer(unsafe.SliceData(b)), len(b))
}

func (s *side) word(off int) uint64 {
	var w uint64
	words.Load(unsafe.Pointer(&w), unsafe.Pointer(&s.mr.Bytes()[off]), 8)
	return w
}

// pointer is a word of the region, for the atomics of the processor.
func (s *side) pointer(off int) *uint64 { return (*uint64)(unsafe.Pointer(&s.mr.Bytes()[off])) }

func (s *side) setWord(off int, w uint64) {
	words.Store(unsafe.Pointer(&s.mr.Bytes()[off]), unsafe.Pointer(&w), 8)
}

// holds checks bytes of the side's region.
func (s *side) holds(what string, off int, want []byte) {
	s.t.Helper()
	if got := s.peek(off, len(want)); !bytes.Equal(got, want) {
		s.t.Fatalf("%s: %s", what, difference(got, want))
	}
}

func difference(got, want []byte) string {
	for i := range want {
		if got[i] != want[i] {
			end := min(i+16, len(want))
			return sprintf("%d bytes differ from byte %d on: got %x, right is %x", len(want), i, got[i:end], want[i:end])
		}
	}
	return "equal"
}

// fill returns n bytes that depend on seed and differ from their neighbours.
func fill(seed byte, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = seed + byte(i)*7 + byte(i>>8)
	}
	return b
}

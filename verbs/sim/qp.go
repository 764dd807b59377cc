package sim

import (
	"fmt"
	"slices"

	"fjord/verbs"
)

// qp is one end of a connection: a requester, whose half of the connection is a
// line, and a responder, whose half is a conn.
type qp struct {
	dev    *Device
	w      *World
	pd     *pd
	num    uint32
	index  int // among the QPs of the NIC
	init   verbs.QPInit
	sendCQ *cq
	recvCQ *cq

	state     verbs.QPState
	attr      verbs.QPAttr
	closed    bool // refuses everything: destroyed, or its device is closed
	destroyed bool

	// The send queue. Requests from head to next have been sent, those to tail wait.
	sq         []*request // a power of two
	head       uint64
	next       uint64
	tail       uint64
	freed      uint64 // slots below are free
	fetching   int    // READs and atomics sent and not answered
	packets    uint32 // sent and not answered
	psn        uint32 // next to use
	broken     bool   // the request at next has failed; those before it are waited for
	stalled    bool   // the peer has told to wait for its receives
	retries    int
	recovering uint64 // position from which requests are being sent again; 0: none
	rnrTries   int
	progress   int64 // when the peer was last heard
	line       *line

	rq   recvQueue
	conn *conn
}

// line is the requester's half of a connection: one life of a QP in RTS. It
// outlives that, as long as requests are on their way.
type line struct {
	q       *qp
	life    uint64
	src     verbs.GID
	dest    verbs.GID
	destQPN uint32
	psn     uint32 // the first
	mtu     uint32
	timeout int64 // ns; 0: none
	open    bool  // the QP is in RTS
	lost    bool  // what is on its way does not arrive any more
	conn    *conn // found when the first request arrived
	timing  bool  // a timer is set
	read    int64 // when the latest READ or atomic executed that was answered
	arrival int64 // ps of the latest request: they do not overtake each other
	pace    pace
}

// CreateQP makes a QP in RESET.
func (p *pd) CreateQP(init verbs.QPInit) (verbs.QP, error) {
	scq, ok1 := init.SendCQ.(*cq)
	rcq, ok2 := init.RecvCQ.(*cq)
	d := p.dev
	if !ok1 || !ok2 || scq.dev != d || rcq.dev != d {
		return nil, fmt.Errorf("%w: SendCQ and RecvCQ must be completion queues of device %q", verbs.ErrInvalid, d.attr.Name)
	}
	if err := d.attr.CheckQP(&init); err != nil {
		return nil, err
	}
	if err := p.usable(); err != nil {
		return nil, err
	}
	if len(d.list) == maxQP {
		return nil, fmt.Errorf("%w: %d queue pairs", verbs.ErrLimit, maxQP)
	}
	q := &qp{dev: d, w: d.w, pd: p, init: init, sendCQ: scq, recvCQ: rcq, index: d.host.nic.qps, head: 1, next: 1, tail: 1}
	d.host.nic.qps++
	q.sq = make([]*request, powerOfTwo(init.MaxSendWR))
	q.rq.init(init.MaxRecvWR, init.MaxRecvSGE)
	if err := scq.attach(q); err != nil {
		return nil, err
	}
	if err := rcq.attach(q); err != nil {
		scq.detach(q)
		return nil, err
	}
	for q.num <= 1 || d.qps[q.num] != nil { // 0 and 1 are the management QPs
		q.num = uint32(d.w.Secret()) & (1<<24 - 1)
	}
	d.qps[q.num] = q
	d.list = append(d.list, q)
	p.users++
	return q, nil
}

func (q *qp) Num() uint32          { return q.num }
func (q *qp) State() verbs.QPState { return q.state }

// Query returns the attributes.
func (q *qp) Query() verbs.QPAttr {
	a := q.attr
	a.State = q.state
	return a
}

// Modify moves the QP.
func (q *qp) Modify(a verbs.QPAttr, mask verbs.AttrMask) error {
	if q.closed || q.dev.dead {
		return verbs.ErrClosed
	}
	if err := verbs.CheckModify(q.state, &a, mask); err != nil {
		return err
	}
	next := q.state
	if mask&verbs.AttrState != 0 {
		next = a.State
	}
	switch next {
	case verbs.StateReset:
		q.reset()
		return nil
	case verbs.StateErr:
		q.enterErr()
		return nil
	case verbs.StateInit, verbs.StateRTR, verbs.StateRTS:
	}
	if err := q.dev.attr.CheckAttr(&a, mask); err != nil {
		return err
	}
	q.attr.Set(&a, mask)
	switch {
	case next == q.state:
	case next == verbs.StateRTR:
		q.conn = &conn{q: q, gid: q.attr.DestGID, qpn: q.attr.DestQPN, first: q.attr.RQPSN, expected: q.attr.RQPSN}
	case next == verbs.StateRTS:
		q.connect()
	}
	q.setState(next)
	return nil
}

// setState is the one place where the state changes.
func (q *qp) setState(s verbs.QPState) {
	if q.state != s {
		q.w.note(StepState, uint64(q.index), uint64(s))
	}
	q.state = s
}

// connect begins a life as requester.
func (q *qp) connect() {
	q.w.lives++
	q.psn = q.attr.SQPSN
	q.line = &line{q: q, life: q.w.lives, src: q.dev.attr.GID, dest: q.attr.DestGID, destQPN: q.attr.DestQPN, psn: q.psn, mtu: q.attr.PathMTU, open: true}
	if q.attr.Timeout > 0 {
		q.line.timeout = 4096 << q.attr.Timeout
	}
}

// at returns the request at a position of the send queue.
func (q *qp) at(seq uint64) *request { return q.sq[seq&uint64(len(q.sq)-1)] }

// take takes the payloads out that are still in their buffers.
func (q *qp) take() {
	for i := q.head; i != q.tail; i++ {
		if r := q.at(i); r.sent {
			q.gather(r)
		}
	}
}

// leave ends the QP's life as requester. What it has sent stays on its way.
func (q *qp) leave() {
	if q.line != nil {
		q.take()
		q.line.open = false
	}
}

// part ends the QP's life as responder: nothing that is on its way here lands any
// more.
func (q *qp) part() {
	c := q.conn
	if c == nil {
		return
	}
	c.dead = true
	for r := c.head; r != nil; {
		next := r.next
		r.conn, r.next = nil, nil
		q.w.drop(r)
		r = next
	}
	c.head, c.tail = nil, nil
}

// empty drops the send queue.
func (q *qp) empty() {
	for ; q.head != q.tail; q.head++ {
		slot := &q.sq[q.head&uint64(len(q.sq)-1)]
		q.w.drop(*slot)
		*slot = nil
	}
	q.next = q.head
}

// reset empties the QP without completions.
func (q *qp) reset() {
	q.part()
	q.leave()
	q.empty()
	q.rq.clear()
	q.sendCQ.forget(q)
	q.recvCQ.forget(q)
	q.freed = q.tail - 1
	q.fetching, q.packets, q.retries, q.rnrTries, q.recovering, q.broken, q.stalled = 0, 0, 0, 0, 0, false, false
	q.attr, q.line, q.conn = verbs.QPAttr{}, nil, nil
	q.setState(verbs.StateReset)
}

// enterErr moves to ERR and flushes both queues.
func (q *qp) enterErr() {
	if q.state == verbs.StateErr {
		return
	}
	q.setState(verbs.StateErr)
	q.part()
	q.leave()
	q.broken = false
	room := true
	for i := q.head; i != q.tail; i++ {
		r := q.at(i)
		room = q.complete(r, verbs.StatusWRFlushErr) && room
	}
	q.empty()
	if !q.rq.flush(q) {
		q.recvCQ.overflow()
	}
	if !room {
		q.sendCQ.overflow()
	}
}

// fail moves the QP to ERR from outside.
func (q *qp) fail() {
	if !q.destroyed && q.state != verbs.StateReset {
		q.enterErr()
	}
}

// complete pushes a completion of a request. If it returns false the CQ is lost,
// and the caller must call overflow.
func (q *qp) complete(r *request, st verbs.Status) bool {
	e := completion{qp: q, seq: r.seq, wc: verbs.WC{ID: r.id, QPN: q.num, Status: st, Opcode: r.opcode.Completion()}}
	if st == verbs.StatusSuccess && r.fetches() {
		e.wc.ByteLen = r.length
	}
	return q.sendCQ.push(e)
}

// Close destroys the QP.
func (q *qp) Close() error {
	if q.destroyed {
		return nil
	}
	q.reset()
	q.setState(verbs.StateErr)
	q.closed, q.destroyed = true, true
	q.sendCQ.detach(q)
	q.recvCQ.detach(q)
	d := q.dev
	delete(d.qps, q.num)
	d.list = slices.Delete(d.list, slices.Index(d.list, q), slices.Index(d.list, q)+1)
	q.pd.users--
	return nil
}

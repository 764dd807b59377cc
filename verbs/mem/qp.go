package mem

import (
	"fmt"
	"sync"
	"sync/atomic"

	"fjord/internal/words"
	"fjord/verbs"
)

// qp is one end of a connection. Locks are taken in the order moves, mu, rq.mu,
// cq.mu, and never the mu of two QPs at once: what must happen at the peer happens
// after the own mu is released.
type qp struct {
	dev    *Device
	pd     *pd
	num    uint32
	init   verbs.QPInit
	sendCQ *cq
	recvCQ *cq

	// Read by the peer's poster without mu.
	state  atomic.Uint32
	access atomic.Uint32
	rnr    atomic.Int64         // wait told to a peer that finds no receive
	conn   atomic.Pointer[conn] // the latest; serves in RTR and RTS
	// waiting: requests of this QP wait for the peer to post a receive.
	waiting atomic.Bool

	// moves is held by Modify and Close until no request of the peer executes any
	// more: so a connection takes the place of another only when that is quiet.
	moves sync.Mutex

	mu        words.Lock // held while posting: also the in-flight flag that fence waits for
	attr      verbs.QPAttr
	closed    bool // refuses everything: destroyed, or its device is closed
	destroyed bool
	peer      *qp   // found at the first request
	peerConn  *conn // the peer's connection to this QP
	posted    uint64
	pair      pair
	signaled  bool    // a request that has executed is to complete
	stage     []entry // completions of the doorbell that is worked on
	segs      []segment
	inline    []byte       // payload of the inline request being executed
	stalled   []deferred   // requests behind a SEND that found no receive
	deadline  int64        // when the first of them fails; 0: never
	timer     verbs.Parker // of the worker that waits for the deadline
	timing    bool         // there is such a worker

	sqDone uint64 // send slots given back; changed under sendCQ.mu, read with sync/atomic
	rqDone uint64 // receive slots given back; guarded by recvCQ.mu

	rq recvQueue
}

// conn is the responder's half of a connection, fixed from RTR on.
type conn struct {
	gid verbs.GID
	qpn uint32
	psn uint32
	// requester is the QP whose requests execute here. It is set once: the PSNs of
	// a connection fit one life of the QP at its other end.
	requester atomic.Pointer[qp]
}

// CreateQP makes a QP in RESET.
func (p *pd) CreateQP(init verbs.QPInit) (verbs.QP, error) {
	scq, ok1 := init.SendCQ.(*cq)
	rcq, ok2 := init.RecvCQ.(*cq)
	if !ok1 || !ok2 || scq.dev != p.dev || rcq.dev != p.dev {
		return nil, fmt.Errorf("%w: SendCQ and RecvCQ must be completion queues of device %q", verbs.ErrInvalid, p.dev.attr.Name)
	}
	if err := p.dev.attr.CheckQP(&init); err != nil {
		return nil, err
	}
	d := p.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := p.usable(); err != nil {
		return nil, err
	}
	if len(d.qps) == maxQP {
		return nil, fmt.Errorf("%w: %d queue pairs", verbs.ErrLimit, maxQP)
	}
	q := &qp{dev: d, pd: p, init: init, sendCQ: scq, recvCQ: rcq,
		stage: make([]entry, 0, min(init.MaxSendWR, 64)), segs: make([]segment, 0, max(init.MaxSendSGE, 1)), inline: make([]byte, 0, init.MaxInline)}
	q.signaled = init.SignalAll
	q.rq.init(init.MaxRecvWR, init.MaxRecvSGE)
	if err := scq.attach(q); err != nil {
		return nil, err
	}
	if err := rcq.attach(q); err != nil {
		scq.detach(q, 0)
		return nil, err
	}
	for q.num == 0 || q.num == 1 || d.qps[q.num] != nil { // 0 and 1 are the management QPs
		q.num = uint32(d.rt.Secret()) & (1<<24 - 1)
	}
	d.qps[q.num] = q
	p.users++
	return q, nil
}

func (q *qp) Num() uint32          { return q.num }
func (q *qp) State() verbs.QPState { return verbs.QPState(q.state.Load()) }

// Query returns the attributes.
func (q *qp) Query() verbs.QPAttr {
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.attr
	a.State = q.State()
	return a
}

// Modify moves the QP.
func (q *qp) Modify(a verbs.QPAttr, mask verbs.AttrMask) error {
	q.moves.Lock()
	defer q.moves.Unlock()
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return verbs.ErrClosed
	}
	if err := verbs.CheckModify(q.State(), &a, mask); err != nil {
		q.mu.Unlock()
		return err
	}
	next := q.State()
	if mask&verbs.AttrState != 0 {
		next = a.State
	}
	switch next {
	case verbs.StateReset:
		q.reset()
		q.mu.Unlock()
		q.wake()
		q.fence()
		return nil
	case verbs.StateErr:
		lost := q.enterErr()
		q.mu.Unlock()
		q.settle(lost)
		q.fence()
		return nil
	case verbs.StateInit, verbs.StateRTR, verbs.StateRTS:
	}
	if err := q.dev.attr.CheckAttr(&a, mask); err != nil {
		q.mu.Unlock()
		return err
	}
	q.attr.Set(&a, mask)
	if mask&verbs.AttrAccess != 0 {
		q.access.Store(uint32(a.Access))
	}
	if mask&verbs.AttrMinRNRTimer != 0 {
		q.rnr.Store(verbs.RNRTimer(a.MinRNRTimer))
	}
	if next == verbs.StateRTR {
		q.conn.Store(&conn{gid: q.attr.DestGID, qpn: q.attr.DestQPN, psn: q.attr.RQPSN})
	}
	q.state.Store(uint32(next)) // after conn, see target
	q.mu.Unlock()
	return nil
}

// reset empties the QP without completions. Under mu; the caller wakes the peer
// and fences.
func (q *qp) reset() {
	q.state.Store(uint32(verbs.StateReset))
	q.unstall()
	q.stalled = q.stalled[:0]
	recvs := q.rq.clear()
	q.sendCQ.forget(q, recvs)
	q.recvCQ.forget(q, recvs)
	atomic.StoreUint64(&q.sqDone, q.posted) // no completion is left that would tell
	q.attr, q.peer, q.peerConn, q.pair = verbs.QPAttr{}, nil, nil, pair{}
}

// enterErr moves to ERR and flushes both queues. Under mu; the caller passes
// the CQs that were lost meanwhile to settle, after releasing mu.
func (q *qp) enterErr() (lost [2]*cq) {
	if q.State() == verbs.StateErr {
		return lost
	}
	q.state.Store(uint32(verbs.StateErr))
	q.unstall()
	flush := make([]entry, 0, len(q.stalled))
	for i := range q.stalled {
		d := &q.stalled[i]
		flush = append(flush, entry{qp: q, seq: d.seq, wc: verbs.WC{ID: d.wr.ID, QPN: q.num,
			Status: verbs.StatusWRFlushErr, Opcode: d.wr.Opcode.Completion()}})
	}
	q.stalled = q.stalled[:0]
	if len(flush) > 0 && !q.sendCQ.push(flush) {
		lost[0] = q.sendCQ
	}
	if !q.rq.flush(q) {
		lost[1] = q.recvCQ
	}
	return lost
}

// fail moves the QP to ERR from outside a post.
func (q *qp) fail() {
	q.mu.Lock()
	if q.destroyed || q.State() == verbs.StateReset {
		q.mu.Unlock()
		return
	}
	lost := q.enterErr()
	q.mu.Unlock()
	q.settle(lost)
}

// settle does after a move to ERR, without locks, what others must know: a CQ
// that was lost takes its QPs to ERR, a peer that waits for a receive gives up.
func (q *qp) settle(lost [2]*cq) {
	for _, c := range lost {
		if c != nil {
			c.overflow()
		}
	}
	q.wake()
}

// requester returns the QP whose requests may execute here.
func (q *qp) requester() *qp {
	if c := q.conn.Load(); c != nil {
		return c.requester.Load()
	}
	return nil
}

// fence returns when no request of the peer is executing here: the state was
// changed before, and the peer looks at it after taking its mu.
func (q *qp) fence() {
	if r := q.requester(); r != nil && r != q {
		r.mu.Lock()
		r.mu.Unlock() //nolint:staticcheck // an empty section waits for the one that is posting
	}
}

// shut refuses everything from now on, as the device is closed.
func (q *qp) shut() {
	q.fail()
	q.mu.Lock()
	q.closed = true
	q.state.Store(uint32(verbs.StateErr))
	q.mu.Unlock()
	q.wake()
	q.fence()
}

// Close destroys the QP.
func (q *qp) Close() error {
	q.moves.Lock()
	defer q.moves.Unlock()
	q.mu.Lock()
	if q.destroyed {
		q.mu.Unlock()
		return nil
	}
	q.reset()
	q.state.Store(uint32(verbs.StateErr))
	q.closed, q.destroyed = true, true
	posted := q.rq.clear()
	q.mu.Unlock()
	q.wake()
	q.fence()
	q.sendCQ.detach(q, posted)
	q.recvCQ.detach(q, posted)
	q.dev.mu.Lock()
	delete(q.dev.qps, q.num)
	q.pd.users--
	q.dev.mu.Unlock()
	return nil
}

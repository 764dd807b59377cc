package mem

import (
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"fjord/internal/words"
	"fjord/verbs"
)

// deferred is a request that waits behind a SEND without a receive.
type deferred struct {
	wr     verbs.SendWR // SGL points to a copy
	seq    uint64
	inline []byte // payload taken at posting
}

// rnr is what execute returns, beyond the statuses, when the peer has no
// receive posted.
const rnr = verbs.Status(0xff)

// post executes what PostSend has left of wrs, from index n on, and pushes the
// completions. It is called with mu held and releases it.
func (q *qp) post(wrs []verbs.SendWR, n int) (int, error) {
	if st := q.State(); q.closed || st != verbs.StateRTS && st != verbs.StateErr {
		closed := q.closed
		q.mu.Unlock()
		if closed {
			return 0, verbs.ErrClosed
		}
		return 0, fmt.Errorf("%w: PostSend in %v, right is RTS", verbs.ErrState, st)
	}
	for i := range n {
		if wrs[i].Flags&verbs.FlagSignaled != 0 || q.init.SignalAll {
			q.complete(&wrs[i], q.posted-uint64(n-1-i), verbs.StatusSuccess)
		}
	}
	q.signaled = q.init.SignalAll
	var (
		peer   *qp
		at     *conn // the connection on which peer serves
		failed = verbs.StatusSuccess
		err    error
		lost   [2]*cq
	)
	if q.State() == verbs.StateRTS && n < len(wrs) {
		if peer, at = q.target(); peer != nil && q.pair.of[0] == nil {
			q.findPair(&wrs[n]) // for the next time
		}
	}
	for ; n < len(wrs); n++ {
		wr := &wrs[n]
		if q.posted-atomic.LoadUint64(&q.sqDone) >= uint64(q.init.MaxSendWR) {
			err = fmt.Errorf("%w: send queue of %d; poll a signaled completion first", verbs.ErrQueueFull, q.init.MaxSendWR)
			break
		}
		if err = wr.Check(&q.init); err != nil {
			break
		}
		q.posted++
		if q.State() == verbs.StateErr {
			q.complete(wr, q.posted, verbs.StatusWRFlushErr)
			continue
		}
		if len(q.stalled) > 0 {
			q.postpone(wr)
			continue
		}
		st := q.execute(wr, peer, nil)
		if st == rnr && q.attr.RNRRetry == 0 {
			st = verbs.StatusRNRRetryExcErr
		}
		switch {
		case st == verbs.StatusSuccess:
			if wr.Flags&verbs.FlagSignaled != 0 || q.init.SignalAll {
				q.complete(wr, q.posted, st)
			}
		case st == rnr:
			q.stall(peer)
			q.postpone(wr)
		default:
			q.complete(wr, q.posted, st)
			lost = q.enterErr()
			failed = st
		}
	}
	pushed := q.publish()
	q.mu.Unlock()
	if !pushed {
		q.sendCQ.overflow()
	}
	if failed != verbs.StatusSuccess {
		q.settle(lost)
		q.broke(peer, at, failed)
	}
	return n, err
}

// broke is called, without locks, after a request that ended with st took the QP
// to ERR. What the responder p has refused takes its QP there too, unless that has
// gone over to another connection meanwhile.
func (q *qp) broke(p *qp, at *conn, st verbs.Status) {
	q.dev.event(verbs.AsyncEvent{Type: verbs.EventQPFatal, QPN: q.num})
	if !atResponder(st) {
		return
	}
	if p.recvCQ.isLost() {
		p.recvCQ.overflow()
	}
	p.mu.Lock()
	if p.conn.Load() != at || !receiving(p) {
		p.mu.Unlock()
		return
	}
	lost := p.enterErr()
	p.mu.Unlock()
	p.settle(lost)
	p.dev.event(verbs.AsyncEvent{Type: verbs.EventQPAccess, QPN: p.num})
}

// atResponder tells of a failed request whether the responder has refused it.
func atResponder(st verbs.Status) bool {
	return st == verbs.StatusRemInvReqErr || st == verbs.StatusRemAccessErr || st == verbs.StatusRemOpErr
}

// complete stages a completion.
func (q *qp) complete(wr *verbs.SendWR, seq uint64, st verbs.Status) {
	e := entry{qp: q, seq: seq, wc: verbs.WC{ID: wr.ID, QPN: q.num, Status: st, Opcode: wr.Opcode.Completion()}}
	switch {
	case st != verbs.StatusSuccess:
	case wr.Opcode == verbs.OpRead:
		e.wc.ByteLen = uint32(verbs.Length(wr.SGL))
	case wr.Opcode == verbs.OpCAS, wr.Opcode == verbs.OpFAA:
		e.wc.ByteLen = 8
	}
	q.stage = append(q.stage, e)
}

// publish pushes the staged completions. If it returns false the CQ is lost, and
// the caller must call overflow once it holds no QP lock.
func (q *qp) publish() bool {
	if len(q.stage) == 0 {
		return true
	}
	ok := q.sendCQ.push(q.stage)
	q.stage = q.stage[:0]
	return ok
}

// target returns the peer if it would answer: connected to this QP, with the
// PSN that this side begins with, in RTR or RTS. The connection that is found
// first is the only one for this life of the QP, since its PSNs go on from there.
func (q *qp) target() (*qp, *conn) {
	if q.peerConn == nil {
		p := q.dev.fabric.lookup(q.attr.DestGID, q.attr.DestQPN)
		if p == nil || !receiving(p) {
			return nil, nil
		}
		c := p.conn.Load()
		if c == nil || c.gid != q.dev.attr.GID || c.qpn != q.num || c.psn != q.attr.SQPSN ||
			!c.requester.CompareAndSwap(nil, q) {
			return nil, nil
		}
		q.peer, q.peerConn = p, c
	}
	// The requester is known before the state is read: fence stores and loads in
	// the other order. And the state is read before the connection: a new
	// connection is stored before the state in which it serves.
	if receiving(q.peer) && q.peer.conn.Load() == q.peerConn {
		return q.peer, q.peerConn
	}
	return nil, nil
}

func receiving(p *qp) bool {
	st := p.State()
	return st == verbs.StateRTR || st == verbs.StateRTS
}

// execute runs one request against the peer's memory. taken, when not nil, is an
// inline payload that was taken when the request was postponed.
func (q *qp) execute(wr *verbs.SendWR, p *qp, taken []byte) verbs.Status {
	switch wr.Opcode {
	case verbs.OpCAS, verbs.OpFAA:
		return q.atomic(wr, p)
	case verbs.OpRead:
		if len(wr.SGL) == 1 { // the common case, without a list of segments
			s := &wr.SGL[0]
			dst, st := q.local(s, true)
			if st != verbs.StatusSuccess {
				return st
			}
			src, st := q.remote(wr, p, uint64(s.Length), verbs.AccessRemoteRead)
			if st == verbs.StatusSuccess {
				words.Load(dst, src, int(s.Length))
			}
			return st
		}
		return q.read(wr, p)
	case verbs.OpWrite:
		if len(wr.SGL) == 1 && taken == nil {
			s := &wr.SGL[0]
			var src unsafe.Pointer
			if wr.Flags&verbs.FlagInline == 0 {
				var st verbs.Status
				if src, st = q.local(s, false); st != verbs.StatusSuccess {
					return st
				}
			} else if s.Length > 0 {
				src = unsafe.Pointer(raw(s))
			}
			dst, st := q.remote(wr, p, uint64(s.Length), verbs.AccessRemoteWrite)
			if st == verbs.StatusSuccess {
				words.Store(dst, src, int(s.Length))
			}
			return st
		}
		return q.write(wr, p, taken)
	case verbs.OpWriteImm, verbs.OpSend, verbs.OpSendImm:
		return q.deliver(wr, p, taken)
	case verbs.OpInvalid:
	}
	return verbs.StatusLocQPOpErr // check has refused these
}

// local checks one piece of a request. A piece of no bytes names no memory.
func (q *qp) local(s *verbs.SGE, write bool) (unsafe.Pointer, verbs.Status) {
	m := q.dev.mrs.Load().get(s.LKey)
	if m == nil {
		if s.Length == 0 {
			return nil, verbs.StatusSuccess
		}
		return nil, verbs.StatusLocProtErr
	}
	p, ok := m.at(s.Addr, uint64(s.Length))
	if !ok || m.pd != q.pd || write && m.access&verbs.AccessLocalWrite == 0 {
		if s.Length == 0 {
			return nil, verbs.StatusSuccess
		}
		return nil, verbs.StatusLocProtErr
	}
	return p, verbs.StatusSuccess
}

// raw is a piece of an inline payload: any memory of the caller, whose key is not
// looked at. (Written so that checkptr, which is on with -race, lets it pass.)
func raw(s *verbs.SGE) *byte { return *(**byte)(unsafe.Pointer(&s.Addr)) }

// remote checks the range that a request names at the peer. As on the wire, a
// request for no bytes has no key to check.
func (q *qp) remote(wr *verbs.SendWR, p *qp, n uint64, need verbs.Access) (unsafe.Pointer, verbs.Status) {
	if n > maxMsg {
		return nil, verbs.StatusLocLenErr
	}
	if p == nil {
		return nil, verbs.StatusRetryExcErr
	}
	if n == 0 {
		return nil, verbs.StatusSuccess
	}
	m := p.dev.mrs.Load().get(wr.RKey)
	if m == nil || m.pd != p.pd || m.access&need == 0 || verbs.Access(p.access.Load())&need == 0 {
		return nil, verbs.StatusRemAccessErr
	}
	ptr, ok := m.at(wr.RemoteAddr, n)
	if !ok {
		return nil, verbs.StatusRemAccessErr
	}
	return ptr, verbs.StatusSuccess
}

func (q *qp) atomic(wr *verbs.SendWR, p *qp) verbs.Status {
	if len(wr.SGL) != 1 || wr.SGL[0].Length != 8 {
		return verbs.StatusLocLenErr
	}
	dst, st := q.local(&wr.SGL[0], true)
	if st != verbs.StatusSuccess {
		return st
	}
	if p != nil && wr.RemoteAddr&7 != 0 {
		return verbs.StatusRemInvReqErr
	}
	src, st := q.remote(wr, p, 8, verbs.AccessRemoteAtomic)
	if st != verbs.StatusSuccess {
		return st
	}
	word := (*uint64)(src)
	var old uint64
	if wr.Opcode == verbs.OpFAA {
		old = atomic.AddUint64(word, wr.CompareAdd) - wr.CompareAdd
	} else {
		old = words.CAS(word, wr.CompareAdd, wr.Swap)
	}
	if uintptr(dst)&7 == 0 {
		*(*uint64)(dst) = old
	} else {
		copy(unsafe.Slice((*byte)(dst), 8), (*[8]byte)(unsafe.Pointer(&old))[:])
	}
	return verbs.StatusSuccess
}

// gather checks the pieces of a request and lists those that are not empty.
// taken, when not nil, is a payload that was taken before.
func (q *qp) gather(wr *verbs.SendWR, taken []byte, write bool) ([]segment, uint64, verbs.Status) {
	segs, total := q.segs[:0], uint64(0)
	if wr.Flags&verbs.FlagInline != 0 {
		if taken == nil {
			q.inline = inline(q.inline[:0], wr.SGL)
			taken = q.inline
		}
		if len(taken) == 0 {
			return nil, 0, verbs.StatusSuccess
		}
		return append(segs, segment{unsafe.Pointer(unsafe.SliceData(taken)), len(taken)}), uint64(len(taken)), verbs.StatusSuccess
	}
	for i := range wr.SGL {
		s := &wr.SGL[i]
		if s.Length == 0 {
			continue // names no memory
		}
		p, st := q.local(s, write)
		if st != verbs.StatusSuccess {
			return nil, 0, st
		}
		segs = append(segs, segment{p, int(s.Length)})
		total += uint64(s.Length)
	}
	return segs, total, verbs.StatusSuccess
}

// inline appends the bytes of an inline payload.
func inline(to []byte, sgl []verbs.SGE) []byte {
	for i := range sgl {
		if n := sgl[i].Length; n > 0 {
			to = append(to, unsafe.Slice(raw(&sgl[i]), n)...)
		}
	}
	return to
}

func (q *qp) read(wr *verbs.SendWR, p *qp) verbs.Status {
	segs, n, st := q.gather(wr, nil, true)
	if st != verbs.StatusSuccess {
		return st
	}
	src, st := q.remote(wr, p, n, verbs.AccessRemoteRead)
	if st != verbs.StatusSuccess {
		return st
	}
	scatter(segs, src)
	return verbs.StatusSuccess
}

func (q *qp) write(wr *verbs.SendWR, p *qp, taken []byte) verbs.Status {
	segs, n, st := q.gather(wr, taken, false)
	if st != verbs.StatusSuccess {
		return st
	}
	dst, st := q.remote(wr, p, n, verbs.AccessRemoteWrite)
	if st != verbs.StatusSuccess {
		return st
	}
	collect(dst, segs)
	return verbs.StatusSuccess
}

// deliver runs the requests that consume a receive at the peer.
func (q *qp) deliver(wr *verbs.SendWR, p *qp, taken []byte) verbs.Status {
	segs, n, st := q.gather(wr, taken, false)
	if st != verbs.StatusSuccess {
		return st
	}
	if n > maxMsg {
		return verbs.StatusLocLenErr
	}
	if p == nil {
		return verbs.StatusRetryExcErr
	}
	var dst unsafe.Pointer
	if wr.Opcode == verbs.OpWriteImm {
		if dst, st = q.remote(wr, p, n, verbs.AccessRemoteWrite); st != verbs.StatusSuccess {
			return st
		}
	}
	p.rq.mu.Lock()
	if p.rq.head == p.rq.tail {
		q.waiting.Store(true) // who posts a receive next, or takes p out of service, will see it
		p.rq.mu.Unlock()
		if !receiving(p) {
			q.waiting.Store(false)
			return verbs.StatusRetryExcErr
		}
		return rnr
	}
	slot := p.rq.head
	e := entry{qp: p, wc: verbs.WC{ID: p.rq.id(slot), QPN: p.num, ByteLen: uint32(n), Opcode: verbs.WCRecv}}
	status := verbs.StatusSuccess
	if wr.Opcode == verbs.OpWriteImm {
		collect(dst, segs)
		e.wc.Opcode = verbs.WCRecvWithImm
	} else {
		e.wc.Status, status = p.receive(p.rq.sgl(slot), segs, n)
	}
	if wr.Opcode != verbs.OpSend {
		e.wc.Imm, e.wc.Flags = wr.Imm, verbs.WCWithImm
	}
	p.rq.head++
	ok := p.recvCQ.push([]entry{e})
	p.rq.mu.Unlock()
	if !ok {
		return verbs.StatusRemOpErr
	}
	return status
}

// receive scatters an arriving message. It returns the status of the receive
// and that of the sender's request.
func (p *qp) receive(sgl []verbs.SGE, segs []segment, n uint64) (here, there verbs.Status) {
	if n > verbs.Length(sgl) {
		return verbs.StatusLocLenErr, verbs.StatusRemInvReqErr
	}
	left := n
	for i := range sgl { // all checks before the first byte
		if _, st := p.local(&sgl[i], true); st != verbs.StatusSuccess && left > 0 {
			return verbs.StatusLocProtErr, verbs.StatusRemOpErr
		}
		left -= min(left, uint64(sgl[i].Length))
	}
	for i := 0; i < len(sgl) && n > 0; i++ {
		dst, st := p.local(&sgl[i], true)
		if st != verbs.StatusSuccess { // deregistered just now
			return verbs.StatusLocProtErr, verbs.StatusRemOpErr
		}
		room := int(min(uint64(sgl[i].Length), n))
		n -= uint64(room)
		for room > 0 {
			part := min(room, segs[0].n)
			words.Store(dst, segs[0].p, part)
			dst, room, segs = unsafe.Add(dst, part), room-part, cut(segs, part)
		}
	}
	return verbs.StatusSuccess, verbs.StatusSuccess
}

// stall notes that the peer p has no receive for this QP's next SEND, and sees
// to it that the SEND fails when its retries are used up. Under mu.
func (q *qp) stall(p *qp) {
	if q.attr.RNRRetry == 7 {
		return
	}
	rt := q.dev.rt
	q.deadline = rt.Now() + p.rnr.Load()*int64(q.attr.RNRRetry)
	if !q.timing {
		q.timing = true
		if q.timer == nil {
			q.timer = rt.NewParker()
		}
		rt.Go(q.expire)
	}
}

// expire is a worker that ends the stall of a QP at its deadline. There is at
// most one for a QP, as long as there is a deadline.
func (q *qp) expire() {
	for {
		q.mu.Lock()
		end := q.deadline
		q.timing = end != 0
		q.mu.Unlock()
		switch {
		case end == 0:
			return
		case q.dev.rt.Now() < end:
			q.timer.Park(end)
		default:
			q.resume()
		}
	}
}

// unstall ends a stall. Under mu.
func (q *qp) unstall() {
	q.clearDeadline()
	q.waiting.Store(false)
}

func (q *qp) clearDeadline() {
	if q.deadline != 0 {
		q.deadline = 0
		q.timer.Unpark()
	}
}

// postpone keeps a copy of a request until the stall ends.
func (q *qp) postpone(wr *verbs.SendWR) {
	d := deferred{wr: *wr, seq: q.posted}
	d.wr.SGL = slices.Clone(wr.SGL)
	if wr.Flags&verbs.FlagInline != 0 {
		d.inline = inline(make([]byte, 0, verbs.Length(wr.SGL)), wr.SGL)
	}
	q.stalled = append(q.stalled, d)
}

// resume goes on with postponed requests: the peer has posted a receive or is
// gone, or the deadline has come.
func (q *qp) resume() {
	q.mu.Lock()
	if len(q.stalled) == 0 || q.State() != verbs.StateRTS {
		q.mu.Unlock()
		return
	}
	expired := q.deadline != 0 && q.dev.rt.Now() >= q.deadline
	failed := verbs.StatusSuccess
	peer, at := q.target()
	var lost [2]*cq
	done := 0
	for done < len(q.stalled) {
		d := &q.stalled[done]
		st := q.execute(&d.wr, peer, d.inline)
		if st == rnr {
			if done == 0 && !expired {
				break
			}
			if done > 0 { // another SEND now: its time begins
				q.clearDeadline()
				q.stall(peer)
				break
			}
			st = verbs.StatusRNRRetryExcErr
		}
		done++
		if st == verbs.StatusSuccess {
			if d.wr.Flags&verbs.FlagSignaled != 0 || q.init.SignalAll {
				q.complete(&d.wr, d.seq, st)
			}
			continue
		}
		q.complete(&d.wr, d.seq, st)
		failed = st
		break
	}
	q.stalled = slices.Delete(q.stalled, 0, done)
	if len(q.stalled) == 0 {
		q.unstall()
	}
	pushed := q.publish()
	if failed != verbs.StatusSuccess {
		lost = q.enterErr()
	}
	q.mu.Unlock()
	if !pushed {
		q.sendCQ.overflow()
	}
	if failed != verbs.StatusSuccess {
		q.settle(lost)
		q.broke(peer, at, failed)
	}
}

package sim

import (
	"encoding/binary"

	"fjord/verbs"
)

// conn is the responder's half of a connection: one life of a QP in RTR and RTS.
// It serves one line, since PSNs go on from request to request.
type conn struct {
	q        *qp
	gid      verbs.GID
	qpn      uint32
	first    uint32 // the PSN that it begins with
	expected uint32
	line     *line
	dead     bool
	refusing bool // a request breaks the connection: those behind are not served
	gap      bool // the requester has been told what is missing, or will be
	telling  bool // it will be, behind the answers to all before
	fetching int  // READs and atomics that are served
	wrote    int64
	touched  int64 // when the last WRITE or SEND, and the last of all, are executed
	replied  int64 // ps of the latest answer

	// Requests that are served, in the order of their arrival: so they are answered.
	head, tail *request
}

// bind finds the responder's half of a line, at its first request.
func (l *line) bind(d *Device) *conn {
	p := d.qps[l.destQPN]
	if p == nil || p.state != verbs.StateRTR && p.state != verbs.StateRTS {
		return nil
	}
	c := p.conn
	if c.line != nil || c.gid != l.src || c.qpn != l.q.num || c.first != l.psn || l.q.line != l {
		return nil
	}
	c.line, l.conn = l, c
	return c
}

// fire is a request's arrival at the responder, its turn there, or its answer.
func (r *request) fire(w *World, e event) {
	switch e.kind {
	case evArrive:
		w.arrive(r, uint32(e.a), uint32(e.b), uint32(e.a>>32))
	case evAccess:
		w.access(r)
	case evReply:
		r.line.answer(r, verbs.Status(e.a), int64(e.b&(1<<32-1)), uint32(e.b>>32))
	case evWake, evRun, evTimer, evResume, evFault:
	}
	w.drop(r)
}

// arrive decides what becomes of packets from to end of a request that was sent
// for the nth time.
func (w *World) arrive(r *request, from, end, nth uint32) {
	l := r.line
	if l.lost {
		return
	}
	if w.plan.holdUp(r, from, end, nth) {
		return
	}
	d := w.byGID(l.dest)
	if d.dead {
		return
	}
	c := l.conn
	if c == nil {
		c = l.bind(d)
	}
	if c == nil || c.dead || c.refusing {
		return
	}
	n := d.host.nic
	t, ok := n.receive(w, r, end-from)
	if !ok {
		return
	}
	begin := (r.psn + from) & psnMask
	stop := (r.psn + end) & psnMask
	switch {
	case psnAfter(begin, c.expected) > 0:
		n.counters.OutOfSequence++
		if !c.gap {
			c.gap, c.telling = true, true
			c.flush(w)
		}
	case psnAfter(stop, c.expected) <= 0:
		n.counters.DuplicateRequest++
		if r.conn == nil && end == r.packets && !r.answered {
			c.repeat(w, r, nth, t)
		}
	case r.conn != nil:
		// Its first part still executes.
	default:
		from += c.expected - begin&psnMask
		r.serving = nth
		c.serve(w, r, from&psnMask, end, t)
	}
}

// serve begins to execute packets from to end of the request that is expected; t
// is when the engine has them.
func (c *conn) serve(w *World, r *request, from, end uint32, t int64) {
	p := c.q
	n := p.dev.host.nic
	if end < r.packets && r.opcode != verbs.OpWrite {
		return // a message that is not whole is not delivered
	}
	c.line.q.gather(r)
	w.note(StepServe, uint64(p.index)<<8|uint64(r.opcode), uint64(r.psn))
	r.refused = p.refusal(r)
	switch {
	case r.refused != verbs.StatusSuccess:
		c.refusing = true
	case r.receives() && p.rq.head == p.rq.tail:
		n.counters.OutOfBuffer++
		c.gap = true // it comes again, and what is behind it too
		r.refused, r.over = verdictRNR, true
		c.enlist(r)
		c.flush(w)
		return
	case r.receives():
		r.recv = p.rq.head
		p.rq.head++
	}
	c.gap, c.telling = false, false
	c.expected = (r.psn + end) & psnMask
	n.count(r.opcode)
	c.enlist(r)
	c.plan(w, r, from, end, t)
}

// repeat serves a request once more. A READ that was sent again, since its answer
// was not seen, executes again, on newer memory. All else is answered as before.
func (c *conn) repeat(w *World, r *request, nth uint32, t int64) {
	r.again = true
	c.enlist(r)
	r.refused = verbs.StatusSuccess
	if r.opcode == verbs.OpRead && nth > r.serving {
		r.serving = nth
		if r.refused = c.q.refusal(r); r.refused != verbs.StatusSuccess {
			c.refusing = true
		}
		// The packets of the answer that were not lost come from the first time.
		c.plan(w, r, uint32(w.sched.below(int64(r.packets))), r.packets, t)
		return
	}
	r.over = true
	c.flush(w)
}

func (c *conn) enlist(r *request) {
	r.refs++
	r.conn, r.next = c, nil
	if c.head == nil {
		c.head = r
	} else {
		c.tail.next = r
	}
	c.tail = r
	if r.fetches() && !r.again {
		c.fetching++
	}
}

// refusal finds what the responder has against a request.
func (p *qp) refusal(r *request) verbs.Status {
	var need verbs.Access
	switch r.opcode {
	case verbs.OpCAS, verbs.OpFAA:
		if r.remote&7 != 0 {
			return verbs.StatusRemInvReqErr
		}
		need = verbs.AccessRemoteAtomic
	case verbs.OpRead:
		need = verbs.AccessRemoteRead
	case verbs.OpWrite, verbs.OpWriteImm:
		need = verbs.AccessRemoteWrite
	case verbs.OpSend, verbs.OpSendImm, verbs.OpInvalid:
		return verbs.StatusSuccess
	}
	if r.fetches() && p.conn.fetching >= int(p.attr.MaxDestRdAtomic) && !r.again {
		return verbs.StatusRemInvReqErr
	}
	if r.length == 0 {
		return verbs.StatusSuccess // no key to check
	}
	m := p.dev.mrs.get(r.rkey)
	if m == nil || m.pd != p.pd || m.access&need == 0 || p.attr.Access&need == 0 {
		return verbs.StatusRemAccessErr
	}
	off, ok := m.at(r.remote, uint64(r.length))
	if !ok {
		return verbs.StatusRemAccessErr
	}
	r.mr, r.off = m, off
	return verbs.StatusSuccess
}

// plan says when a request accesses memory. What was posted after READs and
// atomics is not ordered behind them, unless it is a READ.
func (c *conn) plan(w *World, r *request, from, end uint32, t int64) {
	n := c.q.dev.host.nic
	m := &n.model
	var start, held int64
	switch {
	case r.refused != verbs.StatusSuccess:
		start = max(nsUp(t), c.touched)
	case r.opcode == verbs.OpRead:
		t += n.translate(r)
		lag := w.sched.below(m.PCIeReadNS/2+1) + w.plan.lag(c, r.opcode)
		start = max(nsUp(t)+lag, c.touched)
	case r.opcode == verbs.OpCAS, r.opcode == verbs.OpFAA:
		held = nsUp(n.atomic(r, max(t+n.translate(r), ps(c.wrote)))) + w.plan.lag(c, r.opcode)
		start = held - w.sched.below(m.AtomicSlotNS)
	default:
		t += n.translate(r)
		start = max(nsUp(t)+w.sched.below(m.PostedNS+1), c.wrote)
		if w.sched.below(4) == 0 {
			start = max(start, c.touched)
		}
	}
	stop := start + c.cut(w, r, from, end)
	r.began, r.ended = start, stop
	if len(r.pieces) > 0 {
		stop++ // within the last instant it is not said who is first
	}
	c.touched = max(c.touched, stop)
	switch r.opcode {
	case verbs.OpRead:
		r.leaves = max(t+ps(m.PCIeReadNS), ps(stop+m.PCIeReadNS/2))
	case verbs.OpCAS, verbs.OpFAA:
		r.leaves = ps(held + m.AtomicReplyNS)
	case verbs.OpWrite, verbs.OpWriteImm, verbs.OpSend, verbs.OpSendImm, verbs.OpInvalid:
		r.leaves = 0
		c.wrote = max(c.wrote, stop)
	}
	r.refs++
	w.at(start, event{on: r, kind: evAccess})
}

// access executes the next pieces of a request.
func (w *World) access(r *request) {
	c := r.conn
	if c == nil || c.dead {
		return
	}
	if r.refused == verbs.StatusSuccess {
		switch r.opcode {
		case verbs.OpWrite, verbs.OpWriteImm, verbs.OpRead:
			if !c.pieces(w, r) {
				return
			}
		case verbs.OpCAS, verbs.OpFAA:
			r.execute()
		case verbs.OpSend, verbs.OpSendImm, verbs.OpInvalid:
		}
		if r.receives() && r.refused == verbs.StatusSuccess {
			r.refused = c.q.deliver(r)
		}
		if r.refused != verbs.StatusSuccess {
			c.refusing = true
		}
	}
	r.over = true
	c.flush(w)
}

// execute runs an atomic.
func (r *request) execute() {
	if r.mr.bytes == nil {
		r.refused = verbs.StatusRemAccessErr
		return
	}
	b := r.mr.bytes[r.off : r.off+8]
	r.result = binary.NativeEndian.Uint64(b)
	switch {
	case r.opcode == verbs.OpFAA:
		binary.NativeEndian.PutUint64(b, r.result+r.compareAdd)
	case r.result == r.compareAdd:
		binary.NativeEndian.PutUint64(b, r.swap)
	}
}

// deliver completes the receive that a message consumes.
func (p *qp) deliver(r *request) verbs.Status {
	e := completion{qp: p, wc: verbs.WC{ID: p.rq.id(r.recv), QPN: p.num, ByteLen: r.length, Opcode: verbs.WCRecv}}
	status := verbs.StatusSuccess
	if r.opcode == verbs.OpWriteImm {
		e.wc.Opcode = verbs.WCRecvWithImm
	} else {
		e.wc.Status, status = p.receive(p.rq.sgl(r.recv), r.data)
	}
	if r.opcode != verbs.OpSend {
		e.wc.Imm, e.wc.Flags = r.imm, verbs.WCWithImm
	}
	p.rq.done = r.recv + 1
	if !p.recvCQ.push(e) {
		return verbs.StatusRemOpErr
	}
	return status
}

// receive scatters an arriving message. It returns the status of the receive and
// that of the sender's request.
func (p *qp) receive(sgl []verbs.SGE, message []byte) (here, there verbs.Status) {
	if uint64(len(message)) > verbs.Length(sgl) {
		return verbs.StatusLocLenErr, verbs.StatusRemInvReqErr
	}
	left := message
	for i := range sgl { // all checks before the first byte
		if _, st := p.local(&sgl[i], true); st != verbs.StatusSuccess && len(left) > 0 {
			return verbs.StatusLocProtErr, verbs.StatusRemOpErr
		}
		left = left[min(len(left), int(sgl[i].Length)):]
	}
	for i := 0; i < len(sgl) && len(message) > 0; i++ {
		b, _ := p.local(&sgl[i], true)
		message = message[copy(b, message):]
	}
	return verbs.StatusSuccess, verbs.StatusSuccess
}

// flush answers what has been served, in order.
func (c *conn) flush(w *World) {
	for c.head != nil && c.head.over {
		r := c.head
		c.head = r.next
		r.conn, r.next, r.over = nil, nil, false
		if r.fetches() && !r.again {
			c.fetching--
		}
		verdict, wait := r.refused, int64(0)
		if verdict == verdictRNR {
			wait = verbs.RNRTimer(c.q.attr.MinRNRTimer)
			r.refused = verbs.StatusSuccess
		}
		if !r.partial || verdict != verbs.StatusSuccess {
			w.reply(c, r, verdict, wait)
		}
		w.drop(r)
		if verdict != verbs.StatusSuccess && verdict != verdictRNR {
			c.broken()
			return
		}
	}
	if c.telling && c.head == nil {
		c.telling = false
		w.nakSequence(c)
	}
}

// broken takes the responder's QP to ERR, since a request broke a rule.
func (c *conn) broken() {
	p := c.q
	if p.recvCQ.lost {
		p.recvCQ.overflow()
	}
	p.enterErr()
	p.dev.event(verbs.AsyncEvent{Type: verbs.EventQPAccess, QPN: p.num})
}

// reply sends the answer to a request.
func (w *World) reply(c *conn, r *request, verdict verbs.Status, wait int64) {
	from, to := c.q.dev.host, r.line.q.dev.host
	v := w.plan.judge(from, to, r.opcode, 1, false)
	seen := from.nic.reply(w, to.nic, r, verdict == verbs.StatusSuccess) + ps(v.hold)
	if v.late > 0 {
		seen += ps(v.late)
	} else {
		seen = max(seen, c.replied)
		c.replied = seen
	}
	if v.lost || !r.line.open {
		return
	}
	delay := int64(0)
	for range v.copies {
		r.refs++
		w.at(nsUp(seen)+delay, event{on: r, kind: evReply, a: uint64(verdict), b: uint64(wait) | uint64(r.serving)<<32})
		delay += w.sched.below(v.apart + 1)
	}
}

// nakSequence tells the requester what is missing.
func (w *World) nakSequence(c *conn) {
	from, to := c.q.dev.host, c.line.q.dev.host
	seen := from.nic.nak(w, to.nic)
	if v := w.plan.judge(from, to, verbs.OpInvalid, 1, false); !v.lost {
		w.at(nsUp(max(seen, c.replied)+ps(v.hold+v.late)), event{on: c.line, kind: evReply, a: uint64(c.expected)})
	}
}

package sim

import "fjord/verbs"

// psnMask: PSNs have 24 bits.
const psnMask = 1<<24 - 1

// psnAfter returns how far a is behind b, negative when it is before.
func psnAfter(a, b uint32) int32 { return int32((a-b)<<8) >> 8 }

// window is how many packets may be under way on one QP. A larger message goes
// alone.
const window = 128

// pump sends what may be sent.
func (q *qp) pump() {
	for q.next != q.tail && !q.broken && !q.stalled {
		r := q.at(q.next)
		if r.flags&verbs.FlagFence != 0 && q.fetching > 0 {
			return
		}
		if r.fetches() && q.fetching > 0 && q.fetching >= int(q.attr.MaxRdAtomic) {
			return
		}
		if st := q.check(r); st != verbs.StatusSuccess {
			r.status, q.broken = st, true
			q.retire()
			return
		}
		r.packets = max(1, (r.length+q.attr.PathMTU-1)/q.attr.PathMTU)
		if q.packets > 0 && q.packets+r.packets > window {
			return
		}
		if q.head == q.next {
			q.progress = q.w.now
		}
		r.psn = q.psn
		q.psn = (q.psn + r.packets) & psnMask
		q.packets += r.packets
		if r.fetches() {
			q.fetching++
		}
		r.sent = true
		q.next++
		q.transmit(r, 0)
	}
}

// transmit sends a request, or its packets from one on, to the peer.
func (q *qp) transmit(r *request, from uint32) {
	w, l := q.w, q.line
	to := w.byGID(l.dest)
	leaves := q.dev.host.nic.send(q, r, from)
	q.await(l)
	if to == nil {
		return
	}
	r.sends++
	v := w.plan.judge(q.dev.host, to.host, r.opcode, r.packets-from, r.opcode == verbs.OpWrite)
	arrives := leaves + w.net.travel(w) + ps(v.hold)
	if v.late > 0 {
		arrives += ps(v.late)
	} else {
		arrives = max(arrives, l.arrival)
		l.arrival = arrives
	}
	if v.lost {
		return
	}
	delay := int64(0)
	end := uint64(r.packets)
	if v.packets > 0 { // those behind are lost
		end = uint64(from + v.packets)
	}
	for range v.copies {
		r.refs++
		w.at(nsUp(arrives)+delay, event{on: r, kind: evArrive, a: uint64(from) | uint64(r.sends)<<32, b: end})
		delay += w.sched.below(v.apart + 1)
	}
}

// await sees to it that a missing answer is noticed.
func (q *qp) await(l *line) {
	if l.timeout > 0 && !l.timing {
		l.timing = true
		q.w.at(q.progress+l.timeout, event{on: l, kind: evTimer})
	}
}

// fire is a timer, or a negative acknowledgement of what should have come.
func (l *line) fire(w *World, e event) {
	q := l.q
	if q.line != l {
		return
	}
	switch e.kind {
	case evTimer:
		l.timing = false
		if l.open {
			q.overdue(l)
		}
	case evResume:
		if l.open && q.stalled {
			q.stalled = false
			q.progress = w.now
			q.resend(q.head, 0)
			q.pump()
		}
	case evReply:
		if l.open {
			q.missing(uint32(e.a))
		}
	case evWake, evRun, evArrive, evAccess, evFault:
	}
}

// overdue looks whether the peer has been silent for too long.
func (q *qp) overdue(l *line) {
	if q.head == q.next || q.stalled {
		return
	}
	if due := q.progress + l.timeout; due > q.w.now {
		l.timing = true
		q.w.at(due, event{on: l, kind: evTimer})
		return
	}
	q.dev.host.nic.counters.LocalAckTimeoutErr++
	q.progress = q.w.now
	q.recovering = 0
	q.again(q.head, 0)
}

// again sends the request at seq, from one of its packets on, and all behind it
// once more, unless that was tried too often.
func (q *qp) again(seq uint64, from uint32) {
	if q.recovering == seq {
		return // under way
	}
	q.retries++
	if q.retries > int(q.attr.RetryCnt) {
		r := q.at(seq)
		r.status = verbs.StatusRetryExcErr
		q.settle(r)
		q.retire()
		return
	}
	q.recovering = seq
	q.resend(seq, from)
}

func (q *qp) resend(seq uint64, from uint32) {
	for i := seq; i != q.next; i++ {
		q.dev.host.nic.counters.Retransmits++
		q.transmit(q.at(i), from)
		from = 0
	}
}

// missing is told by the responder that it has got everything before a PSN, and
// not what begins there.
func (q *qp) missing(psn uint32) {
	for i := q.head; i != q.next; i++ {
		r := q.at(i)
		at := psnAfter(psn, r.psn)
		if at < 0 {
			return // of an earlier life, or answered meanwhile
		}
		if at < int32(r.packets) {
			q.dev.host.nic.counters.PacketSeqErr++
			if q.acknowledge(i) {
				q.again(i, uint32(at))
			}
			q.retire()
			return
		}
	}
}

// settle notes that a request has its answer.
func (q *qp) settle(r *request) {
	r.answered = true
	q.packets -= r.packets
	if r.fetches() {
		q.fetching--
	}
	q.progress, q.retries, q.rnrTries, q.recovering = q.w.now, 0, 0, 0
}

// acknowledge settles all requests before seq: an answer to a later one says that
// they have executed. It returns false when one should have brought something
// back: its answer was lost.
func (q *qp) acknowledge(seq uint64) bool {
	for i := q.head; i != seq; i++ {
		r := q.at(i)
		if r.answered {
			continue
		}
		if r.fetches() {
			q.dev.host.nic.counters.ImpliedNakSeqErr++
			q.again(i, 0)
			return false
		}
		q.settle(r)
	}
	return true
}

// verdictRNR is what an answer says, beyond the statuses, when no receive is
// posted.
const verdictRNR = verbs.Status(0xff)

// answer is the responder's answer to a request.
func (l *line) answer(r *request, verdict verbs.Status, wait int64, sending uint32) {
	q := l.q
	if !l.open || q.line != l || r.answered {
		return
	}
	if r.opcode == verbs.OpRead && verdict == verbs.StatusSuccess && (sending != r.serving || r.began < l.read) {
		// It executes once more, or a READ before it did later. A fabric that keeps
		// order shows nobody such an answer.
		return
	}
	if !q.acknowledge(r.seq) {
		q.retire()
		return
	}
	switch {
	case verdict == verdictRNR:
		q.notReady(r, wait)
	case verdict == verbs.StatusSuccess && r.fetches():
		l.read = max(l.read, r.ended)
		r.status = q.scatter(r)
		q.settle(r)
	default:
		r.status = verdict
		q.settle(r)
	}
	q.retire()
	q.pump()
}

// notReady is told that the peer has no receive posted.
func (q *qp) notReady(r *request, wait int64) {
	if q.stalled {
		return
	}
	if n := q.attr.RNRRetry; n != 7 {
		if q.rnrTries++; q.rnrTries > int(n) {
			q.dev.host.nic.counters.RNRNakRetryErr++
			r.status = verbs.StatusRNRRetryExcErr
			q.settle(r)
			return
		}
	}
	q.stalled, q.retries, q.recovering = true, 0, 0
	q.w.at(q.w.now+wait, event{on: q.line, kind: evResume})
}

// retire hands out the completions of what has been answered, in order.
func (q *qp) retire() {
	for q.head != q.next {
		r := q.at(q.head)
		if !r.answered {
			return
		}
		if r.status != verbs.StatusSuccess {
			q.die(r)
			return
		}
		room := true
		if r.flags&verbs.FlagSignaled != 0 || q.init.SignalAll {
			room = q.complete(r, verbs.StatusSuccess)
		}
		q.pop()
		if !room {
			q.sendCQ.overflow()
			return
		}
	}
	if q.broken {
		q.die(q.at(q.head))
	}
}

// pop forgets the first request of the queue.
func (q *qp) pop() {
	slot := &q.sq[q.head&uint64(len(q.sq)-1)]
	q.w.drop(*slot)
	*slot = nil
	q.head++
	if q.next < q.head {
		q.next = q.head
	}
}

// die completes the first request of the queue with its error and takes the QP to
// ERR.
func (q *qp) die(r *request) {
	room := q.complete(r, r.status)
	q.leave()
	q.pop()
	q.dev.event(verbs.AsyncEvent{Type: verbs.EventQPFatal, QPN: q.num})
	q.enterErr()
	if !room {
		q.sendCQ.overflow()
	}
}

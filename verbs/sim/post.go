package sim

import (
	"fmt"

	"fjord/verbs"
)

// PostSend puts requests into the send queue and rings the doorbell.
func (q *qp) PostSend(wrs []verbs.SendWR) (int, error) {
	if q.closed || q.dev.dead {
		return 0, verbs.ErrClosed
	}
	if q.state != verbs.StateRTS && q.state != verbs.StateErr {
		return 0, fmt.Errorf("%w: PostSend in %v, right is RTS", verbs.ErrState, q.state)
	}
	n, err := q.enqueue(wrs)
	if n == 0 {
		return n, err
	}
	w, h := q.w, q.dev.host
	w.stats.Doorbells++
	w.stats.Verbs += uint64(n)
	if q.state == verbs.StateErr {
		return n, err
	}
	crash, at, phase := w.plan.dueInDoorbell(h, n)
	h.verbs += uint64(n)
	if crash {
		q.shorten(n, at, phase)
	}
	if q.tail != q.next {
		w.charge(q, n)
		q.pump()
	}
	w.plan.posted(h)
	if k := w.cur; crash && k != nil && k.host == h {
		w.vanish()
	}
	return n, err
}

// enqueue takes over what can be accepted. In ERR it completes at once.
func (q *qp) enqueue(wrs []verbs.SendWR) (int, error) {
	room := true
	for i := range wrs {
		wr := &wrs[i]
		err := q.refuse(wr)
		if err != nil {
			return i, err
		}
		seq := q.tail
		q.tail++
		if q.state == verbs.StateErr {
			q.head, q.next = q.tail, q.tail
			room = q.sendCQ.push(completion{qp: q, seq: seq, wc: verbs.WC{ID: wr.ID, QPN: q.num,
				Status: verbs.StatusWRFlushErr, Opcode: wr.Opcode.Completion()}}) && room
			continue
		}
		r := q.w.pool.get()
		r.line, r.seq = q.line, seq
		r.set(wr)
		q.sq[seq&uint64(len(q.sq)-1)] = r
	}
	if !room {
		q.sendCQ.overflow()
	}
	return len(wrs), nil
}

// refuse finds what is wrong with a request at once.
func (q *qp) refuse(wr *verbs.SendWR) error {
	if q.tail-1-q.freed >= uint64(q.init.MaxSendWR) {
		return fmt.Errorf("%w: send queue of %d; poll a signaled completion first", verbs.ErrQueueFull, q.init.MaxSendWR)
	}
	return wr.Check(&q.init)
}

// shorten takes from the queue what a crash at request number at, of the last n
// that were posted, does not let out.
func (q *qp) shorten(n, at int, phase Phase) {
	first := q.tail - uint64(n)
	end := first
	switch phase {
	case PhaseBefore:
	case PhaseAfter:
		end = q.tail
	case PhaseHalf:
		end = first + uint64(at)
		r := q.at(end - 1)
		switch {
		case r.opcode == verbs.OpWrite && r.length > 8:
			r.short = true
		case q.w.sched.below(2) == 0:
			end--
		}
	}
	for ; q.tail != end; q.tail-- {
		slot := &q.sq[(q.tail-1)&uint64(len(q.sq)-1)]
		q.w.drop(*slot)
		*slot = nil
	}
}

// charge lets the doorbell take its time on the processor that rings it, and
// notes when the NIC knows of the last n requests.
func (w *World) charge(q *qp, n int) {
	m := &q.dev.host.nic.model
	start := ps(w.now)
	cost := ps(m.DoorbellNS) + int64(n)*m.PostPS
	if k := w.cur; k != nil && k.core != nil {
		start = max(start, k.core.free)
		k.core.free = start + cost
	}
	known := start + cost
	if n > 1 {
		known += ps(m.WQEFetchNS)
	}
	for i := q.tail - uint64(min(n, int(q.tail-q.next))); i != q.tail; i++ {
		q.at(i).posted = known
	}
}

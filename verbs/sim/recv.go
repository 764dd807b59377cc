package sim

import (
	"fmt"

	"fjord/verbs"
)

// recvQueue is a ring of posted receives. Those from done to head belong to
// messages that have arrived and are not complete.
type recvQueue struct {
	wrs  []recv
	sges []verbs.SGE // sge for each slot
	sge  int
	done uint64 // next to complete
	head uint64 // next to be taken by a message
	tail uint64 // next to be posted
	free uint64 // receives below have been polled: their slots are free
}

type recv struct {
	id   uint64
	nsge int
}

func (r *recvQueue) init(wrs, sge int) {
	r.wrs, r.sge = make([]recv, wrs), sge
	r.sges = make([]verbs.SGE, wrs*sge)
}

// sgl returns the pieces of receive i.
func (r *recvQueue) sgl(i uint64) []verbs.SGE {
	slot := int(i % uint64(len(r.wrs)))
	return r.sges[slot*r.sge : slot*r.sge+r.wrs[slot].nsge]
}

func (r *recvQueue) id(i uint64) uint64 { return r.wrs[i%uint64(len(r.wrs))].id }

// clear drops the posted receives and takes all slots back.
func (r *recvQueue) clear() { r.done, r.head, r.free = r.tail, r.tail, r.tail }

// flush empties the queue of q into flush completions. It reports whether the CQ
// had room.
func (r *recvQueue) flush(q *qp) bool {
	ok := true
	for ; r.done != r.tail; r.done++ {
		ok = q.recvCQ.push(completion{qp: q, wc: verbs.WC{ID: r.id(r.done), QPN: q.num,
			Status: verbs.StatusWRFlushErr, Opcode: verbs.WCRecv}}) && ok
	}
	r.head = r.tail
	return ok
}

// PostRecv posts receives.
func (q *qp) PostRecv(wrs []verbs.RecvWR) (int, error) {
	if q.closed || q.dev.dead {
		return 0, verbs.ErrClosed
	}
	if q.state == verbs.StateReset {
		return 0, fmt.Errorf("%w: PostRecv in %v, right is INIT, RTR or RTS", verbs.ErrState, q.state)
	}
	n, err := q.rq.add(wrs)
	if q.state == verbs.StateErr && !q.rq.flush(q) {
		q.recvCQ.overflow()
	}
	return n, err
}

func (r *recvQueue) add(wrs []verbs.RecvWR) (int, error) {
	for i := range wrs {
		if len(wrs[i].SGL) > r.sge {
			return i, fmt.Errorf("%w: receive %d has %d pieces, the QP allows %d", verbs.ErrInvalid, i, len(wrs[i].SGL), r.sge)
		}
		if r.tail-r.free >= uint64(len(r.wrs)) {
			return i, fmt.Errorf("%w: receive queue of %d; poll a receive's completion first", verbs.ErrQueueFull, len(r.wrs))
		}
		slot := int(r.tail % uint64(len(r.wrs)))
		r.wrs[slot] = recv{id: wrs[i].ID, nsge: len(wrs[i].SGL)}
		copy(r.sges[slot*r.sge:], wrs[i].SGL)
		r.tail++
	}
	return len(wrs), nil
}

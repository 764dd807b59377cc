package mem

import (
	"fmt"
	"sync"

	"fjord/verbs"
)

// recvQueue is a ring of posted receives. Its arrays are made with the QP.
type recvQueue struct {
	mu   sync.Mutex
	wrs  []recv
	sges []verbs.SGE // maxSGE for each slot
	sge  int
	head uint64
	tail uint64
}

type recv struct {
	id   uint64
	nsge int
}

func (r *recvQueue) init(wrs, sge int) {
	r.wrs, r.sge = make([]recv, wrs), sge
	r.sges = make([]verbs.SGE, wrs*sge)
}

// sgl returns the pieces of slot i.
func (r *recvQueue) sgl(i uint64) []verbs.SGE {
	slot := int(i % uint64(len(r.wrs)))
	return r.sges[slot*r.sge : slot*r.sge+r.wrs[slot].nsge]
}

func (r *recvQueue) id(i uint64) uint64 { return r.wrs[i%uint64(len(r.wrs))].id }

func (r *recvQueue) clear() {
	r.mu.Lock()
	r.head = r.tail
	r.mu.Unlock()
}

// flush empties the queue into flush completions.
func (r *recvQueue) flush(q *qp) []entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	var es []entry
	for ; r.head != r.tail; r.head++ {
		es = append(es, entry{qp: q, wc: verbs.WC{ID: r.id(r.head), QPN: q.num,
			Status: verbs.StatusWRFlushErr, Opcode: verbs.WCRecv}})
	}
	return es
}

// PostRecv posts receives, and lets a sender that waits for one go on.
func (q *qp) PostRecv(wrs []verbs.RecvWR) (int, error) {
	q.mu.Lock()
	if q.destroyed {
		q.mu.Unlock()
		return 0, verbs.ErrClosed
	}
	switch st := q.State(); st {
	case verbs.StateReset:
		q.mu.Unlock()
		return 0, fmt.Errorf("%w: PostRecv in %v, right is INIT, RTR or RTS", verbs.ErrState, st)
	case verbs.StateErr:
		es := make([]entry, 0, len(wrs))
		for i := range wrs {
			es = append(es, entry{qp: q, wc: verbs.WC{ID: wrs[i].ID, QPN: q.num,
				Status: verbs.StatusWRFlushErr, Opcode: verbs.WCRecv}})
		}
		ok := q.recvCQ.push(es)
		q.mu.Unlock()
		if !ok {
			q.recvCQ.overflow()
		}
		return len(wrs), nil
	case verbs.StateInit, verbs.StateRTR, verbs.StateRTS:
	}
	n, err := q.rq.add(wrs)
	q.mu.Unlock()
	if r := q.requester.Load(); n > 0 && r != nil && r.waiting.Load() {
		r.resume(false)
	}
	return n, err
}

func (r *recvQueue) add(wrs []verbs.RecvWR) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range wrs {
		if len(wrs[i].SGL) > r.sge {
			return i, fmt.Errorf("%w: receive %d has %d pieces, the QP allows %d", verbs.ErrInvalid, i, len(wrs[i].SGL), r.sge)
		}
		if r.tail-r.head == uint64(len(r.wrs)) {
			return i, fmt.Errorf("%w: receive queue of %d", verbs.ErrQueueFull, len(r.wrs))
		}
		slot := int(r.tail % uint64(len(r.wrs)))
		r.wrs[slot] = recv{id: wrs[i].ID, nsge: len(wrs[i].SGL)}
		copy(r.sges[slot*r.sge:], wrs[i].SGL)
		r.tail++
	}
	return len(wrs), nil
}

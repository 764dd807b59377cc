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
	head uint64 // next to be consumed
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

// sgl returns the pieces of slot i.
func (r *recvQueue) sgl(i uint64) []verbs.SGE {
	slot := int(i % uint64(len(r.wrs)))
	return r.sges[slot*r.sge : slot*r.sge+r.wrs[slot].nsge]
}

func (r *recvQueue) id(i uint64) uint64 { return r.wrs[i%uint64(len(r.wrs))].id }

// clear drops the posted receives and returns how many there ever were.
func (r *recvQueue) clear() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.head, r.free = r.tail, r.tail
	return r.tail
}

// flush empties the queue of q into flush completions. It reports whether the
// CQ had room. Completions are pushed under mu, so that they come in the order of
// posting.
func (r *recvQueue) flush(q *qp) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.head == r.tail {
		return true
	}
	es := make([]entry, 0, r.tail-r.head)
	for ; r.head != r.tail; r.head++ {
		es = append(es, entry{qp: q, wc: verbs.WC{ID: r.id(r.head), QPN: q.num,
			Status: verbs.StatusWRFlushErr, Opcode: verbs.WCRecv}})
	}
	return q.recvCQ.push(es)
}

// PostRecv posts receives, and lets a sender that waits for one go on.
func (q *qp) PostRecv(wrs []verbs.RecvWR) (int, error) {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return 0, verbs.ErrClosed
	}
	st := q.State()
	if st == verbs.StateReset {
		q.mu.Unlock()
		return 0, fmt.Errorf("%w: PostRecv in %v, right is INIT, RTR or RTS", verbs.ErrState, st)
	}
	n, err := q.rq.add(q, wrs)
	room := true
	if st == verbs.StateErr {
		room = q.rq.flush(q)
	}
	q.mu.Unlock()
	if !room {
		q.recvCQ.overflow()
	}
	if n > 0 {
		q.wake()
	}
	return n, err
}

// wake lets the peer go on, when it waits for a receive.
func (q *qp) wake() {
	if r := q.requester(); r != nil && r.waiting.Load() {
		r.resume()
	}
}

func (r *recvQueue) add(q *qp, wrs []verbs.RecvWR) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range wrs {
		if len(wrs[i].SGL) > r.sge {
			return i, fmt.Errorf("%w: receive %d has %d pieces, the QP allows %d", verbs.ErrInvalid, i, len(wrs[i].SGL), r.sge)
		}
		if r.tail-r.free >= uint64(len(r.wrs)) {
			q.recvCQ.mu.Lock()
			r.free = q.rqDone
			q.recvCQ.mu.Unlock()
			if r.tail-r.free >= uint64(len(r.wrs)) {
				return i, fmt.Errorf("%w: receive queue of %d; poll a receive's completion first", verbs.ErrQueueFull, len(r.wrs))
			}
		}
		slot := int(r.tail % uint64(len(r.wrs)))
		r.wrs[slot] = recv{id: wrs[i].ID, nsge: len(wrs[i].SGL)}
		copy(r.sges[slot*r.sge:], wrs[i].SGL)
		r.tail++
	}
	return len(wrs), nil
}

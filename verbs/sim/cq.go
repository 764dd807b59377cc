package sim

import (
	"fmt"
	"slices"

	"fjord/verbs"
)

// completion is a WC together with the queue slot that polling it gives back.
type completion struct {
	wc  verbs.WC
	qp  *qp
	seq uint64 // send queue position up to which slots are free; 0: a receive
}

type cq struct {
	dev    *Device
	index  int
	ring   []completion // a power of two
	head   uint64       // next to poll
	tail   uint64       // next to fill
	depth  int
	lost   bool // a completion found no room
	told   bool // the loss has been handled
	closed bool
	armed  []verbs.Parker // each waiter once, so as long as there are waiters
	users  []*qp          // a QP twice when this is its send and its receive CQ
}

// CreateCQ makes a completion queue.
func (d *Device) CreateCQ(depth int) (verbs.CQ, error) {
	if depth < 1 || depth > maxCQE {
		return nil, fmt.Errorf("%w: CQ depth is %d, right is 1 to %d", verbs.ErrInvalid, depth, maxCQE)
	}
	if d.dead {
		return nil, verbs.ErrClosed
	}
	if d.cqs == maxCQ {
		return nil, fmt.Errorf("%w: %d completion queues", verbs.ErrLimit, maxCQ)
	}
	d.cqs++
	return &cq{dev: d, index: d.cqs, ring: make([]completion, powerOfTwo(depth)), depth: depth}, nil
}

// powerOfTwo returns the least one that is not below n.
func powerOfTwo(n int) int {
	size := 1
	for size < n {
		size *= 2
	}
	return size
}

func (c *cq) Depth() int { return c.depth }

// String names the queue, and what its QPs wait for.
func (c *cq) String() string {
	const most = 4
	s := fmt.Sprintf("CQ %d of device %s", c.index, c.dev.attr.Name)
	for i, q := range c.users {
		if i == most {
			return fmt.Sprintf("%s and %d more", s, len(c.users)-most)
		}
		if slices.Index(c.users, q) == i {
			s += fmt.Sprintf(", QP %#x in %v with %d requests under way and %d receives posted", q.num, q.state, q.tail-q.head, q.rq.tail-q.rq.head)
		}
	}
	return s
}

// Poll takes completions.
func (c *cq) Poll(wcs []verbs.WC) int {
	n := 0
	for n < len(wcs) && c.head != c.tail {
		e := &c.ring[c.head&uint64(len(c.ring)-1)]
		wcs[n] = e.wc
		if e.seq == 0 {
			e.qp.rq.free++
		} else {
			e.qp.freed = max(e.qp.freed, e.seq)
		}
		e.qp = nil
		c.head++
		n++
	}
	return n
}

// Arm asks for a wake-up at the next completion.
func (c *cq) Arm(p verbs.Parker) {
	if own, ok := p.(*parker); ok {
		own.armed = c
	}
	if !slices.Contains(c.armed, p) {
		c.armed = append(c.armed, p)
	}
}

// push adds a completion. It reports whether there was room; if not the queue is
// lost, and the caller must call overflow when the QP is in order.
func (c *cq) push(e completion) bool {
	if c.dev.dead {
		return true // nobody is there to poll it
	}
	if c.tail-c.head == uint64(c.depth) {
		c.lost = true
	}
	if !c.lost {
		c.ring[c.tail&uint64(len(c.ring)-1)] = e
		c.tail++
		c.dev.w.note(StepCompletion, uint64(e.qp.index)<<8|uint64(e.wc.Status), e.seq)
	}
	armed := c.armed
	c.armed = c.armed[:0]
	for _, p := range armed {
		if own, ok := p.(*parker); ok {
			own.completed()
		} else {
			p.Unpark()
		}
	}
	return !c.lost
}

// overflow takes every QP of a lost queue to ERR.
func (c *cq) overflow() {
	if !c.told {
		c.told = true
		c.dev.event(verbs.AsyncEvent{Type: verbs.EventCQError, CQ: c})
	}
	for _, q := range slices.Clone(c.users) {
		q.fail()
	}
}

func (c *cq) attach(q *qp) error {
	if c.closed {
		return verbs.ErrClosed
	}
	if c.lost {
		return fmt.Errorf("%w: the completion queue overflowed", verbs.ErrInvalid)
	}
	c.users = append(c.users, q)
	return nil
}

// detach forgets a QP and its completions.
func (c *cq) detach(q *qp) {
	c.forget(q)
	if i := slices.Index(c.users, q); i >= 0 {
		c.users = slices.Delete(c.users, i, i+1)
	}
}

// forget drops the completions of a QP.
func (c *cq) forget(q *qp) {
	mask := uint64(len(c.ring) - 1)
	keep := c.head
	for i := c.head; i != c.tail; i++ {
		if e := c.ring[i&mask]; e.qp != q {
			c.ring[keep&mask] = e
			keep++
		}
	}
	c.tail = keep
}

// Close frees the queue.
func (c *cq) Close() error {
	if c.closed {
		return nil
	}
	if len(c.users) > 0 && !c.dev.closed {
		return fmt.Errorf("%w: QPs use this completion queue", verbs.ErrBusy)
	}
	c.closed = true
	c.dev.cqs--
	return nil
}

package mem

import (
	"fmt"
	"slices"
	"sync/atomic"

	"fjord/internal/words"
	"fjord/verbs"
)

// entry is a completion together with the queue slot that polling it gives
// back.
type entry struct {
	wc  verbs.WC
	qp  *qp
	seq uint64 // send queue position up to which slots are free; 0: a receive
}

type cq struct {
	dev *Device

	mu     words.Lock // last in the order of locks
	ring   []entry    // a power of two
	head   uint64     // next to poll; changed under mu, read without
	tail   uint64     // next to fill; likewise
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
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, verbs.ErrClosed
	}
	if d.cqs == maxCQ {
		return nil, fmt.Errorf("%w: %d completion queues", verbs.ErrLimit, maxCQ)
	}
	d.cqs++
	size := 1
	for size < depth {
		size *= 2
	}
	return &cq{dev: d, ring: make([]entry, size), depth: depth}, nil
}

func (c *cq) Depth() int { return c.depth }

// Poll takes completions.
func (c *cq) Poll(wcs []verbs.WC) int {
	if atomic.LoadUint64(&c.head) == atomic.LoadUint64(&c.tail) {
		return 0
	}
	return c.take(wcs)
}

func (c *cq) take(wcs []verbs.WC) int {
	c.mu.Lock()
	n := 0
	head := c.head
	for n < len(wcs) && head != c.tail {
		e := &c.ring[head&uint64(len(c.ring)-1)]
		wcs[n] = e.wc
		if e.seq == 0 {
			e.qp.rqDone++
		} else if e.seq > e.qp.sqDone {
			words.Release(&e.qp.sqDone, e.seq)
		}
		e.qp = nil
		head++
		n++
	}
	words.Release(&c.head, head)
	c.mu.Unlock()
	return n
}

// Arm asks for a wake-up at the next completion.
func (c *cq) Arm(p verbs.Parker) {
	c.mu.Lock()
	if !slices.Contains(c.armed, p) {
		c.armed = append(c.armed, p)
	}
	c.mu.Unlock()
}

// push adds completions. It reports whether there was room; if not the queue is
// lost, and the caller must call overflow once it holds no QP lock.
func (c *cq) push(es []entry) bool {
	c.mu.Lock()
	ok := !c.lost
	for i := range es {
		if c.lost || c.tail-c.head == uint64(c.depth) {
			ok, c.lost = false, true
			break
		}
		c.ring[c.tail&uint64(len(c.ring)-1)] = es[i]
		words.Release(&c.tail, c.tail+1)
	}
	for _, p := range c.armed {
		p.Unpark()
	}
	c.armed = c.armed[:0]
	c.mu.Unlock()
	return ok
}

// overflow takes every QP of a lost queue to ERR.
func (c *cq) overflow() {
	c.mu.Lock()
	first := !c.told
	c.told = true
	users := slices.Clone(c.users)
	c.mu.Unlock()
	if first {
		c.dev.event(verbs.AsyncEvent{Type: verbs.EventCQError, CQ: c})
	}
	for _, q := range users {
		q.fail()
	}
}

func (c *cq) isLost() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

func (c *cq) attach(q *qp) error {
	c.mu.Lock()
	defer c.mu.Unlock()
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
func (c *cq) detach(q *qp, posted uint64) {
	c.forget(q, posted)
	c.mu.Lock()
	if i := slices.Index(c.users, q); i >= 0 {
		c.users = slices.Delete(c.users, i, i+1)
	}
	c.mu.Unlock()
}

// forget drops the completions of a QP, and takes the slots of all receives back
// that were ever posted to it.
func (c *cq) forget(q *qp, posted uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	mask := uint64(len(c.ring) - 1)
	keep := c.head
	for i := c.head; i != c.tail; i++ {
		if e := c.ring[i&mask]; e.qp != q {
			c.ring[keep&mask] = e
			keep++
		}
	}
	words.Release(&c.tail, keep)
	if c == q.recvCQ {
		q.rqDone = posted
	}
}

// Close frees the queue.
func (c *cq) Close() error {
	c.dev.mu.Lock()
	gone := c.dev.closed
	c.dev.mu.Unlock()
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	if len(c.users) > 0 && !gone {
		c.mu.Unlock()
		return fmt.Errorf("%w: QPs use this completion queue", verbs.ErrBusy)
	}
	c.closed = true
	c.mu.Unlock()
	c.dev.mu.Lock()
	c.dev.cqs--
	c.dev.mu.Unlock()
	return nil
}

package mem

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"fjord/verbs"
)

// entry is a completion together with the send queue slot that polling it
// gives back.
type entry struct {
	wc  verbs.WC
	qp  *qp
	seq uint64 // send queue position up to which slots are free; 0: a receive
}

type cq struct {
	dev *Device
	// stalled counts QPs that wait for a receive and have a time limit.
	stalled atomic.Int32

	mu     sync.Mutex // last in the order of locks
	ring   []entry    // a power of two
	head   uint64     // next to poll
	tail   uint64     // next to fill
	depth  int
	lost   bool
	closed bool
	armed  verbs.Parker
	users  []*qp
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
	if c.stalled.Load() != 0 {
		c.expire()
	}
	c.mu.Lock()
	n := 0
	for n < len(wcs) && c.head != c.tail {
		e := &c.ring[c.head&uint64(len(c.ring)-1)]
		wcs[n] = e.wc
		if e.seq != 0 && e.seq > e.qp.sqDone {
			e.qp.sqDone = e.seq
		}
		e.qp = nil
		c.head++
		n++
	}
	c.mu.Unlock()
	return n
}

// Arm asks for a wake-up at the next completion.
func (c *cq) Arm(p verbs.Parker) {
	c.mu.Lock()
	c.armed = p
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
		c.tail++
	}
	p := c.armed
	c.armed = nil
	c.mu.Unlock()
	if p != nil {
		p.Unpark()
	}
	return ok
}

// overflow takes every QP of a lost queue to ERR.
func (c *cq) overflow() {
	c.mu.Lock()
	users := slices.Clone(c.users)
	c.mu.Unlock()
	told := false
	for _, q := range users {
		if q.State() != verbs.StateErr {
			q.fail()
			if !told {
				c.dev.event(verbs.AsyncEvent{Type: verbs.EventCQError, CQ: c})
				told = true
			}
		}
	}
}

// expire fails the SENDs that waited too long for a receive.
func (c *cq) expire() {
	c.mu.Lock()
	users := slices.Clone(c.users)
	c.mu.Unlock()
	for _, q := range users {
		q.resume(true)
	}
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
func (c *cq) detach(q *qp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.users, q); i >= 0 {
		c.users = slices.Delete(c.users, i, i+1)
	}
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
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	if n := len(c.users); n > 0 {
		c.mu.Unlock()
		return fmt.Errorf("%w: %d QPs use this completion queue", verbs.ErrBusy, n)
	}
	c.closed = true
	c.mu.Unlock()
	c.dev.mu.Lock()
	c.dev.cqs--
	c.dev.mu.Unlock()
	return nil
}

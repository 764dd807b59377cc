package coord

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"fjord/internal/words"
	"fjord/lock"
	"fjord/verbs"
)

// Errors of Acquire.
var (
	// ErrNested: the worker runs on a session of this coordinator already.
	ErrNested = errors.New("coord: this goroutine runs a transaction already")
	// ErrNoSession: all sessions stayed in use for longer than a transaction may take.
	ErrNoSession = errors.New("coord: all sessions are in use")
	// ErrNoMemory: large transactions hold the local memory that a session needs.
	ErrNoMemory = errors.New("coord: no local memory for another session")
	// ErrUnresolved: a transaction's outcome is unknown, so that nobody may rely on
	// its being over. Retry after it was resolved.
	ErrUnresolved = errors.New("coord: a transaction has an unknown outcome")
)

// Owners of a session that are no workers. Worker numbers (Runtime.Self) are
// addresses or small counts, never these.
const (
	ownerManual  = math.MaxUint64 - iota // a transaction that is ended by hand
	ownerStats                           // somebody reads its counters
	ownerLost                            // its transaction's outcome is unknown
	ownerClosing                         // it is being freed
	ownerClosed
)

// lookAgain is how long a worker sleeps at most while it waits for a session.
const lookAgain = 1_000_000

// sessionPatience bounds the wait for a session when the context does not.
const sessionPatience = 10_000_000_000

// pool hands out sessions. A worker gets the session that it had last, if that
// is idle: found in one line of a table, without a lock. The same line tells
// that the worker is running on it: a nested transaction.
type pool struct {
	c       *Coordinator
	max     int
	newUser func(*Session) any
	homes   []homeLine

	waiters  atomic.Int32 // workers that wait for a session
	patience int64        // sessionPatience

	mu       sync.Mutex
	sessions []*Session // made so far; nil: being made, or could not be
	spare    []int      // places in sessions of those that could not be made
	making   int        // sessions being made
	numbers  int        // session numbers given out
	queue    []verbs.Parker
	closed   bool

	abandoned bool // a session was closed whose transaction's outcome is unknown
}

// homeLine is one cache line of the table.
type homeLine [4]home

type home struct {
	who atomic.Uint64
	s   atomic.Pointer[Session]
}

const homeBits = 8

func (p *pool) init(c *Coordinator, cfg Config) {
	p.c, p.max, p.newUser, p.patience = c, cfg.Sessions, cfg.NewUser, sessionPatience
	p.homes = make([]homeLine, 1<<homeBits)
}

func (p *pool) line(who uint64) *homeLine {
	return &p.homes[who*0x9e3779b97f4a7c15>>(64-homeBits)]
}

// number gives out a session number, for tokens.
func (p *pool) number() (uint16, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.numbers == lock.LeaseSession-1 {
		return 0, fmt.Errorf("%w: coordinator %d has used up its transaction ids; open again for a new coordinator id", ErrEnded, p.c.ID())
	}
	p.numbers++
	return uint16(p.numbers), nil
}

// Acquire takes a session for the running worker; it waits while all are in use.
func (c *Coordinator) Acquire(ctx context.Context) (*Session, error) {
	who := c.rt.Self()
	p := &c.pool
	line := p.line(who)
	for i := range line {
		h := &line[i]
		if h.who.Load() != who {
			continue
		}
		s := h.s.Load()
		if s == nil {
			break
		}
		if atomic.LoadUint64(&s.owner) == who {
			return nil, ErrNested
		}
		if atomic.CompareAndSwapUint64(&s.owner, 0, who) {
			return p.begin(ctx, s)
		}
		break
	}
	return p.acquire(ctx, who)
}

// AcquireManual takes a session that no worker is bound to.
func (c *Coordinator) AcquireManual(ctx context.Context) (*Session, error) {
	return c.pool.acquire(ctx, ownerManual)
}

// begin is the last step of every acquisition.
func (p *pool) begin(ctx context.Context, s *Session) (*Session, error) {
	// Looked at after the session was taken: close looks in the other order.
	if p.c.standing.now.Load() != uint64(s.seat.ID) {
		return p.stand(ctx, s)
	}
	return s, nil
}

func (p *pool) acquire(ctx context.Context, who uint64) (*Session, error) {
	s, err := p.try(ctx, who)
	if errors.Is(err, ErrFenced) { // a session could not be made
		if err = p.c.rejoin(ctx); err == nil {
			s, err = p.try(ctx, who)
		}
	}
	if s != nil || err != nil {
		return s, err
	}
	// All are in use: wait in line. Each sleep is short, since a Release that
	// came just before the place in line was taken wakes nobody.
	p.waiters.Add(1)
	defer p.waiters.Add(-1)
	w := verbs.NewWaiter(p.c.rt)
	var place verbs.Parker // in line; nil: none was taken
	join := func(k verbs.Parker) {
		place = k
		p.join(k)
	}
	defer func() { p.leave(place) }()
	for deadline := p.c.rt.Now() + p.patience; ; {
		var got *Session
		var err error
		ready := func() bool {
			if err = ctx.Err(); err == nil {
				got, err = p.try(ctx, who)
			}
			return got != nil || err != nil
		}
		now := p.c.rt.Now()
		if w.Until(ready, join, now+lookAgain) == nil {
			return got, err
		}
		if now > deadline {
			return nil, fmt.Errorf("%w: all %d, for %d s; a transaction begun by hand that was never ended?", ErrNoSession, p.max, int64(sessionPatience/1_000_000_000))
		}
	}
}

// join puts a worker that is about to sleep in line.
func (p *pool) join(k verbs.Parker) {
	p.mu.Lock()
	if !slices.Contains(p.queue, k) {
		p.queue = append(p.queue, k)
	}
	p.mu.Unlock()
}

// leave takes a worker that waits no longer out of line.
func (p *pool) leave(k verbs.Parker) {
	p.mu.Lock()
	p.queue = slices.DeleteFunc(p.queue, func(q verbs.Parker) bool { return q == k })
	p.mu.Unlock()
}

// try takes an idle session or makes a new one; neither is nil, nil.
func (p *pool) try(ctx context.Context, who uint64) (*Session, error) {
	if p.c.closed.Load() {
		return nil, ErrEnded
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, ErrEnded
	}
	if who != ownerManual {
		for _, s := range p.sessions {
			if s != nil && atomic.LoadUint64(&s.owner) == who {
				p.mu.Unlock()
				return nil, ErrNested
			}
		}
	}
	for _, s := range p.sessions {
		if s != nil && atomic.LoadUint64(&s.owner) == 0 && atomic.CompareAndSwapUint64(&s.owner, 0, who) {
			p.settle(s, who)
			p.mu.Unlock()
			return p.begin(ctx, s)
		}
	}
	i := len(p.sessions)
	switch n := len(p.spare); {
	case n > 0:
		i, p.spare = p.spare[n-1], p.spare[:n-1]
	case i == p.max:
		lost := !slices.ContainsFunc(p.sessions, func(s *Session) bool { return s == nil || atomic.LoadUint64(&s.owner) != ownerLost })
		p.mu.Unlock()
		if lost {
			return nil, fmt.Errorf("%w: all %d sessions keep transactions that could not be ended for want of one", ErrNoNode, p.max)
		}
		return nil, nil
	default:
		p.sessions = append(p.sessions, nil)
	}
	p.making++
	p.mu.Unlock()
	s, err := newSession(ctx, p.c, i)
	if err == nil {
		atomic.StoreUint64(&s.owner, who)
		if p.newUser != nil {
			s.User = p.newUser(s)
		}
	}
	p.mu.Lock()
	p.making--
	if err != nil {
		p.spare = append(p.spare, i)
		p.mu.Unlock()
		p.wake() // the place is free for others to try
		return nil, err
	}
	p.sessions[i] = s
	p.settle(s, who)
	p.mu.Unlock()
	return p.begin(ctx, s)
}

// settle makes s the session that who finds first. Under mu. An entry whose
// worker is running on its session stays: it tells of nesting.
func (p *pool) settle(s *Session, who uint64) {
	if who == ownerManual {
		return
	}
	line := p.line(who)
	place := -1
	for i := range line {
		w := line[i].who.Load()
		if w == who {
			place = i
			break
		}
		if t := line[i].s.Load(); place < 0 && (t == nil || atomic.LoadUint64(&t.owner) != w) {
			place = i
		}
	}
	if place >= 0 {
		line[place].who.Store(0)
		line[place].s.Store(s)
		line[place].who.Store(who)
	}
}

// Release gives the session back.
func (s *Session) Release() {
	if len(s.arena.more) > 0 {
		s.Reset() // what a large transaction had is for others: this session may be idle for long
	}
	// In this order, and neither needs a full fence: who takes the session does
	// so with a CAS, and a waiter that is not seen here looks again by itself.
	words.Release(&s.ended, s.ended+1)
	words.Release(&s.owner, 0)
	if s.c.pool.waiters.Load() > 0 {
		s.c.pool.wake()
	}
}

// Park keeps the session out of use, since its transaction's outcome is unknown.
func (s *Session) Park() { atomic.StoreUint64(&s.owner, ownerLost) }

// Unpark takes a parked session into use again, by whoever ends its transaction;
// false if another is at that, or the session is closed.
func (s *Session) Unpark() bool { return atomic.CompareAndSwapUint64(&s.owner, ownerLost, ownerManual) }

// wake lets all who wait try again.
func (p *pool) wake() {
	p.mu.Lock()
	queue := p.queue
	p.queue = nil
	p.mu.Unlock()
	for _, k := range queue {
		k.Unpark()
	}
}

// snapshot returns the sessions that exist.
func (p *pool) snapshot() []*Session {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*Session, 0, len(p.sessions))
	for _, s := range p.sessions {
		if s != nil {
			all = append(all, s)
		}
	}
	return all
}

// Sessions calls idle with every session that it could take, so that nobody
// changes it meanwhile, or that is closed, and busy with those that are running a
// transaction.
func (c *Coordinator) Sessions(idle, busy func(*Session)) {
	for _, s := range c.pool.snapshot() {
		switch {
		case atomic.CompareAndSwapUint64(&s.owner, 0, ownerStats):
			idle(s)
			s.Release()
		case atomic.LoadUint64(&s.owner) == ownerClosed:
			idle(s)
		default:
			busy(s)
		}
	}
}

// drain waits until every transaction that runs now has ended, and until nothing
// of any that has ended is on its way: a release may land late, and a transaction
// with an unknown outcome may be written again by Resolve.
func (p *pool) drain(ctx context.Context) error {
	for _, s := range p.snapshot() {
		ended := atomic.LoadUint64(&s.ended)
		var failed error
		if err := p.until(ctx, func() bool {
			switch atomic.LoadUint64(&s.owner) {
			case ownerClosed:
				return true
			case ownerLost:
				if s.seat.ID != p.c.ID() {
					return true // fenced: nothing of it is written again
				}
				failed = fmt.Errorf("%w: session %d keeps one", ErrUnresolved, s.index)
				return true
			case 0:
				if !atomic.CompareAndSwapUint64(&s.owner, 0, ownerStats) {
					return false
				}
				if s.seat.ID == p.c.ID() { // else it was fenced, and owes nothing
					failed = s.Settle(ctx)
				}
				s.Release()
				return true
			}
			return s.sync && atomic.LoadUint64(&s.ended) != ended // its releases executed when they were posted
		}); err != nil {
			return fmt.Errorf("session %d is in a transaction: %w", s.index, err)
		}
		if failed != nil {
			return failed
		}
	}
	return nil
}

// close takes every session out of use and frees it. It is quiet if none is left
// in use.
func (p *pool) close(ctx context.Context) (quiet bool, err error) {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.wake()
	if err := p.until(ctx, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.making == 0
	}); err != nil {
		return false, fmt.Errorf("coord: a session is being made: %w", err)
	}
	quiet = true
	var first error
	for _, s := range p.snapshot() {
		err := p.until(ctx, func() bool {
			if atomic.CompareAndSwapUint64(&s.owner, ownerLost, ownerClosing) {
				p.abandoned = p.abandoned || s.seat.ID == p.c.ID()
				return true
			}
			return atomic.CompareAndSwapUint64(&s.owner, 0, ownerClosing)
		})
		if err != nil {
			quiet = false
			err = fmt.Errorf("coord: session %d is in a transaction: %w", s.index, err)
		} else {
			if err = s.Settle(ctx); errors.Is(err, ErrFenced) {
				err = nil // whoever fenced it releases what is left
			}
			s.free()
			atomic.StoreUint64(&s.owner, ownerClosed)
		}
		if err != nil && first == nil {
			first = err
		}
	}
	return quiet, first
}

// pollEvery is how often a rare wait looks again.
const pollEvery = 100_000

func (p *pool) until(ctx context.Context, ready func() bool) error {
	for !ready() {
		if err := ctx.Err(); err != nil {
			return err
		}
		p.c.rt.Sleep(pollEvery)
	}
	return nil
}

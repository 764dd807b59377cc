package coord

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
)

// standing is whether a coordinator may run transactions, and as whom. A session runs
// under the seat that it was connected with; when the coordinator has lost that seat,
// the session takes the next one before it runs again.
type standing struct {
	now atomic.Uint64 // id of the seat; 0: lost, or closed

	mu       sync.Mutex
	seat     Seat
	joining  bool   // somebody is getting a new seat
	joiner   uint64 // who: he may run on it already
	accepted bool   // the seat was got, and is being made ready
}

func (t *standing) sit(s Seat) {
	t.mu.Lock()
	t.seat = s
	t.mu.Unlock()
	t.now.Store(uint64(s.ID))
}

// Seat returns the coordinator's newest membership.
func (c *Coordinator) Seat() Seat {
	c.standing.mu.Lock()
	defer c.standing.mu.Unlock()
	return c.standing.seat
}

// ID is the coordinator's number, part of every token. It changes when the
// coordinator was fenced and has joined again.
func (c *Coordinator) ID() uint16 { return c.Seat().ID }

// Stands tells that the coordinator has a seat and is not known to be fenced.
func (c *Coordinator) Stands() bool { return c.standing.now.Load() != 0 }

// lost notes that a seat is fenced. It reports whether err says so.
func (c *Coordinator) lost(id uint16, err error) bool {
	if !errors.Is(err, ErrFenced) {
		return false
	}
	t := &c.standing
	t.now.CompareAndSwap(uint64(id), 0)
	t.mu.Lock()
	if t.seat.ID == id {
		t.accepted = false // also while it is being made ready
	}
	t.mu.Unlock()
	return true
}

// stand is the end of an acquisition by a session that does not run under the
// present seat.
func (p *pool) stand(ctx context.Context, s *Session) (*Session, error) {
	c, who := p.c, atomic.LoadUint64(&s.owner)
	if c.closed.Load() {
		s.Release()
		return nil, ErrEnded
	}
	err := ErrFenced
	if seat, ok := c.seated(); ok {
		if err = s.reseat(ctx, seat); err == nil {
			return s, nil
		}
	}
	s.Release() // while it joins, this worker runs transactions
	if !errors.Is(err, ErrFenced) {
		return nil, err
	}
	if err := c.rejoin(ctx); err != nil {
		return nil, err
	}
	return p.acquire(ctx, who)
}

// seated returns the seat that the running worker may use. Who is making one ready has
// it before the others.
func (c *Coordinator) seated() (Seat, bool) {
	t := &c.standing
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seat, t.now.Load() != 0 || t.accepted && t.joiner == c.rt.Self()
}

// rejoin gets a coordinator that was fenced a new seat, or waits until another has
// done so. Before anybody runs on it, OnDrain looks at what has changed meanwhile:
// epochs did not wait for this coordinator.
func (c *Coordinator) rejoin(ctx context.Context) error {
	t := &c.standing
	deadline := c.rt.Now() + c.pool.patience
	for {
		if c.closed.Load() {
			return ErrEnded
		}
		t.mu.Lock()
		if t.now.Load() != 0 {
			t.mu.Unlock()
			return nil
		}
		mine, nested := !t.joining, t.joining && t.joiner == c.rt.Self()
		if mine {
			t.joining, t.joiner = true, c.rt.Self()
		}
		t.mu.Unlock()
		if nested {
			return fmt.Errorf("%w: again, while it joined", ErrFenced)
		}
		if mine {
			err := c.takeSeat(ctx)
			t.mu.Lock()
			t.joining, t.joiner = false, 0
			t.mu.Unlock()
			if !errors.Is(err, ErrNoSeat) || c.rt.Now() > deadline {
				return err
			}
		}
		// The old place is free as soon as somebody has recovered what was left there.
		if err := ctx.Err(); err != nil {
			return err
		}
		c.rt.Sleep(lookAgain)
	}
}

func (c *Coordinator) takeSeat(ctx context.Context) error {
	t := &c.standing
	t.mu.Lock()
	seat, ready := t.seat, t.accepted
	t.mu.Unlock()
	old := seat.ID
	if !ready {
		var err error
		if seat, err = c.dir.Join(ctx, c); err != nil {
			return fmt.Errorf("coord: join again, for coordinator %d was fenced: %w", old, err)
		}
		c.pool.renumber()
		c.reach(seat.Epoch)
		t.mu.Lock()
		t.seat, t.accepted = seat, true
		t.mu.Unlock()
	}
	if c.onDrain != nil {
		if err := c.onDrain(ctx, seat.Epoch); err != nil {
			if c.lost(seat.ID, err) {
				return fmt.Errorf("coord: coordinator %d was fenced before it was ready: %w", seat.ID, err)
			}
			return fmt.Errorf("coord: make coordinator %d ready: %w", seat.ID, err)
		}
	}
	t.mu.Lock()
	t.accepted = false
	t.now.Store(uint64(seat.ID))
	t.mu.Unlock()
	if c.onRejoin != nil {
		c.onRejoin(old, seat.ID)
	}
	if c.closed.Load() { // looked at after the seat was taken: Close looks in the other order
		t.now.Store(0)
	}
	return nil
}

// renumber lets session numbers begin anew, under a new coordinator id.
func (p *pool) renumber() {
	p.mu.Lock()
	p.numbers = 0
	p.mu.Unlock()
}

// noSeat is an id that is never given: neither a coordinator's nor, as 0 is, that of
// one without a seat.
const noSeat = math.MaxUint16

// reseat connects a session anew, under another seat. Nothing of the old one is owed:
// who was fenced has no locks any more that are not others' to release.
func (s *Session) reseat(ctx context.Context, seat Seat) error {
	if s.seat.ID == seat.ID {
		return nil
	}
	for s.pending > 0 { // let the flushes arrive, they belong to the old QPs
		if err := s.poll(); err != nil {
			return err
		}
	}
	s.owed, s.taken, s.number = s.owed[:0], false, 0
	s.seat = Seat{ID: noSeat, Place: seat.Place} // until all is connected
	for _, k := range s.conns {
		if k.open {
			k.giveBack()
		}
		if k.qp != nil {
			_ = k.qp.Close() // fails only if closed already
			k.qp = nil
		}
		k.n, k.done = 0, k.posted
		if k.err == nil { // until it is connected
			s.spoil(k, ErrFenced)
		}
	}
	for _, k := range s.conns {
		if err := s.connectAs(ctx, k, seat.ID); err != nil {
			return err
		}
	}
	s.seat = seat
	return nil
}

// Fenced tells that the seat under which the session is connected was fenced: nothing
// that it posts is executed any more, and what it had not committed others settle.
func (s *Session) Fenced() bool {
	t := &s.c.standing
	if s.c.closed.Load() || t.now.Load() == uint64(s.seat.ID) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.accepted || t.seat.ID != s.seat.ID
}

// Recovered notes that the locks of a coordinator may be released by anybody.
func (c *Coordinator) Recovered(id uint16) {
	w := &c.recovered[id>>6]
	w.Or(1 << (id & 63))
}

// IsRecovered tells whether the locks that a coordinator has left may be released:
// its transactions are settled, and nothing of it can execute any more.
func (c *Coordinator) IsRecovered(id uint16) bool {
	return c.recovered[id>>6].Load()>>(id&63)&1 != 0
}

// ids is a set of coordinator ids.
type ids [1 << 16 / 64]atomic.Uint64

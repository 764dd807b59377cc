package coord

import (
	"context"
	"errors"
	"fmt"

	"fjord/layout"
	"fjord/lock"
)

// Recovery is what was found of a dead coordinator, and what became of it.
type Recovery struct {
	ID    uint16 // the dead coordinator
	Place int    // whose log area is free when the recovery is over
	// Entries is how many transactions its logs told of, Rejected how many slots held
	// something of it that is no whole entry.
	Entries  int
	Rejected int
	// Outcomes are those of the transactions that had not ended: nobody has told their
	// callers, but perhaps a recoverer that died meanwhile.
	Outcomes []Outcome

	by uint16 // the recoverer
}

// Outcome is what recovery decided about a transaction.
type Outcome struct {
	Token     lock.Token
	Committed bool
}

// Errors of Recover beside those of Membership.
var (
	// ErrRecovering: this coordinator is at a recovery already. Try again when it is over.
	ErrRecovering = errors.New("coord: a recovery is running")
	// ErrUndecided: what the logs and cells of a dead coordinator hold is not what any
	// coordinator leaves. Its cells stay locked; an operator has to look.
	ErrUndecided = errors.New("coord: recovery cannot go on")
)

// Recover settles what a dead coordinator has left: every transaction of it is
// committed or undone, every lock released, its place given back. One that shows
// heartbeats is watched before, and refused with ErrAlive if it lives. After an error
// it may be called again, by this coordinator or, when this one is fenced, by another:
// every step may be repeated.
func (c *Coordinator) Recover(ctx context.Context, id uint16) (*Recovery, error) {
	if c.heart.sweep == nil {
		return nil, fmt.Errorf("%w: Config.OnRecovered is nil, so that this coordinator recovers nobody", ErrConfig)
	}
	if !c.heart.recovering.CompareAndSwap(false, true) {
		if c.closed.Load() {
			return nil, ErrEnded
		}
		return nil, fmt.Errorf("%w at coordinator %d", ErrRecovering, c.ID())
	}
	r, err := c.settleStranger(ctx, id)
	c.heart.recovering.Store(false)
	if err != nil {
		return nil, err
	}
	defer c.heart.swept(id)
	return r, c.finish(ctx, r)
}

// settleStranger is settle of one that has to be watched first.
func (c *Coordinator) settleStranger(ctx context.Context, id uint16) (*Recovery, error) {
	s, err := c.private(ctx, &c.heart.keeper)
	if err != nil {
		return nil, err
	}
	if err := s.repairAll(ctx, anyConn, anyConn); err != nil {
		return nil, err
	}
	beat, err := c.heart.evidence(ctx, s, id)
	if err != nil {
		return nil, err
	}
	return c.settle(ctx, id, beat)
}

// settle is the first part of a recovery, of one whose beat has been seen to stand
// still: of its transactions. It runs none itself, so it waits for nobody's locks.
// finish is to follow, and then swept.
func (c *Coordinator) settle(ctx context.Context, id uint16, beat uint64) (_ *Recovery, err error) {
	if !c.heart.sweeps(id) {
		return nil, fmt.Errorf("%w: coordinator %d's locks are being swept", ErrRecovering, id)
	}
	defer func() {
		if err != nil {
			c.heart.swept(id)
		}
	}()
	s, err := c.private(ctx, &c.heart.keeper)
	if err != nil {
		return nil, err
	}
	// Nothing is claimed as long as some node cannot be reached: its log is needed.
	if err := s.repairAll(ctx, anyConn, anyConn); err != nil {
		return nil, err
	}
	me := s.seat.ID
	r := &recovery{c: c, s: s, ctx: ctx, Recovery: Recovery{ID: id, by: me}}
	members, err := c.dir.Members(ctx)
	if err != nil {
		return nil, err
	}
	r.Place = -1
	for _, m := range members {
		if m.ID == id {
			r.Place = m.Place
		}
	}
	if err := c.dir.Claim(ctx, me, id, beat); err != nil {
		return nil, err
	}
	if err := c.dir.Fence(ctx, me, id); err != nil {
		return nil, fmt.Errorf("coord: recover coordinator %d: %w", id, err)
	}
	// From here on nothing of it executes any more.
	if err := r.settleAll(); err != nil {
		return nil, fmt.Errorf("coord: recover coordinator %d: %w", id, err)
	}
	if err := c.dir.Settled(ctx, me, id); err != nil {
		return nil, fmt.Errorf("coord: recover coordinator %d: %w", id, err)
	}
	c.Recovered(id)
	return &r.Recovery, nil
}

// finish is the second part: of stray locks. It runs transactions, which meet the locks
// of others that may have died as well. So others can be settled meanwhile.
func (c *Coordinator) finish(ctx context.Context, r *Recovery) error {
	if err := c.heart.sweep(ctx, r); err != nil {
		return fmt.Errorf("coord: recover coordinator %d: sweep its locks: %w", r.ID, err)
	}
	if err := c.dir.Swept(ctx, r.by, r.ID); err != nil {
		return fmt.Errorf("coord: recover coordinator %d: %w", r.ID, err)
	}
	return nil
}

// recovery is one in progress.
type recovery struct {
	Recovery
	c   *Coordinator
	s   *Session
	ctx context.Context
}

// settleAll reads the logs and settles every transaction in them.
//
// All nodes are there: with one lost, logs cannot be read, and nothing is decided
// before it is back. So the rules for cells whose primary is lost are not needed here.
func (r *recovery) settleAll() error {
	all, err := r.readLogs()
	if err != nil {
		return err
	}
	r.Entries = len(all)
	for _, e := range inOrder(all) {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		if err := r.settle(e); err != nil {
			return fmt.Errorf("transaction %v: %w", e.token, err)
		}
	}
	return nil
}

// entry is what all nodes know of a transaction.
type entry struct {
	token  lock.Token
	copies []copyOf
	cells  []logCell
}

// copyOf is the entry at one node.
type copyOf struct {
	node  int
	va    uint64 // of its slot
	state layout.LogState
}

// logCell is a cell of an entry's list, with the old image that a node has kept of it.
type logCell struct {
	layout.LogCell
	covered int    // bytes that the new image has
	old     []byte // nil: no node with a copy of the cell has the entry
}

// marked tells whether a node has the entry in a state.
func (e *entry) marked(st layout.LogState) bool {
	for _, k := range e.copies {
		if k.state == st {
			return true
		}
	}
	return false
}

// settle decides what became of a transaction and has its cells be so.
func (r *recovery) settle(e *entry) error {
	looks, err := r.lookAt(e)
	if err != nil {
		return err
	}
	committed, done := r.decide(e, looks)
	if done {
		return nil // as its coordinator has left it
	}
	r.Outcomes = append(r.Outcomes, Outcome{e.token, committed})
	// The outcome stands in the logs before any cell is touched: who takes over might
	// decide otherwise on cells that are half repaired.
	if err := r.mark(e, committed); err != nil {
		return err
	}
	if committed {
		return r.finish(e, looks)
	}
	return r.undo(e, looks)
}

// decide tells what became of a transaction. done: it had ended, and there is nothing
// to do.
func (r *recovery) decide(e *entry, looks [][]look) (committed, done bool) {
	switch {
	case e.marked(layout.LogAborted):
		return false, false
	case e.marked(layout.LogCommitted):
		return true, false
	}
	released, held, half, applied := false, false, false, true
	for i, at := range looks {
		p := &at[0] // the primary
		if e.holds(p.lock) {
			held = true
		} else {
			released = true // locks go only after the commit point, or after the mark
		}
		half = half || e.half(&e.cells[i], p)
		for j := range at {
			applied = applied && at[j].applied(&e.cells[i], e.token)
		}
	}
	if released {
		return true, !held && !half
	}
	return applied, false
}

// holds tells whether a lock word is the transaction's, or a lease of its coordinator.
func (e *entry) holds(word uint64) bool {
	t := lock.Token(word)
	return t == e.token || word != 0 && t.Coordinator() == e.token.Coordinator() && t.Session() == lock.LeaseSession
}

// half tells whether of the transaction's unlock of a cell the first word alone has
// landed: nobody else has touched the cell since, for who locks a pending cell gives the
// lock back.
func (e *entry) half(c *logCell, p *look) bool {
	return !e.holds(p.lock) && p.version == c.New|layout.Pending && p.writer == uint64(e.token)
}

// mark writes the outcome into the entry at every node that has it, and waits for the
// acks.
func (r *recovery) mark(e *entry, committed bool) error {
	st := layout.LogAborted
	if committed {
		st = layout.LogCommitted
	}
	r.s.Reset()
	word, ok := r.s.Alloc(8)
	if !ok {
		return errNoLocal
	}
	word.SetWord(0, uint64(st))
	for i := range e.copies {
		if k := &e.copies[i]; k.state != st {
			r.s.Write(k.node, k.va+layout.LogOffState, word)
			k.state = st
		}
	}
	return r.s.round()
}

// finish frees what a committed transaction has locked and logged.
func (r *recovery) finish(e *entry, looks [][]look) error {
	for i := range e.cells {
		c, p := &e.cells[i], &looks[i][0]
		mine := e.holds(p.lock)
		if !mine && !e.half(c, p) {
			continue
		}
		if mine && !p.applied(c, e.token) {
			return fmt.Errorf("%w: it is committed, but the cell at %v, which it holds, has version %v and not its own, %v", ErrUndecided, c.Addr, p.version, c.New)
		}
		r.s.Reset()
		pair, ok := r.s.Alloc(unlockSize)
		if !ok {
			return errNoLocal
		}
		pair.SetWord(0, 0)
		pair.SetWord(8, uint64(c.New))
		node, va := r.c.Primary(c.Addr)
		if mine {
			r.s.Write(node, va+layout.OffLock, pair)
		} else {
			// Never the lock: it may be another's.
			r.s.Write(node, va+layout.OffVersion, pair.Slice(8, 16))
		}
		if err := r.s.round(); err != nil {
			return err
		}
	}
	return nil
}

// undo puts the old images back of those cells that the transaction still holds, and
// frees them. It writes the same bytes to every copy, as far as the new image may have
// reached, so that all are alike whatever has landed where.
func (r *recovery) undo(e *entry, looks [][]look) error {
	for i := range e.cells {
		c, p := &e.cells[i], &looks[i][0]
		if !e.holds(p.lock) {
			continue
		}
		if c.old == nil {
			// The entry goes before the cells on each QP: where it is not, they are as they were.
			for j := range looks[i] {
				if k := &looks[i][j]; k.version != c.Old || !k.whole {
					return fmt.Errorf("%w: it is aborted, but nobody has the old image of the cell at %v, of which copy %d has version %v and not %v", ErrUndecided, c.Addr, j, k.version, c.Old)
				}
			}
		} else if err := r.restore(c); err != nil {
			return err
		}
		// The lock alone: behind it, a second word could land on a successor's image.
		r.s.Reset()
		zero, ok := r.s.Alloc(8)
		if !ok {
			return errNoLocal
		}
		zero.SetWord(0, 0)
		node, va := r.c.Primary(c.Addr)
		r.s.Write(node, va+layout.OffLock, zero)
		if err := r.s.round(); err != nil {
			return err
		}
	}
	return nil
}

// restore writes a cell's old image to every copy, the primary last, and awaits each.
func (r *recovery) restore(c *logCell) error {
	n := max(len(c.old), c.covered)
	r.s.Reset()
	img, ok := r.s.Alloc(n)
	if !ok {
		return errNoLocal
	}
	copy(img.B(), c.old)
	clear(img.B()[len(c.old):])
	put := func(replica int) {
		node, va := r.c.Replica(c.Addr, replica)
		r.s.Write(node, va+layout.OffVersion, img.Slice(layout.OffVersion, n))
	}
	for replica := 1; replica < r.c.Replicas(c.Addr.Shard()); replica++ {
		put(replica)
	}
	if err := r.s.round(); err != nil {
		return err
	}
	put(0)
	return r.s.round()
}

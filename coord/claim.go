package coord

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"fjord/verbs"
)

// member is a coordinator that has joined.
type member struct {
	m       Member
	seat    Seat
	claimed uint16 // who recovers it; 0: nobody
	settled bool   // its logs are: what it has locked may be released
	left    bool   // it has ended its part, and is being recovered none the less
}

// Members tells who has joined, by id.
func (c *Cluster) Members(context.Context) ([]Seat, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrEnded
	}
	list := c.list()
	all := make([]Seat, len(list))
	for i := range list {
		all[i] = list[i].seat
	}
	return all, nil
}

// Claim gives the recovery of a suspect to a coordinator.
func (c *Cluster) Claim(_ context.Context, by, suspect uint16, beat uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, err := c.claimant(by, suspect)
	if err != nil {
		return err
	}
	if m.claimed == by {
		return nil
	}
	if other := c.members[m.claimed]; other != nil && !other.left && !c.fenced[m.claimed] {
		return fmt.Errorf("%w: coordinator %d recovers %d; right is to wait for it, or to recover it first", ErrClaimed, m.claimed, suspect)
	}
	if now := c.beat(m.seat); !c.fenced[suspect] && now != beat {
		return fmt.Errorf("%w: coordinator %d has beaten %d times, and not %d any more", ErrAlive, suspect, beats(now), beats(beat))
	}
	m.claimed = by
	return nil
}

// claimant looks at who wants to recover whom. Under mu.
func (c *Cluster) claimant(by, suspect uint16) (*member, error) {
	if c.closed {
		return nil, ErrEnded
	}
	switch {
	case by == suspect:
		return nil, fmt.Errorf("%w: coordinator %d cannot recover itself", ErrAlive, by)
	case c.fenced[by]:
		return nil, fmt.Errorf("%w: coordinator %d", ErrFenced, by)
	case c.members[by] == nil:
		return nil, fmt.Errorf("%w: coordinator %d, which wants to recover %d", ErrNoMember, by, suspect)
	}
	m := c.members[suspect]
	if m == nil {
		return nil, fmt.Errorf("%w: coordinator %d", ErrNoMember, suspect)
	}
	return m, nil
}

// claimed is claimant for the steps behind the claim. Under mu.
func (c *Cluster) claimed(by, suspect uint16) (*member, error) {
	m, err := c.claimant(by, suspect)
	if err == nil && m.claimed != by {
		err = fmt.Errorf("%w: coordinator %d is not %d's to recover", ErrClaimed, suspect, by)
	}
	return m, err
}

// beat is the newest beat that a coordinator has shown at any memory node.
func (c *Cluster) beat(s Seat) (newest uint64) {
	for _, n := range c.nodes {
		newest = max(newest, beatOf(n.beat(s.Place), s.ID))
	}
	return newest
}

// Fence fences a suspect at every memory node.
func (c *Cluster) Fence(_ context.Context, by, suspect uint16) error {
	c.mu.Lock()
	_, err := c.claimed(by, suspect)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	for _, n := range c.nodes {
		if err := n.Fence(suspect); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fenced[suspect] = true
	return nil
}

// Settled lists a suspect as one whose locks may be released.
func (c *Cluster) Settled(_ context.Context, by, suspect uint16) error {
	c.mu.Lock()
	m, err := c.claimed(by, suspect)
	if err == nil && !c.fenced[suspect] {
		err = fmt.Errorf("%w: coordinator %d is not fenced: its logs were read too early", ErrAlive, suspect)
	}
	if err != nil {
		c.mu.Unlock()
		return err
	}
	m.settled = true
	all := c.list()
	c.mu.Unlock()
	for _, o := range all {
		if o.seat.ID != suspect {
			o.m.Recovered(suspect)
		}
	}
	return nil
}

// Swept ends a suspect's membership.
func (c *Cluster) Swept(_ context.Context, by, suspect uint16) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, err := c.claimed(by, suspect)
	if err != nil {
		return err
	}
	if !m.settled {
		return fmt.Errorf("%w: coordinator %d is not settled: nothing can have been swept", ErrAlive, suspect)
	}
	c.forget(m)
	return nil
}

// forget ends a membership. Under mu.
func (c *Cluster) forget(m *member) {
	delete(c.members, m.seat.ID)
	c.places[m.seat.Place] = false
}

// list returns copies of all members, by id. Under mu.
func (c *Cluster) list() []member {
	all := make([]member, 0, len(c.members))
	for _, m := range c.members {
		all = append(all, *m)
	}
	slices.SortFunc(all, func(a, b member) int { return cmp.Compare(a.seat.ID, b.seat.ID) })
	return all
}

// runtime is the world of the memory nodes.
func (c *Cluster) runtime() verbs.Runtime { return c.nodes[0].dev.Runtime() }

// drained waits until a member has acknowledged an epoch, or needs not: since it was
// recovered, or has left. One that is being recovered is not asked.
func (c *Cluster) drained(ctx context.Context, id uint16, epoch uint64) error {
	for {
		c.mu.Lock()
		m := c.members[id]
		gone := m == nil || m.settled || m.left && m.claimed == 0
		recovering := m != nil && m.claimed != 0
		var who Member
		if m != nil {
			who = m.m
		}
		c.mu.Unlock()
		switch {
		case gone:
			return nil
		case !recovering:
			err := c.drain(ctx, who, id, epoch)
			c.mu.Lock()
			m := c.members[id]
			again := m == nil || m.claimed != 0
			c.mu.Unlock()
			if err == nil || !again {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("it is being recovered: %w", err)
		}
		c.runtime().Sleep(pollEvery)
	}
}

// drain asks one member. Who can be found dead is asked by a worker of his own, so
// that his death holds up nobody.
func (c *Cluster) drain(ctx context.Context, m Member, id uint16, epoch uint64) error {
	if !m.Beats() {
		return m.Drain(ctx, epoch)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answer := make(chan error, 1)
	c.runtime().Go(func() { answer <- m.Drain(ctx, epoch) })
	for {
		select {
		case err := <-answer:
			return err
		default:
		}
		c.mu.Lock()
		m := c.members[id]
		gone := m == nil || m.settled
		c.mu.Unlock()
		if gone {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		c.runtime().Sleep(pollEvery)
	}
}

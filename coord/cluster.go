package coord

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"fjord/verbs"
)

// Cluster is a set of memory nodes that live in this process, with the
// directory that joins them to coordinators of this process.
type Cluster struct {
	newDevice func(name string) (verbs.Device, error)
	nodes     []*MemNode
	layout    *Layout
	warnings  []error

	mu      sync.Mutex
	closed  bool
	nextID  int
	members map[uint16]*member
	fenced  map[uint16]bool // coordinators that every memory node has fenced
	places  []bool
	epoch   uint64
}

var _ Directory = (*Cluster)(nil)

// NewCluster starts memory nodes on devices that newDevice opens: one for each
// node, and later one for each coordinator.
func NewCluster(cfg ClusterConfig, newDevice func(name string) (verbs.Device, error)) (*Cluster, error) {
	cfg.EnsureDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	l, err := planCluster(cfg)
	if err != nil {
		return nil, err
	}
	c := &Cluster{newDevice: newDevice, layout: l, members: make(map[uint16]*member), fenced: make(map[uint16]bool),
		places: make([]bool, cfg.Coordinators), epoch: l.Header.Epoch}
	for i := range cfg.MemoryNodes {
		dev, err := newDevice(fmt.Sprintf("memory-%d", i))
		if err != nil {
			_ = c.Close() // the first error is the one to tell
			return nil, fmt.Errorf("coord: device of memory node %d: %w", i, err)
		}
		if i == 0 {
			l.Header.ClusterID = dev.Runtime().Secret()
		}
		n, err := newMemNode(dev, i, l, cfg.HugePages)
		if err != nil {
			_ = dev.Close() // the first error is the one to tell
			_ = c.Close()
			return nil, err
		}
		if f := n.mem.Fallback; f != nil {
			c.warnings = append(c.warnings, fmt.Errorf("memory node %d: %w", i, f))
		}
		c.nodes = append(c.nodes, n)
		l.Nodes[i] = n.info()
	}
	return c, nil
}

// Warnings tells what was asked for and not to be had: huge pages.
func (c *Cluster) Warnings() []error { return c.warnings }

// Layout returns the cluster's shape.
func (c *Cluster) Layout(context.Context) (*Layout, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrEnded
	}
	return c.layout, nil
}

// NewDevice opens a device for a coordinator.
func (c *Cluster) NewDevice(name string) (verbs.Device, error) { return c.newDevice(name) }

// Node returns a memory node, so that a test can stop it.
func (c *Cluster) Node(i int) *MemNode { return c.nodes[i] }

// Join admits a coordinator.
func (c *Cluster) Join(_ context.Context, m Member) (Seat, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return Seat{}, ErrEnded
	}
	place := slices.Index(c.places, false)
	if place < 0 {
		return Seat{}, fmt.Errorf("%w: %d have joined; raise ClusterConfig.Coordinators", ErrNoSeat, len(c.places))
	}
	if c.nextID == noSeat-1 {
		return Seat{}, fmt.Errorf("%w: all %d coordinator ids were given", ErrNoSeat, c.nextID)
	}
	c.nextID++
	c.places[place] = true
	s := Seat{ID: uint16(c.nextID), Place: place, Epoch: c.epoch, Beats: m.Beats()}
	for id, o := range c.members {
		if o.settled {
			m.Recovered(id)
		}
	}
	c.members[s.ID] = &member{m: m, seat: s}
	return s, nil
}

// Leave ends a membership. The place of one that is being recovered is free when
// that is over.
func (c *Cluster) Leave(s Seat) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch m := c.members[s.ID]; {
	case m == nil:
	case m.claimed != 0:
		m.left = true
	default:
		c.forget(m)
	}
	return nil
}

func (c *Cluster) node(i int) (*MemNode, error) {
	if i < 0 || i >= len(c.nodes) {
		return nil, fmt.Errorf("%w: there is no node %d, there are %d", ErrNoNode, i, len(c.nodes))
	}
	return c.nodes[i], nil
}

// Connect makes the responder's QP.
func (c *Cluster) Connect(_ context.Context, node int, id uint16, from verbs.Endpoint) (verbs.Endpoint, error) {
	n, err := c.node(node)
	if err != nil {
		return verbs.Endpoint{}, err
	}
	e, err := n.accept(id, from)
	if errors.Is(err, ErrFenced) {
		return verbs.Endpoint{}, err
	}
	if err != nil {
		return verbs.Endpoint{}, fmt.Errorf("%w: %w", ErrNoNode, err)
	}
	return e, nil
}

// Disconnect destroys the responder's QP.
func (c *Cluster) Disconnect(_ context.Context, node int, qpn uint32) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	return n.destroy(qpn)
}

// NewEpoch begins an epoch.
func (c *Cluster) NewEpoch(ctx context.Context) (uint64, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return 0, ErrEnded
	}
	c.epoch++
	epoch := c.epoch
	members := c.list()
	c.mu.Unlock()
	for _, m := range members {
		if err := c.drained(ctx, m.seat.ID, epoch); err != nil {
			return 0, fmt.Errorf("coord: epoch %d: coordinator %d has not drained: %w", epoch, m.seat.ID, err)
		}
	}
	return epoch, nil
}

// Close stops all memory nodes. What they hold is gone.
func (c *Cluster) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	var first error
	for _, n := range c.nodes {
		if err := n.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

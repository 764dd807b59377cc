package script

import (
	"errors"
	"slices"

	"fjord/verbs"
)

// node is a memory node's device. It is the provider's own, but for a look at
// the region.
type node struct {
	verbs.Device
	w  *World
	mr verbs.MR
}

func (n *node) AllocPD() (verbs.PD, error) {
	p, err := n.Device.AllocPD()
	return nodePD{p, n}, err
}

type nodePD struct {
	verbs.PD
	n *node
}

func (p nodePD) RegisterMR(m *verbs.Memory, a verbs.Access) (verbs.MR, error) {
	mr, err := p.PD.RegisterMR(m, a)
	if err == nil && p.n.mr == nil {
		p.n.mr = mr
	}
	return mr, err
}

var errConnect = errors.New("script: the connection is not made, as the test wants it")

func (p nodePD) CreateQP(init verbs.QPInit) (verbs.QP, error) {
	if c := p.n.w.chaos; c != nil && p.n.w.chance(c.Connect) {
		return nil, errConnect
	}
	return p.PD.CreateQP(init)
}

// device is a coordinator's device.
type device struct {
	verbs.Device
	w        *World
	index    int
	noInline bool
	sync     bool
	crashed  bool
}

// Attr promises no more than the world keeps.
func (d *device) Attr() verbs.DeviceAttr {
	a := d.Device.Attr()
	if !d.sync {
		a.Caps &^= verbs.CapInOrderLines | verbs.CapSyncPost
	}
	if d.noInline {
		a.Caps &^= verbs.CapInline
		a.MaxInline = 0
	}
	return a
}

func (d *device) Runtime() verbs.Runtime { return d.w.Runtime() }

func (d *device) AllocPD() (verbs.PD, error) {
	p, err := d.Device.AllocPD()
	return &pd{PD: p, dev: d}, err
}

func (d *device) CreateCQ(depth int) (verbs.CQ, error) { return &cq{dev: d, depth: depth}, nil }

func (d *device) Close() error {
	for _, q := range d.w.wires {
		if q.dev == d {
			q.closed = true
		}
	}
	return d.Device.Close()
}

// pd makes wires instead of QPs.
type pd struct {
	verbs.PD
	dev     *device
	memory  *verbs.Memory
	scratch verbs.MR // where answers go that nobody gets
}

func (p *pd) CreateQP(init verbs.QPInit) (verbs.QP, error) {
	if p.scratch == nil {
		var err error
		if p.memory, err = verbs.MapMemory(4096, verbs.HugeNever); err != nil {
			return nil, err
		}
		if p.scratch, err = p.PD.RegisterMR(p.memory, verbs.AccessLocalWrite); err != nil {
			return nil, err
		}
	}
	q := &wire{w: p.dev.w, dev: p.dev, pd: p, send: init.SendCQ.(*cq), init: init, node: -1}
	var err error
	if q.answers, err = p.dev.Device.CreateCQ(4); err != nil {
		return nil, err
	}
	// One request at a time, with room for a payload that has left its buffer.
	inner := verbs.QPInit{SendCQ: q.answers, RecvCQ: q.answers, MaxSendWR: 4, MaxSendSGE: max(init.MaxSendSGE, 1),
		MaxInline: p.dev.Device.Attr().MaxInline}
	if q.QP, err = p.PD.CreateQP(inner); err != nil {
		return nil, err
	}
	p.dev.w.wires = append(p.dev.w.wires, q)
	return q, nil
}

func (p *pd) Close() error {
	if p.scratch != nil {
		_ = p.scratch.Close()
		_ = p.memory.Free()
		p.scratch = nil
	}
	return p.PD.Close()
}

// cq holds the completions that the world hands out.
type cq struct {
	dev   *device
	depth int
	wcs   []completion
	armed []verbs.Parker
}

type completion struct {
	verbs.WC
	q   *wire
	seq uint64 // of the request, on its wire
}

func (c *cq) Poll(wcs []verbs.WC) int {
	n := min(len(wcs), len(c.wcs))
	for i, e := range c.wcs[:n] {
		wcs[i] = e.WC
		e.q.known = max(e.q.known, e.seq)
	}
	c.wcs = c.wcs[:copy(c.wcs, c.wcs[n:])]
	return n
}

func (c *cq) Arm(p verbs.Parker) {
	if !slices.Contains(c.armed, p) {
		c.armed = append(c.armed, p)
	}
}

func (c *cq) push(e completion) {
	if len(c.wcs) == c.depth {
		c.dev.w.tb.Fatalf("script: a completion queue of %d overflows", c.depth)
	}
	c.wcs = append(c.wcs, e)
	for _, p := range c.armed {
		p.Unpark()
	}
	c.armed = c.armed[:0]
}

// forget drops the completions of a QP that is destroyed.
func (c *cq) forget(q *wire) {
	c.wcs = slices.DeleteFunc(c.wcs, func(e completion) bool { return e.q == q })
}

func (c *cq) Depth() int   { return c.depth }
func (c *cq) Close() error { return nil }

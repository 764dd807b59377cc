package mem

import (
	"fmt"
	"sync"
	"sync/atomic"

	"fjord/verbs"
)

// Device is one end point of the fabric; it implements verbs.Device.
type Device struct {
	fabric *Fabric
	rt     verbs.Runtime
	attr   verbs.DeviceAttr
	mrs    atomic.Pointer[mrTable]

	mu     sync.Mutex // guards what follows, and changes of mrs; never held while posting
	closed bool
	qps    map[uint32]*qp
	pds    int
	cqs    int
	events []verbs.AsyncEvent
}

var _ verbs.Device = (*Device)(nil)

// Attr returns the device's description.
func (d *Device) Attr() verbs.DeviceAttr { return d.attr }

// Runtime returns the fabric's world.
func (d *Device) Runtime() verbs.Runtime { return d.rt }

// AllocPD makes a protection domain.
func (d *Device) AllocPD() (verbs.PD, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, verbs.ErrClosed
	}
	if d.pds == maxPD {
		return nil, fmt.Errorf("%w: %d protection domains", verbs.ErrLimit, maxPD)
	}
	d.pds++
	return &pd{dev: d}, nil
}

// PollEvents takes asynchronous events.
func (d *Device) PollEvents(ev []verbs.AsyncEvent) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := copy(ev, d.events)
	d.events = d.events[:copy(d.events, d.events[n:])]
	return n
}

// event queues an asynchronous event; when nobody takes them the newest are
// dropped, since the oldest tell how trouble began.
func (d *Device) event(e verbs.AsyncEvent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.events) < maxEvents {
		d.events = append(d.events, e)
	}
}

// Close ends the device as a power cut would: peers find nobody.
func (d *Device) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	d.events = append(d.events, verbs.AsyncEvent{Type: verbs.EventDevice})
	qps := make([]*qp, 0, len(d.qps))
	for _, q := range d.qps {
		qps = append(qps, q)
	}
	d.mu.Unlock()
	for _, q := range qps {
		q.shut()
	}
	d.fabric.remove(d)
	d.mu.Lock()
	clear(d.qps)
	d.mrs.Store(&mrTable{slots: make([]*mr, 1)})
	d.mu.Unlock()
	return nil
}

type pd struct {
	dev *Device
	// users counts regions and QPs; guarded by dev.mu.
	users  int
	closed bool
}

// Close frees the domain.
func (p *pd) Close() error {
	p.dev.mu.Lock()
	defer p.dev.mu.Unlock()
	if p.closed {
		return nil
	}
	if p.users > 0 && !p.dev.closed {
		return fmt.Errorf("%w: %d regions and QPs live in this protection domain", verbs.ErrBusy, p.users)
	}
	p.closed = true
	p.dev.pds--
	return nil
}

// usable checks, under dev.mu, that a new object may be made in p.
func (p *pd) usable() error {
	if p.closed || p.dev.closed {
		return verbs.ErrClosed
	}
	return nil
}

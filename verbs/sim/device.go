package sim

import (
	"encoding/binary"
	"fmt"
	"slices"

	"fjord/verbs"
)

// Limits of a simulated device: those of a ConnectX, but for the number of regions.
const (
	maxQP     = 1 << 17
	maxWR     = 1 << 14
	maxSGE    = 30
	maxCQ     = 1 << 16
	maxCQE    = 1 << 22
	maxMR     = 1 << 12
	maxPD     = 1 << 10
	maxMsg    = 1 << 30
	maxEvents = 1024
)

// Device is one opening of a host's NIC; it implements verbs.Device. Its methods,
// and those of all that is made from it, are called by the world's workers, or by
// whoever drives the world.
type Device struct {
	host   *Host
	w      *World
	attr   verbs.DeviceAttr
	mrs    mrTable
	qps    map[uint32]*qp // looked up only: the order of a map is no order
	list   []*qp          // in the order of their making
	pds    int
	cqs    int
	events []verbs.AsyncEvent
	closed bool // by Close
	dead   bool // closed, or its host has crashed
}

var _ verbs.Device = (*Device)(nil)

// OpenDevice opens the host's NIC.
func (h *Host) OpenDevice() (*Device, error) {
	if h.crashed {
		return nil, ErrCrashed
	}
	w, m := h.w, &h.nic.model
	d := &Device{host: h, w: w, qps: make(map[uint32]*qp), mrs: mrTable{slots: make([]*mr, 16)}}
	name := h.name
	if n := len(h.devices); n > 0 {
		name = fmt.Sprintf("%s/%d", h.name, n)
	}
	d.attr = verbs.DeviceAttr{
		Name: name, Provider: "sim", Ports: 1, ActiveMTU: m.MTU,
		MaxQP: maxQP, MaxQPWR: maxWR, MaxSGE: maxSGE, MaxCQ: maxCQ, MaxCQE: maxCQE, MaxMR: maxMR,
		MaxMRSize: 1 << 46, MaxPD: maxPD, MaxMsgSize: maxMsg, MaxInline: m.MaxInline, MaxQPRdAtomic: m.RdAtomic,
		Atomics: verbs.AtomicHCA,
		Caps:    verbs.CapEventWait | verbs.CapHugePages,
	}
	if m.MaxInline > 0 {
		d.attr.Caps |= verbs.CapInline
	}
	w.devices = append(w.devices, d)
	d.attr.GID[0], d.attr.GID[1] = 0xfe, 0x80
	binary.BigEndian.PutUint64(d.attr.GID[8:], uint64(len(w.devices)))
	h.devices = append(h.devices, d)
	return d, nil
}

// byGID returns the device that a GID names; nil if there is none.
func (w *World) byGID(g verbs.GID) *Device {
	n := binary.BigEndian.Uint64(g[8:])
	if n == 0 || n > uint64(len(w.devices)) || w.devices[n-1].attr.GID != g {
		return nil
	}
	return w.devices[n-1]
}

// Attr returns the device's description.
func (d *Device) Attr() verbs.DeviceAttr { return d.attr }

// Runtime returns the host, in whose time the device's workers live.
func (d *Device) Runtime() verbs.Runtime { return d.host }

// Host returns the host whose NIC this is.
func (d *Device) Host() *Host { return d.host }

// AllocPD makes a protection domain.
func (d *Device) AllocPD() (verbs.PD, error) {
	if d.dead {
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
	n := copy(ev, d.events)
	d.events = slices.Delete(d.events, 0, n)
	return n
}

// event queues an asynchronous event; when nobody takes them the newest are
// dropped, since the oldest tell how trouble began.
func (d *Device) event(e verbs.AsyncEvent) {
	if len(d.events) < maxEvents {
		d.events = append(d.events, e)
	}
}

// Close ends the device. Peers find nobody, and what it has sent is lost on its
// way.
func (d *Device) Close() error {
	if d.closed {
		return nil
	}
	d.closed = true
	if d.dead {
		return nil
	}
	d.events = append(d.events, verbs.AsyncEvent{Type: verbs.EventDevice})
	for _, q := range d.list {
		q.fail()
		q.closed = true
		q.setState(verbs.StateErr)
	}
	d.die()
	for _, q := range d.list {
		if q.line != nil {
			q.line.lost = true
		}
	}
	d.mrs = mrTable{slots: make([]*mr, 1)}
	return nil
}

// die takes the device out of service, as Close or a crash do: nobody is told.
func (d *Device) die() {
	if d.dead {
		return
	}
	d.dead = true
	for _, q := range d.list {
		q.part()
		q.leave()
	}
}

type pd struct {
	dev    *Device
	users  int // regions and QPs
	closed bool
}

// Close frees the domain.
func (p *pd) Close() error {
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

// usable checks that a new object may be made in p.
func (p *pd) usable() error {
	if p.closed || p.dev.dead {
		return verbs.ErrClosed
	}
	return nil
}

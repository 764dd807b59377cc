package sim

import (
	"errors"
	"fmt"
	"slices"

	"fjord/verbs"
)

// ErrCrashed: the host of a worker has crashed. The worker never runs again.
var ErrCrashed = errors.New("sim: the host has crashed")

// Host is a process on a machine, with the machine's NIC: what crashes, pauses and
// is cut off. It is the Runtime of the workers that belong to it.
type Host struct {
	w      *World
	name   string
	index  int
	nic    *nic
	clock  Clock
	events bool
	turn   int64 // ns of processor time for each turn of a worker
	cores  []*core
	given  int // workers that got a core

	crashed bool
	paused  bool
	verbs   uint64 // requests posted by its devices
	devices []*Device
	late    int64    // how long requests are held up that were on their way at its crash
	counted []*fault // that count its verbs
}

// HostOptions are what a host is made of.
type HostOptions struct {
	// NIC of the machine; zero: the world's.
	NIC NIC
	// Cores is how many processors the workers share, in turn. 0: each worker has
	// its own. Time on a processor is charged for posting, and for turns.
	Cores int
	// TurnNS is what a worker does between two waits, in time of its processor. 0:
	// only posting takes time.
	TurnNS int64
	// EventWait: a parked worker is woken by an event, not by polling.
	EventWait bool
	// Clock of the host; zero: the world's time.
	Clock Clock
}

// Clock says how a host's clock differs from the world's time.
type Clock struct {
	Offset int64 // ns that it is ahead
	Rate   int64 // ppm that it is too fast, -100,000 to 100,000
}

// AddHost adds a machine with one process. Names are what plans call hosts by.
func (w *World) AddHost(name string, o HostOptions) (*Host, error) {
	if o.NIC == (NIC{}) {
		o.NIC = w.nic
	}
	if err := o.NIC.Validate(); err != nil {
		return nil, fmt.Errorf("host %q: %w", name, err)
	}
	return w.addHost(name, o, newNIC(o.NIC, &w.net))
}

// AddProcess adds another process on the host's machine: it shares the NIC, and
// crashes and pauses on its own. Of the options the NIC means nothing.
func (h *Host) AddProcess(name string, o HostOptions) (*Host, error) {
	return h.w.addHost(name, o, h.nic)
}

func (w *World) addHost(name string, o HostOptions, n *nic) (*Host, error) {
	switch {
	case name == "":
		return nil, fmt.Errorf("%w: a host's name is empty", verbs.ErrInvalid)
	case w.Host(name) != nil:
		return nil, fmt.Errorf("%w: there is a host %q already", verbs.ErrInvalid, name)
	case o.Cores < 0:
		return nil, fmt.Errorf("%w: host %q: Cores is %d, right is 0 (one for each worker) or more", verbs.ErrInvalid, name, o.Cores)
	case o.TurnNS < 0:
		return nil, fmt.Errorf("%w: host %q: TurnNS is %d, right is 0 or more", verbs.ErrInvalid, name, o.TurnNS)
	case o.Clock.Rate < -100_000 || o.Clock.Rate > 100_000:
		return nil, fmt.Errorf("%w: host %q: Clock.Rate is %d ppm, right is -100000 to 100000", verbs.ErrInvalid, name, o.Clock.Rate)
	case o.Clock.Offset < 0:
		return nil, fmt.Errorf("%w: host %q: Clock.Offset is %d, right is 0 or more: clocks are never negative", verbs.ErrInvalid, name, o.Clock.Offset)
	}
	h := &Host{w: w, name: name, index: len(w.hosts), nic: n, clock: o.Clock, events: o.EventWait, turn: o.TurnNS}
	for range o.Cores {
		h.cores = append(h.cores, &core{})
	}
	w.hosts = append(w.hosts, h)
	w.plan.bind(h)
	return h, nil
}

// NewDevice adds a host with a device, as coord.NewCluster wants it. The second host
// of a name is called name-1, and so on.
func (w *World) NewDevice(name string) (verbs.Device, error) {
	unique := name
	for i := 1; w.Host(unique) != nil; i++ {
		unique = fmt.Sprintf("%s-%d", name, i)
	}
	h, err := w.AddHost(unique, HostOptions{})
	if err != nil {
		return nil, err
	}
	return h.OpenDevice()
}

// Host returns the host of that name; nil if there is none.
func (w *World) Host(name string) *Host {
	for _, h := range w.hosts {
		if h.name == name {
			return h
		}
	}
	return nil
}

// Hosts returns all hosts in the order of their making.
func (w *World) Hosts() []*Host { return slices.Clone(w.hosts) }

// Name returns what AddHost was given.
func (h *Host) Name() string { return h.name }

// Crashed tells whether the host has crashed.
func (h *Host) Crashed() bool { return h.crashed }

// Verbs returns how many requests the host has posted: a plan counts in them.
func (h *Host) Verbs() uint64 { return h.verbs }

// Counters returns the counts of the host's NIC.
func (h *Host) Counters() Counters { return h.nic.counters }

func (h *Host) nextCore() *core {
	if len(h.cores) == 0 {
		return &core{}
	}
	h.given++
	return h.cores[(h.given-1)%len(h.cores)]
}

// Crash ends the host here and now: its workers never run again, its devices answer
// nothing and send nothing. What it has sent is still on its way, and lands until
// the responder's QP is destroyed.
func (h *Host) Crash() {
	h.crash()
	if k := h.w.cur; k != nil && k.host == h {
		h.w.vanish()
	}
}

func (h *Host) crash() {
	if h.crashed {
		return
	}
	w := h.w
	w.note(StepCrash, uint64(h.index), 0)
	h.crashed = true
	for _, k := range w.alive {
		if k.host == h && k != w.cur {
			k.state = workerAbandoned
		}
	}
	for _, d := range h.devices {
		d.die()
	}
}

// Pause stops the host's workers. Its NIC goes on.
func (h *Host) Pause() {
	h.pause()
	if k := h.w.cur; k != nil && k.host == h {
		h.w.sleep(0)
	}
}

func (h *Host) pause() {
	h.w.note(StepPause, uint64(h.index), 0)
	h.paused = true
}

// Resume lets a paused host's workers go on.
func (h *Host) Resume() {
	if !h.paused {
		return
	}
	h.w.note(StepResume, uint64(h.index), 0)
	h.paused = false
	for _, k := range h.w.alive {
		if k.host == h && k.held {
			k.held = false
			h.w.ready(k)
		}
	}
}

const million = 1_000_000

// scaled is x · n / million, without overflow.
func scaled(x, n int64) int64 { return x/million*n + x%million*n/million }

func (h *Host) fromWorld(t int64) int64 {
	return h.clock.Offset + t + scaled(t, h.clock.Rate)
}

// toWorld returns the first time at which the host's clock shows t or more.
func (h *Host) toWorld(t int64) int64 {
	if h == nil || h.clock == (Clock{}) {
		return t
	}
	x := h.span(t - h.clock.Offset)
	for h.fromWorld(x-1) >= t {
		x--
	}
	for h.fromWorld(x) < t {
		x++
	}
	return x
}

// span returns how long the host's clock takes to move on by d.
func (h *Host) span(d int64) int64 {
	if h.clock.Rate == 0 {
		return d
	}
	den := million + h.clock.Rate
	return d/den*million + d%den*million/den
}

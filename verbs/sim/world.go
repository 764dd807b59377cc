package sim

import (
	"fmt"

	"fjord/verbs"
)

// Options are what a World is made of. The zero value is a quiet network of cx6
// NICs, seed 0.
type Options struct {
	Seed    uint64
	NIC     NIC     // of hosts that have none of their own; zero: cx6
	Network Network // zero: DefaultNetwork
	Plan    Plan    // what goes wrong, and when
	// Trace is called for each thing that happens, in order. It must not call the
	// world.
	Trace func(Step)
}

// World is a network of hosts in virtual time. It is used by one goroutine at a
// time: the one that made it, or the worker that it runs.
type World struct {
	seed   uint64
	sched  *rng // which worker next, how long things take
	user   *rng // Rand and Secret
	nic    NIC
	net    Network
	plan   *injector
	trace  func(Step)
	hash   uint64
	now    int64
	agenda agenda
	queue  []*worker // ready to run
	cur    *worker   // who runs; nil: whoever drives
	alive  []*worker
	closed bool

	workers uint64 // ever started
	hosts   []*Host
	devices []*Device // by the number in their GID, from 1
	lives   uint64    // of connections
	pool    pool
	stats   Stats
}

// Stats count what has happened in a world.
type Stats struct {
	Events    uint64 // of the agenda
	Turns     uint64 // of workers
	Verbs     uint64 // requests accepted
	Doorbells uint64 // calls of PostSend that accepted any
}

// driverID is what Self returns outside of all workers. They count from the next.
const driverID = 1

// idleEvents is how many events may pass in a row without a turn of any worker, if
// none has a deadline: so many belong to no transfer, but to a QP that retries for
// ever.
const idleEvents = 1_000_000

// New makes a world without hosts.
func New(o Options) (*World, error) {
	w := &World{seed: o.Seed, sched: newRNG(o.Seed, 0x51), user: newRNG(o.Seed, 0x52), nic: o.NIC, net: o.Network, trace: o.Trace, now: 1}
	if w.nic == (NIC{}) {
		w.nic = nics[1]
	}
	if w.net == (Network{}) {
		w.net = DefaultNetwork()
	}
	if err := w.nic.Validate(); err != nil {
		return nil, err
	}
	if err := w.net.Validate(); err != nil {
		return nil, err
	}
	if err := o.Plan.Validate(); err != nil {
		return nil, err
	}
	w.plan = newInjector(w, o.Plan)
	return w, nil
}

// at has something happen at a time, which is not before now.
func (w *World) at(t int64, e event) { w.agenda.push(max(t, w.now), e) }

// Run starts f as a worker that belongs to no host, and drives the world until it
// has returned. Other workers stay where they are; a later Run goes on with them.
// The error is a *DeadlockError when f can never return.
func (w *World) Run(f func()) error { return w.RunOn(nil, "main", f) }

// RunOn is Run for a worker of a host. When that crashes meanwhile, the error is
// ErrCrashed.
func (w *World) RunOn(h *Host, name string, f func()) error {
	if w.cur != nil {
		return fmt.Errorf("%w: World.Run within %s; start workers with Go", verbs.ErrState, w.cur)
	}
	if w.closed {
		return verbs.ErrClosed
	}
	if h != nil && h.crashed {
		return ErrCrashed
	}
	k := w.start(h, name, f)
	err := w.loop(false, func() bool { return k.state == workerEnded || k.state == workerAbandoned })
	if err == nil && k.state == workerAbandoned {
		return ErrCrashed
	}
	return err
}

// drive runs the world for somebody who waits outside of all workers, until that
// is over or the time until has come (0: none).
func (w *World) drive(until int64, over func() bool) {
	if until != 0 {
		w.at(until, event{on: tick{}, kind: evFault})
	}
	if err := w.loop(until != 0, func() bool { return over() || until != 0 && w.now >= until }); err != nil {
		panic(err)
	}
}

// tick makes time pass.
type tick struct{}

func (tick) fire(*World, event) {}

// loop lets happen what is to happen, until over. That comes by itself if it is
// timed.
func (w *World) loop(timed bool, over func() bool) error {
	defer func() { w.cur = nil }() // a worker's panic or Goexit comes through here
	idle := 0
	for !over() {
		if n := len(w.queue); n > 0 {
			idle = 0
			i := int(w.sched.below(int64(n)))
			k := w.queue[i]
			w.queue[i] = w.queue[n-1]
			w.queue[n-1] = nil
			w.queue = w.queue[:n-1]
			w.stats.Turns++
			w.turn(k)
			continue
		}
		if w.agenda.empty() {
			return w.deadlock(false)
		}
		if idle++; idle > idleEvents {
			if !timed && !w.anyDue() {
				return w.deadlock(true)
			}
			idle = 0
		}
		w.stats.Events++
		t, e := w.agenda.pop()
		w.now = t
		e.on.fire(w, e)
	}
	return nil
}

// Close ends all workers, wherever they are, so that no goroutine is left behind.
// Their deferred functions run.
func (w *World) Close() {
	if w.closed {
		return
	}
	w.closed = true
	for _, k := range w.alive {
		w.kill(k)
	}
	w.alive, w.queue, w.agenda = nil, nil, agenda{}
}

// Stats returns the world's counts.
func (w *World) Stats() Stats { return w.stats }

// Seed returns what the world was made with.
func (w *World) Seed() uint64 { return w.seed }

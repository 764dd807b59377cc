package sim

import (
	"fmt"
	"iter"
	"runtime"
	"runtime/debug"
	"slices"

	"fjord/verbs"
)

type workerState uint8

const (
	workerReady workerState = iota
	workerRunning
	workerParked    // until somebody wakes it, or its deadline
	workerAsleep    // until its deadline
	workerAbandoned // its host has crashed
	workerEnded
)

func (s workerState) String() string {
	switch s {
	case workerReady:
		return "ready"
	case workerRunning:
		return "running"
	case workerParked:
		return "parked"
	case workerAsleep:
		return "asleep"
	case workerAbandoned:
		return "abandoned"
	case workerEnded:
		return "ended"
	}
	return fmt.Sprintf("workerState(%d)", uint8(s))
}

// worker is a coroutine. The world resumes it, and gets the turn back when it
// waits or ends.
type worker struct {
	id    uint64
	name  string
	host  *Host // nil: belongs to nobody who can crash
	core  *core // nil: its time costs nothing
	state workerState

	resume func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
	killed bool // it is to unwind

	since  int64 // of the wait, in the world's time
	until  int64 // deadline of the wait; 0: none
	timers []int64
	parker *parker // on which it is parked
	held   bool    // it is due, but its host is paused
}

// core is a processor: what a worker's posts cost is paid by whoever runs next on
// it.
type core struct{ free int64 } // ps

// start makes a worker that is ready.
func (w *World) start(h *Host, name string, f func()) *worker {
	w.workers++
	k := &worker{id: w.workers + driverID, name: name, host: h}
	if h != nil {
		k.core = h.nextCore()
	}
	k.resume, k.stop = iter.Pull(func(yield func(struct{}) bool) {
		k.yield = yield
		defer k.end(w)
		f()
	})
	w.alive = append(w.alive, k)
	w.ready(k)
	return k
}

// end notes how a worker has ended. A panic of its own ends the world's run; its
// stack would be lost on the way there.
func (k *worker) end(w *World) {
	k.state = workerEnded
	if p := recover(); p != nil && !k.killed {
		panic(fmt.Sprintf("sim: %s panicked: %v\n%s", k, p, debug.Stack()))
	}
}

func (k *worker) String() string {
	s := fmt.Sprintf("worker %d", k.id)
	if k.name != "" {
		s += fmt.Sprintf(" %q", k.name)
	}
	if k.host != nil {
		s += " on host " + k.host.name
	}
	return s
}

// ready puts a worker among those that may run, as soon as its processor is free.
func (w *World) ready(k *worker) {
	if k.state == workerEnded || k.state == workerAbandoned {
		return
	}
	k.state, k.until, k.parker = workerReady, 0, nil
	if k.core != nil && k.core.free > ps(w.now) {
		w.at(nsUp(k.core.free), event{on: k, kind: evRun})
		return
	}
	w.queue = append(w.queue, k)
}

// turn gives a worker the turn until it waits or ends.
func (w *World) turn(k *worker) {
	if k.state != workerReady {
		return // it was abandoned meanwhile
	}
	if k.host != nil && k.host.paused {
		k.held = true
		return
	}
	if k.host != nil && k.host.turn > 0 {
		k.core.free = max(k.core.free, ps(w.now)) + ps(k.host.turn)
	}
	k.state = workerRunning
	w.cur = k
	k.resume()
	w.cur = nil
	if k.state == workerEnded {
		w.alive = slices.DeleteFunc(w.alive, func(o *worker) bool { return o == k })
	}
}

// horizon bounds deadlines, so that picoseconds never overflow: some 52 days.
const horizon = 1 << 52

// wait gives the turn back. It returns when the worker runs again.
func (w *World) wait(k *worker, s workerState, until int64) {
	w.ending(k)
	until = min(until, horizon)
	k.state, k.since, k.until = s, w.now, until
	if until != 0 {
		k.timer(w, until)
	}
	if !k.yield(struct{}{}) {
		w.ending(k)
	}
}

// vanish abandons the running worker, whose host has just crashed: it never runs
// again, but to unwind at the end of the world.
func (w *World) vanish() {
	k := w.cur
	k.state = workerAbandoned
	k.yield(struct{}{})
	w.ending(k)
}

// ending unwinds a worker of a world that is being closed.
func (w *World) ending(k *worker) {
	if k.killed {
		runtime.Goexit()
	}
}

// timer sees to it that the worker is looked at no later than at the time t. A
// timer that comes too early sets another; so most waits need none of their own.
func (k *worker) timer(w *World, t int64) {
	for _, x := range k.timers {
		if x <= t {
			return
		}
	}
	k.timers = append(k.timers, t)
	w.at(t, event{on: k, kind: evWake})
}

func (k *worker) fire(w *World, e event) {
	if e.kind == evRun {
		if k.state == workerReady {
			w.ready(k)
		}
		return
	}
	if i := slices.Index(k.timers, w.now); i >= 0 {
		k.timers = slices.Delete(k.timers, i, i+1)
	}
	if k.until == 0 || k.state != workerParked && k.state != workerAsleep {
		return
	}
	if k.until > w.now {
		k.timer(w, k.until)
		return
	}
	w.ready(k)
}

// kill unwinds a worker: its deferred functions run, and what they wait for does
// not come. Goexit passes through the coroutine to whoever stops it, so that must
// be a goroutine of its own.
func (w *World) kill(k *worker) {
	k.killed = true
	w.cur = k
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.stop()
	}()
	<-done
	w.cur = nil
	k.state = workerEnded
}

// parker is where a worker sleeps. Those outside of all workers may sleep too:
// they drive the world meanwhile.
type parker struct {
	w      *World
	host   *Host
	k      *worker
	called bool
	armed  *cq // the last queue that was asked to wake it
}

// Park sleeps until Unpark or the deadline.
func (p *parker) Park(deadline int64) {
	w, k := p.w, p.w.cur
	if k != nil {
		w.ending(k)
	}
	until := int64(0)
	if deadline != 0 {
		until = max(p.host.toWorld(deadline), 1)
	}
	switch {
	case p.called, until != 0 && until <= w.now:
	case k == nil:
		w.drive(until, func() bool { return p.called })
	default:
		p.k, k.parker = k, p
		w.wait(k, workerParked, until)
		p.k = nil
	}
	p.called = false
}

// Unpark wakes the sleeper.
func (p *parker) Unpark() {
	if p.called {
		return
	}
	p.called = true
	if k := p.k; k != nil && k.state == workerParked && k.parker == p {
		p.w.ready(k)
	}
}

// completed is Unpark by a completion queue: who does not poll but waits for an
// event is woken by an interrupt, and that takes its time.
func (p *parker) completed() {
	k := p.k
	if k == nil || k.host == nil || !k.host.events || p.called {
		p.Unpark()
		return
	}
	p.called = true
	if k.state == workerParked && k.parker == p {
		k.state, k.until, k.parker = workerReady, 0, nil
		p.w.at(p.w.now+k.host.nic.model.EventNS, event{on: k, kind: evRun})
	}
}

var _ verbs.Parker = (*parker)(nil)

package script

import (
	"runtime"

	"fjord/verbs"
)

// Runtime is the world's clock, random numbers and workers.
func (w *World) Runtime() verbs.Runtime { return world{w} }

type world struct{ w *World }

// driver is what Self says of the test's goroutine. Tasks count from the next.
const driver = 1

// Now counts: two events never have the same time.
func (r world) Now() int64 {
	r.w.now++
	return r.w.now
}

func (r world) Sleep(d int64) {
	w := r.w
	t := w.cur
	if t == nil {
		w.now += max(d, 1)
		return
	}
	t.ending()
	t.until = w.now + max(d, 1)
	t.pause(taskAsleep)
}

func (r world) Rand() uint64   { return r.w.rng.Uint64() }
func (r world) Secret() uint64 { return r.w.rng.Uint64() }
func (r world) Virtual() bool  { return true }

func (r world) Go(f func()) { r.w.Start("worker", f) }

func (r world) Yield() {
	if t := r.w.cur; t != nil {
		t.ending()
		t.pause(taskReady)
	}
}

func (r world) Self() uint64 {
	for i, t := range r.w.tasks {
		if t == r.w.cur {
			return driver + 1 + uint64(i)
		}
	}
	return driver
}

func (r world) NewParker() verbs.Parker { return &parker{w: r.w} }

// parker is where a task waits.
type parker struct {
	w      *World
	task   *Task
	called bool
}

func (p *parker) Park(deadline int64) {
	t := p.w.cur
	if t != nil {
		t.ending()
	}
	if p.called {
		p.called = false
		return
	}
	switch {
	case t == nil && deadline == 0:
		p.w.tb.Fatalf("script: the test's goroutine waits for what nobody else is going to do; should it be a task?\n%s", p.w.Stand())
	case t == nil:
		p.w.now = max(p.w.now, deadline)
		return
	}
	p.task = t
	if deadline == 0 {
		t.pause(taskParked)
	} else {
		t.until = deadline
		t.pause(taskAsleep)
	}
	p.task, p.called = nil, false
}

func (p *parker) Unpark() {
	p.called = true
	if p.task != nil {
		p.task.state = taskReady
	}
}

// ending ends the goroutine of a task that is to end.
func (t *Task) ending() {
	if t.kill {
		runtime.Goexit()
	}
}

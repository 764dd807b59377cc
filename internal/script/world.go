package script

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"fjord/coord"
	"fjord/verbs"
	"fjord/verbs/mem"
)

// TB is what a World needs of a testing.TB.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(f func())
}

// World is a fabric under a script, with the tasks that run on it. It belongs to
// the test's goroutine.
type World struct {
	// Layout lets addresses of cells be found in requests. Set it once the cluster
	// is there.
	Layout *coord.Layout
	// NoInline takes inline payloads from the devices of coordinators that are
	// opened from now on.
	NoInline bool
	// Sync makes those devices execute requests within PostSend, lines in ascending
	// order, as mem does. In a Shuffle others move between any two pieces.
	Sync bool

	tb    TB
	rng   *rand.Rand
	open  func(name string) verbs.Device
	nodes []*node
	gids  map[verbs.GID]int

	now    int64
	cur    *Task         // who runs; nil: the test's goroutine
	yield  chan struct{} // the running task gives the turn back
	guard  *time.Timer   // of real time, for a task that never does
	tasks  []*Task
	coords int
	wires  []*wire
	rules  []*Rule
	chaos  *Chaos // of the Shuffle that runs

	hazards []string
	trace   []*Op // when tracing
	tracing bool
}

// turnLimit is how much real time a task may take between two waits. It is there
// for those that block outside the world, and generous for slow machines.
const turnLimit = 20 * time.Second

// New returns a world of mem devices. Its tasks are ended, wherever they are, when
// the test is over.
func New(tb TB, seed uint64) *World {
	w := &World{tb: tb, rng: rand.New(rand.NewPCG(seed, 0x66a0d)), gids: make(map[verbs.GID]int),
		yield: make(chan struct{}), guard: time.NewTimer(turnLimit)}
	fabric := mem.NewFabric(w.Runtime())
	w.open = func(name string) verbs.Device { return fabric.NewDevice(name) }
	tb.Cleanup(w.End)
	return w
}

// NewDevice opens a device of the world, for coord.NewCluster: one called
// memory-N is memory node N, any other the next coordinator.
func (w *World) NewDevice(name string) (verbs.Device, error) {
	inner := w.open(name)
	var n int
	if _, err := fmt.Sscanf(name, "memory-%d", &n); err == nil {
		for len(w.nodes) <= n {
			w.nodes = append(w.nodes, &node{w: w})
		}
		w.gids[inner.Attr().GID] = n
		w.nodes[n].Device = inner
		return w.nodes[n], nil
	}
	w.coords++
	return &device{Device: inner, w: w, index: w.coords - 1, noInline: w.NoInline, sync: w.Sync}, nil
}

// Peek returns the bytes at a place, as they are now.
func (w *World) Peek(p Place) []byte {
	w.tb.Helper()
	if p.Node >= len(w.nodes) || w.nodes[p.Node].mr == nil {
		w.tb.Fatalf("script: there is no memory at node %d", p.Node)
	}
	return slices.Clone(w.nodes[p.Node].mr.Bytes()[p.Off : p.Off+uint64(p.Len)])
}

// Poke changes the bytes at a place, as nobody in the cluster would.
func (w *World) Poke(p Place, b []byte) { copy(w.nodes[p.Node].mr.Bytes()[p.Off:][:p.Len], b) }

// Hazards lists the WRITEs that were posted, without a fence, while a READ or
// atomic of the same bytes was not known to be complete on that QP: the order of
// the two is open.
func (w *World) Hazards() []string { return w.hazards }

// Trace begins to record the requests that are posted.
func (w *World) Trace() { w.trace, w.tracing = nil, true }

// Traced ends the recording and returns what was posted since Trace.
func (w *World) Traced() []*Op {
	w.tracing = false
	return w.trace
}

// Task is a goroutine that the world runs in turns.
type Task struct {
	w     *World
	name  string
	turn  chan struct{}
	state taskState
	until int64 // asleep: when it wakes
	kill  bool
	panic string
	weight
}

type taskState uint8

const (
	taskReady taskState = iota
	taskParked
	taskAsleep
	taskCrashed // with its coordinator: gets no turn any more
	taskDone
)

func (s taskState) String() string {
	switch s {
	case taskReady:
		return "ready"
	case taskParked:
		return "waiting"
	case taskAsleep:
		return "asleep"
	case taskCrashed:
		return "crashed"
	case taskDone:
		return "done"
	}
	return "?"
}

// Start makes a task. It does nothing before Run, Finish or Shuffle.
func (w *World) Start(name string, f func()) *Task {
	t := &Task{w: w, name: name, turn: make(chan struct{})}
	w.tasks = append(w.tasks, t)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				t.panic = fmt.Sprintf("%v\n%s", p, debug.Stack())
			}
			t.state = taskDone
			w.yield <- struct{}{}
		}()
		<-t.turn
		if !t.kill {
			f()
		}
	}()
	return t
}

// Name returns what Start was given.
func (t *Task) Name() string { return t.name }

// Done tells whether the task's function has returned.
func (t *Task) Done() bool { return t.state == taskDone }

// resume gives a task the turn until it waits or ends.
func (w *World) resume(t *Task) {
	w.tb.Helper()
	w.now++
	if t.state == taskAsleep {
		w.now = max(w.now, t.until)
	}
	t.state = taskReady
	w.cur = t
	w.guard.Reset(turnLimit)
	t.turn <- struct{}{}
	select {
	case <-w.yield:
	case <-w.guard.C:
		w.tb.Fatalf("script: task %s has neither ended nor waited for %v: it is blocked outside the world, or spins\n%s", t.name, turnLimit, w.Stand())
	}
	w.cur = nil
	if t.panic != "" {
		p := t.panic
		t.panic = ""
		w.tb.Fatalf("script: task %s panicked: %s", t.name, p)
	}
}

// pause gives the turn back, in the running task, and returns at the next one.
func (t *Task) pause(s taskState) {
	t.state = s
	t.w.yield <- struct{}{}
	<-t.turn
	t.ending()
}

// Run lets the task go on until it ends or waits for what is held. Time passes
// as it needs.
func (t *Task) Run() {
	t.w.tb.Helper()
	for t.state == taskReady || t.state == taskAsleep {
		t.w.resume(t)
	}
}

// Finish is Run for a task that must end.
func (t *Task) Finish() {
	t.w.tb.Helper()
	t.Run()
	if t.state != taskDone {
		t.w.tb.Fatalf("script: task %s has not ended:\n%s", t.name, t.w.Stand())
	}
}

// Do runs f as a task of that name, which must end.
func (w *World) Do(name string, f func()) {
	w.tb.Helper()
	w.Start(name, f).Finish()
}

// End ends all tasks, wherever they are, so that no goroutine is left behind. The
// world is of no use after it.
func (w *World) End() {
	for _, t := range w.tasks {
		for t.kill = true; t.state != taskDone; {
			w.resume(t)
		}
	}
}

// Alive tells whether all tasks have ended by themselves: else sessions are in
// use for ever, and their DB cannot be closed.
func (w *World) Alive() bool {
	for _, t := range w.tasks {
		if t.state != taskDone || t.kill {
			return false
		}
	}
	return true
}

// Stand tells where everybody stands.
func (w *World) Stand() string {
	var b strings.Builder
	for _, t := range w.tasks {
		fmt.Fprintf(&b, "  task %s: %v\n", t.name, t.state)
	}
	for _, q := range w.wires {
		if len(q.queue) == 0 {
			continue
		}
		fmt.Fprintf(&b, "  coordinator %d, QP %#x to memory-%d: %v", q.dev.index, q.Num(), q.node, q.queue[0])
		if h := q.queue[0].held; h != nil {
			fmt.Fprintf(&b, ", held by %q", h.name)
		}
		fmt.Fprintf(&b, ", %d behind\n", len(q.queue)-1)
	}
	for _, r := range w.rules {
		fmt.Fprintf(&b, "  rule %q: met %d times\n", r.name, r.met)
	}
	return b.String()
}

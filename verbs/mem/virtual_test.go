package mem_test

import (
	"container/heap"
	"math/rand/v2"
	"testing"

	"fjord/verbs"
	"fjord/verbs/mem"
	"fjord/verbs/verbstest"
)

// world is the smallest Runtime of virtual time: one worker runs at any moment,
// and time moves on only when all of them are parked. It shows that neither mem nor
// the suite depends on a real clock or on workers that run side by side.
type world struct {
	t      *testing.T
	rng    *rand.Rand
	now    int64
	ready  []*worker
	timers timers
	cur    *worker
	ids    uint64
	alive  int
	idle   chan bool // to whoever drives: true when all workers have ended
}

type worker struct {
	id   uint64
	turn chan struct{}
	// epoch counts wake-ups, so that an old timer finds nobody.
	epoch uint64
}

type timer struct {
	at    int64
	seq   uint64
	w     *worker
	epoch uint64
}

type timers []timer

func (h timers) Len() int { return len(h) }
func (h timers) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h timers) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *timers) Push(x any)   { *h = append(*h, x.(timer)) }
func (h *timers) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

func newWorld(t *testing.T) *world {
	return &world{t: t, rng: rand.New(rand.NewPCG(3, 4)), idle: make(chan bool, 1)}
}

// drive runs body as a worker and returns when all workers have ended.
func (v *world) drive(body func()) {
	v.Go(body)
	v.dispatch()
	if !<-v.idle {
		v.t.Fatalf("deadlock at %d µs of virtual time: %d workers are parked for ever", v.now/1000, v.alive)
	}
}

// dispatch hands the turn to one of those that are ready.
func (v *world) dispatch() {
	for len(v.ready) == 0 {
		if v.timers.Len() == 0 {
			v.idle <- v.alive == 0
			return
		}
		if t := heap.Pop(&v.timers).(timer); t.epoch == t.w.epoch {
			v.now = max(v.now, t.at)
			v.wake(t.w)
		}
	}
	i := v.rng.IntN(len(v.ready))
	w := v.ready[i]
	v.ready = append(v.ready[:i], v.ready[i+1:]...)
	v.cur = w
	w.turn <- struct{}{}
}

func (v *world) wake(w *worker) {
	w.epoch++
	v.ready = append(v.ready, w)
}

// pause gives the turn away until somebody wakes the caller.
func (v *world) pause() {
	w := v.cur
	v.dispatch()
	<-w.turn
}

func (v *world) at(t int64) {
	v.ids++
	heap.Push(&v.timers, timer{at: t, seq: v.ids, w: v.cur, epoch: v.cur.epoch})
}

func (v *world) Now() int64     { return v.now }
func (v *world) Rand() uint64   { return v.rng.Uint64() }
func (v *world) Secret() uint64 { return v.rng.Uint64() }
func (v *world) Self() uint64   { return v.cur.id }
func (v *world) Virtual() bool  { return true }

func (v *world) Sleep(d int64) {
	v.at(v.now + max(d, 0))
	v.pause()
}

func (v *world) Yield() {
	v.wake(v.cur)
	v.pause()
}

func (v *world) Go(f func()) {
	v.ids++
	w := &worker{id: v.ids, turn: make(chan struct{}, 1)}
	v.alive++
	v.wake(w)
	go func() {
		<-w.turn
		f()
		v.alive--
		v.dispatch()
	}()
}

func (v *world) NewParker() verbs.Parker { return &bench{v: v} }

// bench is where a worker of the virtual world sleeps.
type bench struct {
	v      *world
	w      *worker
	epoch  uint64
	called bool
}

func (b *bench) Park(deadline int64) {
	v := b.v
	if !b.called && (deadline == 0 || deadline > v.now) {
		b.w, b.epoch = v.cur, v.cur.epoch
		if deadline != 0 {
			v.at(deadline)
		}
		v.pause()
		b.w = nil
	}
	b.called = false
}

func (b *bench) Unpark() {
	if b.w != nil && b.w.epoch == b.epoch {
		b.v.wake(b.w)
	}
	b.called = b.w == nil
}

func TestConformanceInVirtualTime(t *testing.T) {
	verbstest.Run(t, func(t *testing.T) verbstest.Env {
		v := newWorld(t)
		f := mem.NewFabric(v)
		return verbstest.Env{A: f.NewDevice("a"), B: f.NewDevice("b"), Drive: v.drive, Effort: 25}
	})
}

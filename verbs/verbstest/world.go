package verbstest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"fjord/verbs"
)

// T is a running specification: a testing.T whose Fatalf and Skipf may be
// called by any worker. They unwind it by a panic that the suite recovers, since
// a simulator's worker need not be a goroutine of its own.
type T struct {
	*testing.T
	env      Env
	rt       verbs.Runtime
	patience int64
	a, b     verbs.Device
	mems     []*verbs.Memory
	all      *group      // every worker that was started
	stop     atomic.Bool // tells workers that loop to end
	skipped  string
}

type unwind struct{}

// guard runs f up to its end or its first Fatalf or Skipf.
func (t *T) guard(f func()) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(unwind); !ok {
				panic(r)
			}
		}
	}()
	f()
}

// Fatalf fails the test and ends the worker that calls it.
func (t *T) Fatalf(format string, args ...any) {
	t.Helper()
	t.Errorf(format, args...)
	panic(unwind{})
}

// Fatal is Fatalf with the operands of Errorf's %v.
func (t *T) Fatal(args ...any) {
	t.Helper()
	t.Fatalf("%s", strings.TrimSuffix(fmt.Sprintln(args...), "\n"))
}

// Skipf ends the test, called by its first worker, as one that this provider
// cannot run.
func (t *T) Skipf(format string, args ...any) {
	t.skipped = fmt.Sprintf(format, args...)
	panic(unwind{})
}

// rounds scales a number of repetitions to the provider and the build.
func (t *T) rounds(n int) int {
	if t.env.Effort > 0 {
		n = n * t.env.Effort / 100
	}
	if raceEnabled {
		n /= 4
	}
	if testing.Short() {
		n /= 4
	}
	return max(n, 2)
}

// rng returns the same random numbers in every run.
func (t *T) rng() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

func (t *T) deadline() int64 { return t.rt.Now() + t.patience }

// breathe lets the others of the world run, and its time pass.
func (t *T) breathe() { t.rt.Sleep(1_000) }

// quiet lets enough time pass for something to happen that should not.
func (t *T) quiet() { t.rt.Sleep(2_000_000) }

// eventually waits until cond holds.
func (t *T) eventually(what string, cond func() bool) {
	t.Helper()
	for end := t.deadline(); !cond(); t.rt.Sleep(20_000) {
		if t.rt.Now() >= end {
			t.Fatalf("waited %d ms in vain until %s", t.patience/1e6, what)
		}
	}
}

// group starts workers and waits for their end. Its wait parks, as every wait
// in a world of virtual time must.
type group struct {
	t    *T
	mu   sync.Mutex
	n    int
	join verbs.Parker
}

func (t *T) newGroup() *group { return &group{t: t, join: t.rt.NewParker()} }

// start runs f as a worker.
func (g *group) start(f func()) {
	g.add(1)
	if all := g.t.all; all != g {
		all.add(1)
	}
	g.t.rt.Go(func() {
		defer func() {
			if all := g.t.all; all != g {
				all.add(-1)
			}
			g.add(-1)
		}()
		g.t.guard(f)
	})
}

func (g *group) add(n int) {
	g.mu.Lock()
	g.n += n
	last := g.n == 0
	g.mu.Unlock()
	if last {
		g.join.Unpark()
	}
}

// wait returns when all workers have ended.
func (g *group) wait() {
	g.t.Helper()
	end := g.t.deadline()
	for {
		g.mu.Lock()
		n := g.n
		g.mu.Unlock()
		if n == 0 {
			return
		}
		if g.t.rt.Now() >= end {
			g.t.Fatalf("%d workers still run after %d ms: something hangs", n, g.t.patience/1e6)
		}
		g.join.Park(end)
	}
}

package verbs

import (
	crand "crypto/rand"
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"time"
)

// Runtime is the world that code above the providers lives in: the only source
// of time, randomness, workers and parking. The simulator has one with virtual
// time; all others share the real one.
type Runtime interface {
	// Now is a monotonic clock in nanoseconds. Clocks of two hosts must never be
	// compared.
	Now() int64
	// Sleep suspends the caller for about d nanoseconds.
	Sleep(d int64)
	// Rand returns fast random bits, for back-off and the like.
	Rand() uint64
	// Secret returns random bits that a stranger cannot guess: rkeys, QPNs, PSNs.
	Secret() uint64
	// Go starts a worker.
	Go(f func())
	// Yield lets others run.
	Yield()
	// NewParker returns a place for one worker to sleep.
	NewParker() Parker
	// Self identifies the running worker among the living ones; never 0.
	Self() uint64
	// Virtual tells that time stands still while anybody runs: waits must park at
	// once, and nothing may depend on Self's value.
	Virtual() bool
}

// Parker lets one worker sleep until another wakes it. An Unpark before the
// Park makes that Park return at once; more than one counts as one.
type Parker interface {
	// Park sleeps until Unpark, or until Runtime.Now reaches deadline (0: none).
	Park(deadline int64)
	// Unpark wakes the sleeper. It never blocks.
	Unpark()
}

// RealRuntime returns the runtime of the real world.
func RealRuntime() Runtime { return real{} }

type real struct{}

// epoch is read once, so that Now fits an int64 and is monotonic.
var epoch = time.Now()

func (real) Now() int64 { return int64(time.Since(epoch)) }

// shortSleep is the longest wait that is spent yielding: timers of the Go
// runtime and the kernel are late by more than that.
const shortSleep = 50_000

func (r real) Sleep(d int64) {
	if d > shortSleep {
		time.Sleep(time.Duration(d))
		return
	}
	for end := r.Now() + d; r.Now() < end; {
		runtime.Gosched()
	}
}

func (real) Rand() uint64 { return rand.Uint64() }

func (real) Secret() uint64 {
	var b [8]byte
	_, _ = crand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return binary.LittleEndian.Uint64(b[:])
}

func (real) Go(f func())       { go f() }
func (real) Yield()            { runtime.Gosched() }
func (real) Self() uint64      { return self() }
func (real) Virtual() bool     { return false }
func (real) NewParker() Parker { return &parker{wake: make(chan struct{}, 1)} }

type parker struct {
	wake  chan struct{}
	timer *time.Timer
}

func (p *parker) Park(deadline int64) {
	if deadline == 0 {
		<-p.wake
		return
	}
	d := time.Duration(deadline - real{}.Now())
	if d <= 0 {
		select {
		case <-p.wake:
		default:
		}
		return
	}
	if p.timer == nil {
		p.timer = time.NewTimer(d)
	} else {
		p.timer.Reset(d)
	}
	select {
	case <-p.wake:
		p.timer.Stop()
	case <-p.timer.C:
	}
}

func (p *parker) Unpark() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

//go:build amd64 && !race

package words

import (
	"runtime"
	"sync/atomic"
)

// Lock is a mutual exclusion for short sections on data paths: taken with one
// locked instruction and given back with a plain store, half of what a
// sync.Mutex costs. Whoever finds it taken yields until it is free.
type Lock struct{ taken uint64 }

// Lock takes the lock.
func (l *Lock) Lock() {
	if !atomic.CompareAndSwapUint64(&l.taken, 0, 1) {
		l.wait()
	}
}

// spins is how often a taken lock is looked at before the processor is offered
// to others.
const spins = 64

func (l *Lock) wait() {
	for n := 0; ; n++ {
		if atomic.LoadUint64(&l.taken) == 0 && atomic.CompareAndSwapUint64(&l.taken, 0, 1) {
			return
		}
		if n >= spins {
			runtime.Gosched()
		}
	}
}

// Unlock gives the lock back.
func (l *Lock) Unlock() { Release(&l.taken, 0) }

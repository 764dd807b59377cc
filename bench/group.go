package bench

import (
	"sync/atomic"

	"fjord/verbs"
)

// group waits for workers of a Runtime.
type group struct {
	rt      verbs.Runtime
	parker  verbs.Parker
	running atomic.Int64
}

func newGroup(rt verbs.Runtime) *group { return &group{rt: rt, parker: rt.NewParker()} }

// do runs f(0) to f(n-1) in n workers, the i-th one of on(i), and calls tick about
// every interval nanoseconds until the last has ended.
func (g *group) do(n int, on func(i int) verbs.Runtime, f func(i int), interval int64, tick func()) {
	g.running.Store(int64(n))
	for i := range n {
		on(i).Go(func() {
			defer func() {
				if g.running.Add(-1) == 0 {
					g.parker.Unpark()
				}
			}()
			f(i)
		})
	}
	for g.running.Load() > 0 {
		g.parker.Park(g.rt.Now() + interval)
		tick()
	}
}

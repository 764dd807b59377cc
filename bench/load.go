package bench

import (
	"context"
	"sync/atomic"

	"fjord/txn"
)

// maxLoaders bounds the goroutines that load: more of them only meet in the same
// buckets.
const maxLoaders = 16

// Loader fills the database with several goroutines.
type Loader struct {
	Ctx     context.Context
	DB      *txn.DB
	Seed    uint64
	Loaders int // goroutines of Each: one per coordinator, up to a bound

	run  *run
	done atomic.Uint64 // of all, in items; for the progress line
	all  atomic.Uint64
}

// Each calls f for the ranges [lo, hi) of at most step items that together are
// [0, n), from Loaders goroutines. It returns the first error; the ranges that have
// not begun by then are left out.
func (l *Loader) Each(n, step uint64, f func(ctx context.Context, lo, hi uint64) error) error {
	var next atomic.Uint64
	l.done.Store(0)
	l.all.Store(n)
	r := l.run
	newGroup(l.DB.Runtime()).do(l.Loaders, func(int) {
		for !r.stop.Load() {
			lo := next.Add(step) - step
			if lo >= n {
				return
			}
			hi := min(lo+step, n)
			if err := f(l.Ctx, lo, hi); err != nil {
				r.fail(err)
				return
			}
			l.done.Add(hi - lo)
		}
	}, tickInterval, func() {
		r.progress.line("loading: %.0f %%", 100*float64(l.done.Load())/float64(l.all.Load()))
	})
	return r.failure()
}

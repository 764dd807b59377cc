package bench

import (
	"context"
	"fmt"
	"sync/atomic"

	"fjord/txn"
	"fjord/verbs"
)

// maxLoaders bounds the goroutines that load: more of them only meet in the same
// buckets.
const maxLoaders = 16

// Loader fills the database with several workers.
type Loader struct {
	Ctx     context.Context
	DB      *txn.DB
	Others  []*txn.DB // of further compute nodes, in the same cluster
	Seed    uint64
	Loaders int // workers of Each: as many as a compute node has coordinators, up to a bound

	run  *run
	done atomic.Uint64 // of all, in items; for the progress line
	all  atomic.Uint64
}

// Each calls f for the ranges [lo, hi) of at most step items that together are
// [0, n), from Loaders workers. It returns the first error; the ranges that have
// not begun by then are left out.
func (l *Loader) Each(n, step uint64, f func(ctx context.Context, lo, hi uint64) error) error {
	return l.on(l.DB, "loading", n, step, f)
}

// Warm calls f as Each does, for every other compute node: so that each knows where
// everything is, as it does when it has run for long.
func (l *Loader) Warm(n, step uint64, f func(ctx context.Context, db *txn.DB, lo, hi uint64) error) error {
	for i, db := range l.Others {
		what := fmt.Sprintf("warming up compute node %d", i+1)
		err := l.on(db, what, n, step, func(ctx context.Context, lo, hi uint64) error { return f(ctx, db, lo, hi) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *Loader) on(db *txn.DB, what string, n, step uint64, f func(ctx context.Context, lo, hi uint64) error) error {
	var next atomic.Uint64
	l.done.Store(0)
	l.all.Store(n)
	r := l.run
	on := func(int) verbs.Runtime { return db.Runtime() }
	newGroup(r.rt).do(l.Loaders, on, func(int) {
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
	}, r.tick, func() {
		r.progress.line("%s: %.0f %%", what, 100*float64(l.done.Load())/float64(l.all.Load()))
	})
	return r.failure()
}

package bench

import (
	"context"
	"math/rand/v2"

	"fjord/txn"
)

// Worker runs the transactions of one coordinator, one after the other, in a
// goroutine of its own.
type Worker struct {
	Index int
	DB    *txn.DB // of the worker's compute node
	// Rand is the worker's own source, seeded with the run's seed and Index: the
	// n-th transaction of a worker is the same in every run.
	Rand *rand.Rand

	run    *run
	ctx    context.Context
	client Client
	tally  []tally // by type

	// The transaction that is running.
	body  func(*txn.Tx) error // attempt, made once
	fn    func(*txn.Tx) error
	typ   int
	tries int

	ended int64 // when the worker left its last loop
	_     [64]byte
}

// Update runs fn in DB.Update, counting every attempt.
func (w *Worker) Update(fn func(*txn.Tx) error) error {
	w.fn, w.tries = fn, 0
	return w.count(w.DB.Update(w.ctx, w.body))
}

// View runs fn in DB.View, counting every attempt.
func (w *Worker) View(fn func(*txn.Tx) error) error {
	w.fn, w.tries = fn, 0
	return w.count(w.DB.View(w.ctx, w.body))
}

// attempt is one run of a transaction's function.
func (w *Worker) attempt(tx *txn.Tx) error {
	if w.tries++; w.tries > 1 {
		w.conflict(tx.LastConflict())
	}
	tx.SetLabel(w.run.types[w.typ])
	return w.fn(tx)
}

// conflict counts the attempt before a rerun.
func (w *Worker) conflict(c *txn.ConflictError) {
	reason := reasonError
	if c != nil && int(c.Reason) < txn.NumReasons {
		reason = int(c.Reason)
	}
	w.tally[w.typ].aborted[reason]++
}

// count counts the last attempt of a transaction, which ended with err.
func (w *Worker) count(err error) error {
	t := &w.tally[w.typ]
	switch {
	case err == nil:
		t.committed++
	case w.tries > 0:
		t.aborted[reasonOf(err, w.run.rollbacks)]++
	}
	return err
}

// part is a warm-up or the measured part of a run.
type part struct {
	start int64
	end   int64   // when it is over; 0: after txns
	txns  int     // in all; 0: until end
	rate  float64 // transactions per second in all; 0: no bound
}

// quota returns how many of n transactions fall to worker index of workers.
func quota(n, index, workers int) int {
	q := n / workers
	if index < n%workers {
		q++
	}
	return q
}

// loop runs one part.
func (w *Worker) loop(p *part) {
	var (
		rt    = w.DB.Runtime()
		stop  = &w.run.stop
		pace  = newPacer(rt, p.start, p.rate, w.Index, len(w.run.workers))
		begin int64
		left  = -1 // counts down to 0, or for ever
	)
	if p.txns > 0 {
		left = quota(p.txns, w.Index, len(w.run.workers))
	}
	for ; left != 0 && !stop.Load(); left-- {
		if pace.interval > 0 {
			var ok bool
			if begin, ok = pace.wait(p.end, stop.Load); !ok {
				break
			}
		} else if begin = rt.Now(); p.end != 0 && begin >= p.end {
			break
		}
		w.typ = w.client.Next()
		if err := w.client.Run(); err == nil {
			w.tally[w.typ].latencies.record(rt.Now() - begin)
		} else {
			w.failed(err)
		}
	}
	w.ended = rt.Now()
}

// failed ends the run if err is more than a transaction that did not commit.
func (w *Worker) failed(err error) {
	switch reasonOf(err, w.run.rollbacks) {
	case reasonError:
		w.run.fail(err)
	case reasonCancelled:
		if w.ctx.Err() == nil { // not by this run
			w.run.fail(err)
		}
	}
}

// reset forgets what was counted.
func (w *Worker) reset() {
	for i := range w.tally {
		w.tally[i] = newTally(len(w.run.reasons), digits(len(w.run.workers)))
	}
}

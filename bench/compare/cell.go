package main

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// cacheLine separates what goroutines write from what others use.
const cacheLine = 64

// counts is what one goroutine, or all of them, did.
type counts struct {
	committed  uint64
	rolledBack uint64 // by the bank's rules; completed, not committed
	retries    uint64 // attempts that a conflict ended
	totals            // how the committed transactions changed the sums
}

func (c *counts) add(d counts) {
	c.committed += d.committed
	c.rolledBack += d.rolledBack
	c.retries += d.retries
	c.cents += d.cents
	c.updates += d.updates
}

// session is the state of one goroutine.
type session struct {
	_      [cacheLine]byte
	gen    generator
	op     op
	worker worker
	counts counts
	_      [cacheLine]byte
}

// one draws a transaction and runs it. This is what is counted: drawing the inputs is part of it.
func (s *session) one() error {
	s.gen.next(&s.op)
	committed, retries, err := s.worker.run(&s.op)
	if err != nil {
		return fmt.Errorf("%v: %w", s.op.kind, err)
	}
	s.counts.retries += uint64(retries)
	if !committed {
		s.counts.rolledBack++
		return nil
	}
	s.counts.committed++
	s.counts.cents += s.op.delta
	s.counts.updates += uint64(s.op.writes)
	return nil
}

// cell says what is measured in one go.
type cell struct {
	setting    setting
	ledger     ledger // of that setting
	goroutines int
	warmup     time.Duration
	duration   time.Duration
	seed       uint64
}

// measurement is the outcome of a cell.
type measurement struct {
	Committed  uint64  `json:"committed"`
	RolledBack uint64  `json:"rolled_back"`
	Retries    uint64  `json:"retries"`
	Seconds    float64 `json:"seconds"`
	PerSecond  float64 `json:"committed_per_s"`
}

// errNotConserved says that an engine has lost or made money, or an update.
var errNotConserved = errors.New("not conserved")

// measure opens the engine afresh, so that all of them start from the same accounts and none pays for
// collecting another's garbage, runs the cell, and checks the sums. An error that is errNotConserved
// comes with the measurement.
func (c cell) measure(s spec) (m measurement, err error) {
	e, err := s.open(c.ledger)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, e.close()) }()

	sessions := make([]*session, c.goroutines)
	for i := range sessions {
		w, err := e.worker()
		if err != nil {
			return m, err
		}
		sessions[i] = &session{gen: newGenerator(c.setting, c.seed, uint64(i)), worker: w}
	}
	runtime.GC() // of the load and of the engine before

	warm, _, err := runFor(c.warmup, sessions)
	if err != nil {
		return m, err
	}
	all, elapsed, err := runFor(c.duration, sessions)
	if err != nil {
		return m, err
	}
	m = measurement{
		Committed:  all.committed - warm.committed,
		RolledBack: all.rolledBack - warm.rolledBack,
		Retries:    all.retries - warm.retries,
		Seconds:    elapsed.Seconds(),
	}
	if m.Committed == 0 {
		return m, fmt.Errorf("nothing was committed in %v", elapsed) // and no ratio could be formed
	}
	m.PerSecond = float64(m.Committed) / m.Seconds
	return m, checkTotals(e, c.ledger, all)
}

// runFor runs all sessions for d and returns what they have done since they were made. The time is
// that from the start to the end of the last transaction.
func runFor(d time.Duration, sessions []*session) (counts, time.Duration, error) {
	var shared struct {
		_    [cacheLine]byte
		stop atomic.Bool
		_    [cacheLine]byte
	}
	var wg sync.WaitGroup
	start := make(chan struct{})
	errs := make([]error, len(sessions))
	for i, s := range sessions {
		wg.Go(func() {
			<-start
			for !shared.stop.Load() {
				if errs[i] = s.one(); errs[i] != nil {
					return
				}
			}
		})
	}
	began := time.Now()
	close(start)
	time.Sleep(d)
	shared.stop.Store(true)
	wg.Wait()
	elapsed := time.Since(began)

	var sum counts
	for _, s := range sessions {
		sum.add(s.counts)
	}
	return sum, elapsed, errors.Join(errs...)
}

// checkTotals compares what the engine holds with what the committed transactions should have made of
// the ledger.
func checkTotals(e engine, l ledger, done counts) error {
	want := l.totals()
	want.cents += done.cents
	want.updates += done.updates
	got, err := e.totals()
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%w: %d cents and %d updates, want %d and %d",
			errNotConserved, got.cents, got.updates, want.cents, want.updates)
	}
	return nil
}

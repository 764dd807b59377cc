package main

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"
)

// This file is the yardstick: Silo's commit protocol (Tu et al., SOSP 2013) and nothing besides, on
// records in the process's own memory. It is serializable and as fast as we could make it; it has no
// verbs, no log, no copies, no inserts and no epochs.

// record is one cache line, so that neighbours do not disturb each other.
type record struct {
	word    atomic.Uint64 // version<<1 | locked
	cents   atomic.Int64  // under word as a sequence lock, like updates
	updates atomic.Uint64
	id      uint64 // fixed: the order in which locks are taken
	_       [32]byte
}

const (
	locked      = 1
	nextVersion = 2

	// readSpins is how often a reader looks at a locked record before it gives up. A holder needs
	// some tens of nanoseconds, unless it has lost its processor.
	readSpins = 64
)

// read takes a consistent image, and the word under which it was taken. It reports false when the
// record stays locked.
func (r *record) read() (row, uint64, bool) {
	for range readSpins {
		w := r.word.Load()
		if w&locked != 0 {
			continue
		}
		image := row{r.cents.Load(), r.updates.Load()}
		if r.word.Load() == w {
			return image, w, true
		}
	}
	return row{}, 0, false
}

// occTx is one attempt. The zero value is ready.
type occTx struct {
	reads, writes int
	read          [maxKeys]occRead
	write         [maxKeys]occWrite
}

type occRead struct {
	rec  *record
	seen uint64
}

type occWrite struct {
	occRead
	image row
}

func (t *occTx) reset() { t.reads, t.writes = 0, 0 }

// get reads a record that will not be written. It reports false on a conflict.
func (t *occTx) get(rec *record) (row, bool) {
	image, seen, ok := rec.read()
	t.read[t.reads] = occRead{rec, seen}
	t.reads++
	return image, ok
}

// put buffers the new image of a record that was read under the word seen. The write set is kept in
// the order of locking.
func (t *occTx) put(rec *record, seen uint64, image row) {
	i := t.writes
	for ; i > 0 && t.write[i-1].rec.id > rec.id; i-- {
		t.write[i] = t.write[i-1]
	}
	t.write[i] = occWrite{occRead{rec, seen}, image}
	t.writes++
}

// commit locks the write set, validates the read set, and installs. It reports false on a conflict,
// and then nothing has changed. Written records need no validation: the CAS from the word seen to its
// locked form is one.
func (t *occTx) commit() bool {
	for i := range t.write[:t.writes] {
		w := &t.write[i]
		if !w.rec.word.CompareAndSwap(w.seen, w.seen|locked) {
			t.unlock(i)
			return false
		}
	}
	for i := range t.read[:t.reads] {
		if r := &t.read[i]; r.rec.word.Load() != r.seen {
			t.unlock(t.writes)
			return false
		}
	}
	for i := range t.write[:t.writes] {
		w := &t.write[i]
		w.rec.cents.Store(w.image.cents)
		w.rec.updates.Store(w.image.updates)
		w.rec.word.Store(w.seen + nextVersion)
	}
	return true
}

// unlock releases the first n locks unchanged.
func (t *occTx) unlock(n int) {
	for i := range t.write[:n] {
		t.write[i].rec.word.Store(t.write[i].seen)
	}
}

// index says how occ finds a record.
type index uint8

const (
	mapIndex index = iota
	arrayIndex
)

type occEngine struct {
	records [tables][]record
	// byKey is nil with an array as index. The maps need no lock, since SmallBank inserts nothing
	// while it runs; an engine with inserts would pay for one.
	byKey [tables]map[uint64]*record
}

func openOCC(index index) func(ledger) (engine, error) {
	return func(l ledger) (engine, error) {
		e := &occEngine{}
		for t := range e.records {
			e.records[t] = make([]record, l.accounts())
			for a := range e.records[t] {
				e.records[t][a].id = uint64(a)*tables + uint64(t)
				e.records[t][a].cents.Store(l[t][a].cents)
			}
			if index == mapIndex {
				e.byKey[t] = make(map[uint64]*record, l.accounts())
				for a := range e.records[t] {
					e.byKey[t][uint64(a)] = &e.records[t][a]
				}
			}
		}
		return e, nil
	}
}

func (e *occEngine) worker() (worker, error) {
	return &occWorker{engine: e, rng: rng{rand.Uint64()}}, nil
}

func (e *occEngine) totals() (totals, error) {
	var sum totals
	for t := range e.records {
		for a := range e.records[t] {
			r := &e.records[t][a]
			sum.add(row{r.cents.Load(), r.updates.Load()})
		}
	}
	return sum, nil
}

func (e *occEngine) close() error { return nil }

type occWorker struct {
	_      [cacheLine]byte
	engine *occEngine
	tx     occTx
	rng    rng
	_      [cacheLine]byte
}

func (w *occWorker) find(k *access) *record {
	if byKey := w.engine.byKey[k.table]; byKey != nil {
		return byKey[k.account]
	}
	return &w.engine.records[k.table][k.account]
}

func (w *occWorker) run(o *op) (committed bool, retries int, err error) {
	var recs [maxKeys]*record
	for i := range o.n {
		recs[i] = w.find(&o.keys[i])
	}
	for {
		committed, ok := w.attempt(o, &recs)
		if ok {
			return committed, retries, nil
		}
		retries++
		w.backOff(retries)
	}
}

// attempt reports ok false on a conflict.
func (w *occWorker) attempt(o *op, recs *[maxKeys]*record) (committed, ok bool) {
	var rows [maxKeys]row
	var seen [maxKeys]uint64
	w.tx.reset()
	for i := range o.n {
		if o.keys[i].write {
			rows[i], seen[i], ok = recs[i].read()
		} else {
			rows[i], ok = w.tx.get(recs[i])
		}
		if !ok {
			return false, false
		}
	}
	if !o.apply(&rows) {
		// A rollback is an answer to the client, so what it rests on has to hold as well: the
		// records that would have been written are part of what was read.
		for i := range o.n {
			if o.keys[i].write {
				w.tx.read[w.tx.reads] = occRead{recs[i], seen[i]}
				w.tx.reads++
			}
		}
		return false, w.tx.commit()
	}
	for i := range o.n {
		if o.keys[i].write {
			w.tx.put(recs[i], seen[i], rows[i])
		}
	}
	return true, w.tx.commit()
}

const (
	// yieldAfter conflicts in a row the holder has probably lost its processor to another goroutine,
	// and after parkAfter to another process: spinning longer would only keep it from coming back.
	yieldAfter = 4
	parkAfter  = 64
	parkTime   = 10 * time.Microsecond
	// backOffSpins is the mean wait after the first conflict, in turns of an empty loop; it doubles
	// with each one up to yieldAfter.
	backOffSpins = 32
)

func (w *occWorker) backOff(retries int) {
	switch {
	case retries >= parkAfter:
		time.Sleep(parkTime)
	case retries >= yieldAfter:
		runtime.Gosched()
	default:
		for range w.rng.below(backOffSpins << retries) {
			spin()
		}
	}
}

// spin is not inlined, as the compiler may drop an empty loop.
//
//go:noinline
func spin() {}

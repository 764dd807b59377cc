package main

import (
	"runtime"
	"sync"
	"testing"
	"unsafe"
)

func TestRecordIsOneCacheLine(t *testing.T) {
	if size := unsafe.Sizeof(record{}); size != cacheLine {
		t.Errorf("a record has %d bytes", size)
	}
	if at := uintptr(unsafe.Pointer(&make([]record, 100_000)[0])); at%cacheLine != 0 {
		t.Errorf("records lie %d bytes off a cache line", at%cacheLine)
	}
}

// Two transactions read both records, and each writes another one: the second to commit must fail, in
// whichever order they go.
func TestWriteSkewIsRefused(t *testing.T) {
	for _, first := range []int{0, 1} {
		pair := newRecords(1, 1)
		txs := []*occTx{{}, {}}
		for i, tx := range txs {
			own, other := &pair[i], &pair[1-i]
			if _, ok := tx.get(other); !ok {
				t.Fatal("a free record could not be read")
			}
			r, seen, ok := own.read()
			if !ok {
				t.Fatal("a free record could not be read")
			}
			r.cents--
			tx.put(own, seen, r)
		}
		if !txs[first].commit() {
			t.Error("the first of the two did not commit")
		}
		if txs[1-first].commit() {
			t.Error("both have committed")
		}
		if pair[1-first].cents.Load() != 1 || pair[1-first].word.Load() != 0 {
			t.Error("the refused transaction has left something behind")
		}
	}
}

// The doctors' example: each goes off duty only when it sees another one on duty. Under snapshot
// isolation both do now and then.
func TestOneDoctorStaysOnDuty(t *testing.T) {
	pair := newRecords(1, 1)
	const rounds = 20_000
	var wg sync.WaitGroup
	for me := range pair {
		wg.Go(func() {
			var tx occTx
			for round := range rounds {
				for !changeDuty(t, &tx, &pair[me], &pair[1-me]) {
					runtime.Gosched()
				}
				if round%64 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	wg.Wait()
	if updates := pair[0].updates.Load() + pair[1].updates.Load(); updates != 2*rounds {
		t.Errorf("%d updates, want %d", updates, 2*rounds)
	}
}

// changeDuty takes a doctor off duty, or back on when already off. It reports false on a conflict.
func changeDuty(t *testing.T, tx *occTx, own, other *record) (ok bool) {
	tx.reset()
	theirs, ok := tx.get(other)
	if !ok {
		return false
	}
	mine, seen, ok := own.read()
	if !ok {
		return false
	}
	idle := mine.cents == 0 && theirs.cents == 0
	switch {
	case mine.cents == 0:
		mine.cents = 1
	case theirs.cents == 1:
		mine.cents = 0
	}
	mine.updates++
	tx.put(own, seen, mine)
	if !tx.commit() {
		return false
	}
	// Only now is what was read known to be consistent.
	if idle {
		t.Error("both doctors were off duty")
	}
	return true
}

// A transaction that is refused at its second lock gives back its first.
func TestRefusedCommitUnlocks(t *testing.T) {
	pair := newRecords(1, 1)
	var tx, rival occTx
	for i := range pair {
		r, seen, _ := pair[i].read()
		tx.put(&pair[i], seen, r)
	}
	r, seen, _ := pair[1].read()
	rival.put(&pair[1], seen, r)
	if !rival.commit() {
		t.Fatal("the rival did not commit")
	}
	if tx.commit() {
		t.Fatal("it has overwritten what it had not read")
	}
	if w := pair[0].word.Load(); w != 0 {
		t.Errorf("the word of the first record is %#x, want 0", w)
	}
}

// Locks are taken in one order whatever the order of puts, so that two transactions on the same
// records cannot refuse each other.
func TestWriteSetIsOrdered(t *testing.T) {
	records := make([]record, maxKeys)
	for i := range records {
		records[i].id = uint64(i)
	}
	for _, order := range [][maxKeys]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		var tx occTx
		for _, i := range order {
			tx.put(&records[i], 0, row{cents: int64(i)})
		}
		for i := range records {
			if w := tx.write[i]; w.rec != &records[i] || w.image.cents != int64(i) {
				t.Errorf("put in the order %v, record %d comes at place %d", order, w.rec.id, i)
			}
		}
	}
}

// A reader never gets the cents of one version with the updates of another.
func TestReadsAreNotTorn(t *testing.T) {
	rec := &newRecords(0)[0]
	done := make(chan struct{})
	go func() {
		defer close(done)
		var tx occTx
		for i := range int64(200_000) {
			tx.reset()
			tx.put(rec, rec.word.Load(), row{i, uint64(i)})
			if !tx.commit() {
				t.Error("the only writer was refused")
			}
		}
	}()
	for {
		if r, _, ok := rec.read(); ok && uint64(r.cents) != r.updates {
			t.Fatalf("read %+v", r)
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

// newRecords makes free records with these values.
func newRecords(cents ...int64) []record {
	pair := make([]record, len(cents))
	for i := range pair {
		pair[i].id = uint64(i)
		pair[i].cents.Store(cents[i])
	}
	return pair
}

package txn_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"fjord/layout"
	"fjord/txn"
)

// A transaction may write as much as its undo log has room for, to the byte. One
// record more is ErrTooLarge, at commit, and then nothing was done.
func TestLargestTransaction(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db := w.open()
	tab := newTable(t, db, "t", 8, 16, 1000)
	slot := shape(3, 3).LogSlot
	most := 0
	for image := layout.ImageSize(8, 16); layout.LogSize(most+1, (most+1)*image) <= int(slot); {
		most++
	}
	for i := range most + 1 {
		put(t, db, tab, u64(i), "the old value...")
	}
	write := func(n int, value string) error {
		return db.Update(context.Background(), func(tx *txn.Tx) error {
			for i := range n {
				if err := tx.Put(tab, u64(i), []byte(value)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	wantErr(t, write(most+1, "refused"), txn.ErrTooLarge, fmt.Sprint(most+1, " cells"), fmt.Sprint(slot))
	for i := range most + 1 {
		if got := read(t, db, tab, u64(i)); got != "the old value..." {
			t.Fatalf("key %d is %q after a refused transaction", i, got)
		}
	}
	w.sound(db, map[string]int{"t": most + 1})
	if err := write(most, "accepted"); err != nil {
		t.Errorf("a transaction of %d records: %v", most, err)
	}
	for i := range most {
		if got := read(t, db, tab, u64(i)); got != "accepted" {
			t.Fatalf("key %d is %q, want %q", i, got, "accepted")
		}
	}
	w.sound(db, map[string]int{"t": most + 1})
}

// Inserts and deletes change more cells than records; beyond the bound they are
// refused as well, whole.
func TestLargestStructuralTransaction(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db := w.open()
	tab := newTable(t, db, "t", 8, 16, 2000)
	ctx := context.Background()
	present := 0
	insert := func(from, n int) error {
		return db.Update(ctx, func(tx *txn.Tx) error {
			for i := range n {
				if err := tx.Put(tab, u64(from+i), []byte("x")); err != nil {
					return err
				}
			}
			return nil
		})
	}
	n := 1
	for ; ; n *= 2 {
		err := insert(present, n)
		if errors.Is(err, txn.ErrTooLarge) {
			break
		}
		if err != nil {
			t.Fatalf("insert of %d records: %v", n, err)
		}
		present += n
		if n > 1000 {
			t.Fatalf("no bound found up to %d records", n)
		}
	}
	w.sound(db, map[string]int{"t": present})
	if n < 64 {
		t.Errorf("a transaction of %d inserts was refused", n)
	}
	err := db.Update(ctx, func(tx *txn.Tx) error {
		for i := range present {
			if err := tx.Delete(tab, u64(i)); err != nil {
				return err
			}
		}
		return nil
	})
	wantErr(t, err, txn.ErrTooLarge)
	w.sound(db, map[string]int{"t": present})
}

// Local memory is bounded too: transactions that hold too much of it fail with
// ErrTooLarge, undo themselves, and leave it to others.
func TestLocalMemoryUsedUp(t *testing.T) {
	w := newWorld(t, shape(1, 1))
	db := w.open()
	ctx := context.Background()
	const size = 8 << 10
	tab := newTable(t, db, "t", 8, size, 100)
	for i := range 100 {
		put(t, db, tab, u64(i), string(make([]byte, size)))
	}
	// hog reads until it is refused; it has locked what it has read.
	hog := func(tx *txn.Tx) error {
		for i := range 100 {
			for range 20 {
				v, err := tx.GetForUpdate(tab, u64(i))
				if err != nil {
					return err
				}
				v[0]++ // it is ours: the next Get makes another copy
			}
		}
		return nil
	}
	for range 3 {
		tx, err := db.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		wantErr(t, hog(tx), txn.ErrTooLarge, "local memory")
		_, err = db.Begin(ctx) // a session would have to be made
		wantErr(t, err, txn.ErrFull, "local memory", "raise Sessions")
		wantErr(t, tx.Put(tab, u64(100), nil), txn.ErrTooLarge) // it is doomed
		wantErr(t, tx.Commit(ctx), txn.ErrTooLarge)
		for i := range 100 {
			update(t, db, func(tx *txn.Tx) error { return tx.Put(tab, u64(i), []byte("small")) })
		}
		w.sound(db, map[string]int{"t": 100})
		for i := range 100 {
			put(t, db, tab, u64(i), string(make([]byte, size)))
		}
	}
	wantErr(t, db.Update(ctx, hog), txn.ErrTooLarge)
	w.sound(db, map[string]int{"t": 100})
}

// Memory that runs out in the middle of a Fetch: some of its keys are locked by
// then. They are freed with the transaction.
func TestLocalMemoryUsedUpWithinFetch(t *testing.T) {
	w := newWorld(t, shape(1, 1))
	db := w.open()
	ctx := context.Background()
	const size, n = 8 << 10, 100
	tab := newTable(t, db, "t", 8, size, n)
	var refs []txn.Ref
	for i := range n {
		put(t, db, tab, u64(i), string(make([]byte, size)))
		refs = append(refs, txn.ForUpdate(tab, u64(i)))
	}
	var hogs []*txn.Tx
	for len(hogs) < 7 { // each reads everything, and keeps it
		tx := begin(t, db)
		hogs = append(hogs, tx)
		var err error
		for i := range n {
			if _, err = tx.Get(tab, u64(i)); err != nil {
				break
			}
		}
		if err != nil {
			wantErr(t, err, txn.ErrTooLarge)
			break
		}
	}
	wantErr(t, db.Update(ctx, func(tx *txn.Tx) error { return tx.Fetch(refs...) }), txn.ErrTooLarge, "local memory")
	for _, tx := range hogs {
		if err := tx.Abort(); err != nil {
			t.Error(err)
		}
	}
	update(t, db, func(tx *txn.Tx) error { return tx.Fetch(refs...) }) // all locks and all memory are to be had
	w.sound(db, map[string]int{"t": n})
}

package txn_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"fjord/txn"
)

func begin(t testing.TB, db *txn.DB) *txn.Tx {
	t.Helper()
	tx, err := db.Begin(context.Background())
	if err != nil {
		t.Fatalf("begin: %v", err)
	}
	return tx
}

// What a transaction begun by hand has put is there after Commit, and not after
// Abort.
func TestCommitAndAbort(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db := w.open()
	ctx := context.Background()
	tab := newTable(t, db, "t", 8, 16, 64)
	tx := begin(t, db)
	if err := tx.Put(tab, u64(1), []byte("committed")); err != nil {
		t.Fatal(err)
	}
	if got := read(t, db, tab, u64(1)); got != absent {
		t.Errorf("before Commit others see %q", got)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if got := read(t, db, tab, u64(1)); got != "committed" {
		t.Errorf("after Commit the key is %q", got)
	}
	tx = begin(t, db)
	if err := errors.Join(tx.Put(tab, u64(1), []byte("aborted")), tx.Insert(tab, u64(2), nil)); err != nil {
		t.Fatal(err)
	}
	if err := tx.Abort(); err != nil {
		t.Fatal(err)
	}
	if got := read(t, db, tab, u64(1)); got != "committed" {
		t.Errorf("after Abort the key is %q", got)
	}
	w.sound(db, map[string]int{"t": 1})
}

// After its end a transaction refuses everything but Abort, which does nothing.
func TestUseAfterEnd(t *testing.T) {
	db := newDB(t)
	ctx := context.Background()
	tab := newTable(t, db, "t", 8, 16, 64)
	for end, fn := range map[string]func(tx *txn.Tx) error{
		"Commit": func(tx *txn.Tx) error { return tx.Commit(ctx) },
		"Abort":  func(tx *txn.Tx) error { return tx.Abort() },
	} {
		t.Run(end, func(t *testing.T) {
			tx := begin(t, db)
			if err := tx.Put(tab, u64(1), []byte("x")); err != nil {
				t.Fatal(err)
			}
			if err := fn(tx); err != nil {
				t.Fatal(err)
			}
			want := read(t, db, tab, u64(1))
			busy := begin(t, db) // on the session that tx had
			defer busy.Abort()
			_, err := tx.Get(tab, u64(1))
			wantErr(t, err, txn.ErrClosed, "ended")
			_, err = tx.GetForUpdate(tab, u64(1))
			wantErr(t, err, txn.ErrClosed)
			wantErr(t, tx.Put(tab, u64(1), nil), txn.ErrClosed)
			wantErr(t, tx.Insert(tab, u64(2), nil), txn.ErrClosed)
			wantErr(t, tx.Delete(tab, u64(1)), txn.ErrClosed)
			wantErr(t, tx.Fetch(txn.ForRead(tab, u64(1))), txn.ErrClosed)
			wantErr(t, tx.Commit(ctx), txn.ErrClosed)
			if err := tx.Abort(); err != nil {
				t.Errorf("Abort after %s: %v, want nothing", end, err)
			}
			if got := read(t, db, tab, u64(1)); got != want {
				t.Errorf("the key is %q, was %q", got, want)
			}
		})
	}
}

// The Tx of an Update is of no use once its function has returned.
func TestUseAfterUpdate(t *testing.T) {
	db := newDB(t)
	tab := newTable(t, db, "t", 8, 16, 64)
	var kept *txn.Tx
	update(t, db, func(tx *txn.Tx) error { kept = tx; return nil })
	_, err := kept.Get(tab, u64(1))
	wantErr(t, err, txn.ErrClosed, "ended")
	wantErr(t, kept.Put(tab, u64(1), nil), txn.ErrClosed)
}

// As many transactions as there are sessions may be open at once, each on its
// own; they are isolated from each other and may end in any order.
func TestManyAtOnce(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db := w.open()
	ctx := context.Background()
	tab := newTable(t, db, "t", 8, 16, 64)
	for i := range 8 {
		put(t, db, tab, u64(i), "old")
	}
	var open []*txn.Tx
	ids := make(map[txn.ID]bool)
	for i := range 8 {
		tx := begin(t, db)
		if ids[tx.ID()] {
			t.Errorf("two transactions are %v", tx.ID())
		}
		ids[tx.ID()] = true
		if _, err := tx.GetForUpdate(tab, u64(i)); err != nil {
			t.Fatal(err)
		}
		if err := tx.Put(tab, u64(i), fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
		open = append(open, tx)
	}
	for _, i := range []int{3, 0, 7, 1, 6, 2, 5, 4} {
		if i%2 == 0 {
			if err := open[i].Commit(ctx); err != nil {
				t.Errorf("commit %d: %v", i, err)
			}
		} else if err := open[i].Abort(); err != nil {
			t.Errorf("abort %d: %v", i, err)
		}
	}
	for i := range 8 {
		want := "old"
		if i%2 == 0 {
			want = fmt.Sprint(i)
		}
		if got := read(t, db, tab, u64(i)); got != want {
			t.Errorf("key %d is %q, want %q", i, got, want)
		}
	}
	w.sound(db, map[string]int{"t": 8})
}

// A transaction begun by hand is not run again: a conflict ends it, with reason,
// table and key, and another may have what it had locked.
func TestConflictEndsTransaction(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db := w.open()
	ctx := context.Background()
	tab := newTable(t, db, "ledger", 8, 16, 64)
	put(t, db, tab, u64(1), "one")
	put(t, db, tab, u64(2), "two")
	reasonOf := func(err error) txn.Reason {
		t.Helper()
		wantErr(t, err, txn.ErrConflict, `"ledger"`, "0000000000000001")
		var c *txn.ConflictError
		if !errors.As(err, &c) {
			t.Fatalf("%v is no *ConflictError", err)
		}
		if c.Table != "ledger" || string(c.Key) != string(u64(1)) {
			t.Errorf("conflict over table %q, key %x; want %q, %x", c.Table, c.Key, "ledger", u64(1))
		}
		return c.Reason
	}

	t.Run("locked", func(t *testing.T) {
		holder, loser := begin(t, db), begin(t, db)
		if _, err := holder.GetForUpdate(tab, u64(1)); err != nil {
			t.Fatal(err)
		}
		if _, err := loser.GetForUpdate(tab, u64(2)); err != nil {
			t.Fatal(err)
		}
		_, err := loser.GetForUpdate(tab, u64(1))
		if r := reasonOf(err); r != txn.ReasonLocked {
			t.Errorf("reason %v, want locked", r)
		}
		// It is doomed: whatever it tries, the first error stands.
		wantErr(t, loser.Put(tab, u64(2), nil), txn.ErrConflict)
		if r := reasonOf(loser.Commit(ctx)); r != txn.ReasonLocked {
			t.Errorf("Commit: reason %v, want locked", r)
		}
		put(t, db, tab, u64(2), "two") // its lock is gone
		if err := holder.Commit(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Run("locked at commit", func(t *testing.T) {
		holder, loser := begin(t, db), begin(t, db)
		if err := loser.Put(tab, u64(1), []byte("lost")); err != nil {
			t.Fatal(err)
		}
		if _, err := holder.GetForUpdate(tab, u64(1)); err != nil {
			t.Fatal(err)
		}
		if r := reasonOf(loser.Commit(ctx)); r != txn.ReasonLocked {
			t.Errorf("reason %v, want locked", r)
		}
		if err := holder.Abort(); err != nil {
			t.Error(err)
		}
	})
	t.Run("version at validation", func(t *testing.T) {
		loser := begin(t, db)
		if _, err := loser.Get(tab, u64(1)); err != nil {
			t.Fatal(err)
		}
		put(t, db, tab, u64(1), "changed")
		if err := loser.Put(tab, u64(2), []byte("lost")); err != nil {
			t.Fatal(err)
		}
		if r := reasonOf(loser.Commit(ctx)); r != txn.ReasonVersion {
			t.Errorf("reason %v, want version", r)
		}
	})
	t.Run("version behind the lock", func(t *testing.T) {
		loser := begin(t, db)
		if _, err := loser.Get(tab, u64(1)); err != nil {
			t.Fatal(err)
		}
		put(t, db, tab, u64(1), "changed again")
		_, err := loser.GetForUpdate(tab, u64(1))
		if r := reasonOf(err); r != txn.ReasonVersion {
			t.Errorf("reason %v, want version", r)
		}
		if err := loser.Abort(); err != nil {
			t.Error(err)
		}
	})
	t.Run("locked by a reader's writer", func(t *testing.T) {
		holder, loser := begin(t, db), begin(t, db)
		if _, err := loser.Get(tab, u64(1)); err != nil {
			t.Fatal(err)
		}
		if err := loser.Put(tab, u64(2), []byte("lost")); err != nil {
			t.Fatal(err)
		}
		if _, err := holder.GetForUpdate(tab, u64(1)); err != nil {
			t.Fatal(err)
		}
		if r := reasonOf(loser.Commit(ctx)); r != txn.ReasonLocked {
			t.Errorf("reason %v, want locked", r)
		}
		if err := holder.Abort(); err != nil {
			t.Error(err)
		}
	})
	t.Run("deleted", func(t *testing.T) {
		loser := begin(t, db)
		if _, err := loser.Get(tab, u64(1)); err != nil {
			t.Fatal(err)
		}
		update(t, db, func(tx *txn.Tx) error { return tx.Delete(tab, u64(1)) })
		if err := loser.Put(tab, u64(1), []byte("lost")); err != nil {
			t.Fatal(err)
		}
		if r := reasonOf(loser.Commit(ctx)); r != txn.ReasonVersion {
			t.Errorf("reason %v, want version", r)
		}
	})
	t.Run("insert", func(t *testing.T) {
		loser := begin(t, db)
		if _, err := loser.Get(tab, u64(1)); !errors.Is(err, txn.ErrNotFound) {
			t.Fatal(err)
		}
		put(t, db, tab, u64(1), "inserted")
		if err := loser.Put(tab, u64(2), []byte("lost")); err != nil {
			t.Fatal(err)
		}
		if r := reasonOf(loser.Commit(ctx)); r != txn.ReasonInsert {
			t.Errorf("reason %v, want insert", r)
		}
	})
	if got := read(t, db, tab, u64(2)); got != "two" {
		t.Errorf("a loser has written %q", got)
	}
	w.sound(db, map[string]int{"ledger": 2})
}

// Begin may be used inside Update, as a transaction of its own.
func TestBeginInsideUpdate(t *testing.T) {
	db := newDB(t)
	ctx := context.Background()
	tab := newTable(t, db, "t", 8, 16, 64)
	mine := errors.New("mine")
	err := db.Update(ctx, func(tx *txn.Tx) error {
		own := begin(t, db)
		if err := own.Put(tab, u64(1), []byte("kept")); err != nil {
			return err
		}
		if err := own.Commit(ctx); err != nil {
			return err
		}
		return mine
	})
	if err != mine {
		t.Errorf("got %v", err)
	}
	if got := read(t, db, tab, u64(1)); got != "kept" {
		t.Errorf("got %q, want %q", got, "kept")
	}
}

// Transactions begun by hand by many goroutines wait for sessions and get them.
func TestMoreBeginsThanSessions(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db := w.open(func(o *txn.Options) { o.Sessions = 2 })
	ctx := context.Background()
	tab := newTable(t, db, "t", 8, 16, 64)
	put(t, db, tab, u64(1), string(u64(0)))
	var wg sync.WaitGroup
	const workers, each = 16, 20
	for range workers {
		wg.Go(func() {
			for done := 0; done < each; {
				tx, err := db.Begin(ctx)
				if err != nil {
					t.Errorf("begin: %v", err)
					return
				}
				v, err := tx.GetForUpdate(tab, u64(1))
				if err == nil {
					err = tx.Put(tab, u64(1), increment(v))
				}
				if err == nil {
					err = tx.Commit(ctx)
				} else if e := tx.Abort(); e != nil {
					t.Errorf("abort: %v", e)
				}
				switch {
				case err == nil:
					done++
				case !errors.Is(err, txn.ErrConflict):
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := read(t, db, tab, u64(1)); got != string(u64(workers*each)) {
		t.Errorf("the counter is %x, want %d", got, workers*each)
	}
	w.sound(db, map[string]int{"t": 1})
}

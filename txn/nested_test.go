package txn_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"fjord/txn"
)

// Everything that would run a transaction inside a running one of the same
// goroutine is refused at once, and the outer one goes on.
func TestNestedTransactions(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db := w.open()
	ctx := context.Background()
	tab := newTable(t, db, "t", 8, 16, 64)
	nothing := func(*txn.Tx) error { t.Error("the inner function ran"); return nil }
	inner := map[string]func() error{
		"Update": func() error { return db.Update(ctx, nothing) },
		"View":   func() error { return db.View(ctx, nothing) },
		"CreateTable": func() error {
			_, err := db.CreateTable(ctx, txn.Schema{Name: "n", KeySize: 1, Capacity: 1})
			return err
		},
		"Table":     func() error { _, err := db.Table(ctx, "t"); return err },
		"Tables":    func() error { _, err := db.Tables(ctx); return err },
		"DropTable": func() error { return db.DropTable(ctx, "t") },
	}
	for outer, run := range map[string]func(context.Context, func(*txn.Tx) error) error{"Update": db.Update, "View": db.View} {
		for what, fn := range inner {
			t.Run(name(what, "in", outer), func(t *testing.T) {
				err := run(ctx, func(tx *txn.Tx) error {
					wantErr(t, fn(), txn.ErrNested)
					_, err := tx.Get(tab, u64(1))
					if !errors.Is(err, txn.ErrNotFound) {
						t.Errorf("the outer transaction after it: %v", err)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	t.Run("passed on", func(t *testing.T) {
		err := db.Update(ctx, func(*txn.Tx) error { return db.View(ctx, nothing) })
		wantErr(t, err, txn.ErrNested, "outer")
	})
	if all, err := db.Tables(ctx); err != nil || len(all) != 1 {
		t.Errorf("tables: %v, %v; want the one", all, err)
	}
	w.sound(db, map[string]int{"t": 0})
}

// Another goroutine may run its own transactions while the function waits for it,
// and so may the same one on another DB.
func TestTransactionsBesideOne(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db, other := w.open(), w.open()
	tab, tab2 := newTable(t, db, "t", 8, 16, 64), newTable(t, other, "t", 8, 16, 64)
	update(t, db, func(tx *txn.Tx) error {
		done := make(chan error)
		go func() {
			done <- db.Update(context.Background(), func(tx *txn.Tx) error { return tx.Put(tab, u64(1), []byte("goroutine")) })
		}()
		if err := <-done; err != nil {
			return err
		}
		put(t, other, tab2, u64(2), "other DB")
		return tx.Put(tab, u64(3), []byte("outer"))
	})
	for k, want := range map[int]string{1: "goroutine", 2: "other DB", 3: "outer"} {
		if got := read(t, db, tab, u64(k)); got != want {
			t.Errorf("key %d is %q, want %q", k, got, want)
		}
	}
}

// Nesting is told apart from company also when very many goroutines share few
// sessions, come and go.
func TestNestedUnderStress(t *testing.T) {
	goroutines, rounds := 200, 60
	if raceEnabled {
		goroutines, rounds = 100, 10
	}
	w := newWorld(t, shape(3, 3))
	db := w.open() // 8 sessions
	tab := newTable(t, db, "t", 8, 16, 1000)
	ctx := context.Background()
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for r := range rounds {
				errs := make(chan error, 2)
				// A generation of goroutines that end: their identities are used again.
				go func() {
					errs <- db.Update(ctx, func(tx *txn.Tx) error {
						if err := db.View(ctx, func(*txn.Tx) error { return nil }); !errors.Is(err, txn.ErrNested) {
							return fmt.Errorf("goroutine %d, round %d: nested View: %v", g, r, err)
						}
						return tx.Put(tab, u64(g), u64(r))
					})
				}()
				errs <- db.View(ctx, func(tx *txn.Tx) error {
					_, err := tx.Get(tab, u64(g))
					if errors.Is(err, txn.ErrNotFound) {
						err = nil
					}
					return err
				})
				for range 2 {
					if err := <-errs; err != nil && !errors.Is(err, txn.ErrConflict) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	w.sound(db, map[string]int{"t": goroutines})
}

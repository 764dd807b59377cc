package txn_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"fjord/txn"
)

// Whatever way a function is left, its locks are freed, nothing of it is done,
// and its session serves the next.

// works says what a function has done before it is left.
func works(tab *txn.Table) map[string]func(tx *txn.Tx) error {
	return map[string]func(tx *txn.Tx) error{
		"at once":            func(*txn.Tx) error { return nil },
		"after GetForUpdate": func(tx *txn.Tx) error { _, err := tx.GetForUpdate(tab, u64(1)); return err },
		"after Put":          func(tx *txn.Tx) error { return tx.Put(tab, u64(1), []byte("x")) },
		"after a locked Put": func(tx *txn.Tx) error {
			return errors.Join(tx.Fetch(txn.ForUpdate(tab, u64(1))), tx.Put(tab, u64(1), []byte("x")))
		},
		"after Insert": func(tx *txn.Tx) error { return tx.Insert(tab, u64(2), []byte("x")) },
		"after Delete": func(tx *txn.Tx) error { return tx.Delete(tab, u64(1)) },
	}
}

func TestPanic(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db := w.open(func(o *txn.Options) { o.Sessions = 1 })
	ctx := context.Background()
	tab := newTable(t, db, "t", 8, 16, 64)
	put(t, db, tab, u64(1), "one")
	type mine struct{ n int }
	for what, work := range works(tab) {
		t.Run(name(what), func(t *testing.T) {
			v := &mine{7}
			func() {
				defer func() {
					if r := recover(); r != any(v) {
						t.Errorf("recovered %v, want the value that the function panicked with", r)
					}
				}()
				_ = db.Update(ctx, func(tx *txn.Tx) error {
					if err := work(tx); err != nil {
						t.Error(err)
					}
					panic(v)
				})
				t.Error("Update returned after a panic")
			}()
			if got := read(t, db, tab, u64(1)); got != "one" { // needs the only session
				t.Errorf("the key is %q", got)
			}
			put(t, db, tab, u64(1), "one") // needs the lock
			w.sound(db, map[string]int{"t": 1})
		})
	}
	t.Run("in View", func(t *testing.T) {
		func() {
			defer func() { _ = recover() }()
			_ = db.View(ctx, func(tx *txn.Tx) error { panic("x") })
		}()
		put(t, db, tab, u64(1), "one")
	})
	t.Run("of the runtime, with its own stack", func(t *testing.T) {
		defer func() {
			r := recover()
			err, ok := r.(runtime.Error)
			if !ok || !strings.Contains(err.Error(), "index out of range") {
				t.Errorf("recovered %v", r)
			}
		}()
		_ = db.Update(ctx, func(tx *txn.Tx) error {
			v, err := tx.Get(tab, u64(1))
			_ = v[len(v)]
			return err
		})
	})
}

func TestGoexit(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db := w.open(func(o *txn.Options) { o.Sessions = 1 })
	tab := newTable(t, db, "t", 8, 16, 64)
	put(t, db, tab, u64(1), "one")
	for what, work := range works(tab) {
		t.Run(name(what), func(t *testing.T) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = db.Update(context.Background(), func(tx *txn.Tx) error {
					if err := work(tx); err != nil {
						t.Error(err)
					}
					runtime.Goexit()
					return nil
				})
				t.Error("Update returned after Goexit")
			}()
			<-done
			put(t, db, tab, u64(1), "one")
			w.sound(db, map[string]int{"t": 1})
		})
	}
}

// A conflict that a function hides, by returning nil or an error of its own, is
// found nonetheless: the function runs again.
func TestHiddenConflict(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db, other := w.open(), w.open()
	ctx := context.Background()
	tab, tab2 := newTable(t, db, "t", 8, 16, 64), newTable(t, other, "t", 8, 16, 64)
	put(t, db, tab, u64(1), "one")
	put(t, db, tab, u64(2), "two")
	holder := func(t *testing.T) *txn.Tx {
		tx := begin(t, other)
		if _, err := tx.GetForUpdate(tab2, u64(1)); err != nil {
			t.Fatal(err)
		}
		return tx
	}
	for what, hide := range map[string]func(err error) error{
		"nil":          func(error) error { return nil },
		"another":      func(err error) error { return errors.New("something else") },
		"in another":   func(err error) error { return fmt.Errorf("could not: %w", err) },
		"not at all":   func(err error) error { return err },
		"behind a nil": func(err error) error { return errors.Join(nil, err) },
	} {
		t.Run(name(what), func(t *testing.T) {
			h := holder(t)
			runs := 0
			err := db.Update(ctx, func(tx *txn.Tx) error {
				runs++
				if runs == 1 {
					if err := tx.Put(tab, u64(2), []byte("of the first run")); err != nil {
						return err
					}
				} else if c := tx.LastConflict(); c == nil || c.Reason != txn.ReasonLocked || tx.Attempt() != runs {
					t.Errorf("run %d: attempt %d, last conflict %v; want a locked one", runs, tx.Attempt(), c)
				}
				_, err := tx.GetForUpdate(tab, u64(1))
				if err != nil {
					if e := h.Abort(); e != nil {
						t.Error(e)
					}
					return hide(err)
				}
				return nil
			})
			if err != nil || runs != 2 {
				t.Errorf("after %d runs: %v; want 2 and success", runs, err)
			}
			if got := read(t, db, tab, u64(2)); got != "two" {
				t.Errorf("the first run has written %q", got)
			}
		})
	}
	w.sound(db, map[string]int{"t": 2})
}

// A function's own error counts only if what it has seen was of one moment: else
// it rests on something that never was, and the function runs again.
func TestErrorThatRestsOnStaleReads(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db, other := w.open(), w.open()
	tab, tab2 := newTable(t, db, "t", 8, 16, 64), newTable(t, other, "t", 8, 16, 64)
	put(t, db, tab, u64(1), "x")
	put(t, db, tab, u64(2), "x")
	runs := 0
	differ := errors.New("the two differ")
	err := db.Update(context.Background(), func(tx *txn.Tx) error {
		runs++
		a, err := tx.Get(tab, u64(1))
		if err != nil {
			return err
		}
		if runs == 1 { // both change together
			update(t, other, func(tx *txn.Tx) error {
				return errors.Join(tx.Put(tab2, u64(1), []byte("y")), tx.Put(tab2, u64(2), []byte("y")))
			})
		}
		b, err := tx.Get(tab, u64(2))
		if err != nil {
			return err
		}
		if string(a) != string(b) {
			return differ
		}
		return nil
	})
	if err != nil || runs != 2 {
		t.Errorf("after %d runs: %v; want 2 and success", runs, err)
	}
}

// The conflict of the last run comes out when the runs are used up, with how many
// they were.
func TestRetriesUsedUp(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db, other := w.open(func(o *txn.Options) { o.MaxRetries = 4 }), w.open()
	tab, tab2 := newTable(t, db, "t", 8, 16, 64), newTable(t, other, "t", 8, 16, 64)
	put(t, db, tab, u64(1), "one")
	h := begin(t, other)
	if _, err := h.GetForUpdate(tab2, u64(1)); err != nil {
		t.Fatal(err)
	}
	runs := 0
	err := db.Update(context.Background(), func(tx *txn.Tx) error {
		runs++
		return tx.Put(tab, u64(1), nil)
	})
	wantErr(t, err, txn.ErrConflict, "5 attempts", "locked", `"t"`)
	if runs != 5 {
		t.Errorf("%d runs, want the first and 4 more", runs)
	}
	var c *txn.ConflictError
	if !errors.As(err, &c) || c.Reason != txn.ReasonLocked || string(c.Key) != string(u64(1)) {
		t.Errorf("conflict is %+v", c)
	}
	// It is the caller's to keep.
	if err := h.Abort(); err != nil {
		t.Error(err)
	}
	for i := range 20 {
		put(t, db, tab, u64(100+i), "")
	}
	if string(c.Key) != string(u64(1)) || c.Table != "t" {
		t.Errorf("the conflict has changed to %+v", c)
	}
}

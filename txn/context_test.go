package txn_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"fjord/txn"
	"fjord/verbs"
)

// Before the commit point an ended context undoes the transaction and comes out
// as its own error; what is committed is reported as such whatever the context.

func TestContextEndedBefore(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db := w.open()
	newTable(t, db, "t", 8, 16, 64)
	for want, ctx := range map[error]context.Context{context.Canceled: canceled(), context.DeadlineExceeded: expired(t)} {
		t.Run(want.Error(), func(t *testing.T) {
			nothing := func(*txn.Tx) error { t.Error("the function ran"); return nil }
			wantErr(t, db.Update(ctx, nothing), want)
			wantErr(t, db.View(ctx, nothing), want)
			_, err := db.Begin(ctx)
			wantErr(t, err, want)
			_, err = db.CreateTable(ctx, txn.Schema{Name: "n", KeySize: 1, Capacity: 1})
			wantErr(t, err, want)
			_, err = db.Table(ctx, "t")
			wantErr(t, err, want)
			_, err = db.Tables(ctx)
			wantErr(t, err, want)
			wantErr(t, db.DropTable(ctx, "t"), want)
			_, err = db.Check(ctx)
			wantErr(t, err, want)
			_, err = txn.Open(ctx, txn.Options{Cluster: w.cluster})
			wantErr(t, err, want)
		})
	}
	w.sound(db, map[string]int{"t": 0})
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func expired(t *testing.T) context.Context {
	ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Hour))
	t.Cleanup(cancel)
	return ctx
}

func TestContextEndedWithin(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db := w.open()
	tab := newTable(t, db, "t", 8, 16, 64)
	put(t, db, tab, u64(1), "one")
	for what, fn := range map[string]func(tx *txn.Tx, cancel func()) error{
		"in the function": func(tx *txn.Tx, cancel func()) error {
			cancel()
			return tx.Put(tab, u64(1), []byte("x"))
		},
		"with a lock held": func(tx *txn.Tx, cancel func()) error {
			_, err := tx.GetForUpdate(tab, u64(1))
			cancel()
			return errors.Join(err, tx.Put(tab, u64(1), []byte("x")))
		},
		"with an insert and a read": func(tx *txn.Tx, cancel func()) error {
			_, err := tx.Get(tab, u64(1))
			cancel()
			return errors.Join(err, tx.Insert(tab, u64(2), []byte("x")))
		},
		"returned": func(tx *txn.Tx, cancel func()) error {
			cancel()
			return tx.Put(tab, u64(1), []byte("x"))
		},
	} {
		t.Run(name(what), func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			wantErr(t, db.Update(ctx, func(tx *txn.Tx) error { return fn(tx, cancel) }), context.Canceled)
			for k, want := range map[int]string{1: "one", 2: absent} {
				if got := read(t, db, tab, u64(k)); got != want {
					t.Errorf("key %d is %q, want %q", k, got, want)
				}
			}
			w.sound(db, map[string]int{"t": 1})
		})
	}
	t.Run("by hand", func(t *testing.T) {
		tx := begin(t, db)
		if err := tx.Put(tab, u64(1), []byte("x")); err != nil {
			t.Fatal(err)
		}
		wantErr(t, tx.Commit(canceled()), context.Canceled)
		wantErr(t, tx.Commit(context.Background()), txn.ErrClosed)
		if got := read(t, db, tab, u64(1)); got != "one" {
			t.Errorf("the key is %q", got)
		}
	})
}

// The context of Begin is only for its waiting and for the work; that of Commit
// counts for the commit.
func TestContextOfBeginAndCommit(t *testing.T) {
	db := newDB(t)
	tab := newTable(t, db, "t", 8, 16, 64)
	ctx, cancel := context.WithCancel(context.Background())
	tx, err := db.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Put(tab, u64(1), []byte("x")); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := tx.Commit(context.Background()); err != nil {
		t.Errorf("commit with a living context: %v", err)
	}
	if got := read(t, db, tab, u64(1)); got != "x" {
		t.Errorf("the key is %q", got)
	}
}

// From the moment at which the new images go out, the context has no say.
func TestContextEndedAtCommit(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db := w.open()
	tab := newTable(t, db, "t", 8, 16, 64)
	for k := range 3 {
		put(t, db, tab, u64(k), "old")
	}
	// hasWrite tells that a doorbell carries an image or a log entry.
	hasWrite := func(d *doorbell) bool {
		for i := range d.wrs {
			if d.wrs[i].Opcode == verbs.OpWrite && d.wrs[i].Flags&verbs.FlagInline == 0 {
				return true
			}
		}
		return false
	}
	for what, after := range map[string]bool{"before they are executed": false, "after they were executed": true} {
		t.Run(name(what), func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			var once sync.Once
			w.script.set(func(d *doorbell) (int, error) {
				if !hasWrite(d) {
					return d.pass()
				}
				if !after {
					once.Do(cancel)
				}
				n, err := d.pass()
				once.Do(cancel)
				return n, err
			})
			defer w.script.set(nil)
			err := db.Update(ctx, func(tx *txn.Tx) error {
				return errors.Join(tx.Put(tab, u64(1), []byte(what)[:10]), tx.Put(tab, u64(2), []byte(what)[:10]))
			})
			w.script.set(nil)
			if ctx.Err() == nil {
				t.Fatal("the context was never cancelled")
			}
			if err != nil {
				t.Errorf("what is committed is reported as %v", err)
			}
			for k := 1; k < 3; k++ {
				if got := read(t, db, tab, u64(k)); got != what[:10] {
					t.Errorf("key %d is %q, want %q", k, got, what[:10])
				}
			}
			w.sound(db, map[string]int{"t": 3})
		})
	}
}

// Waiting for a lock or between runs ends with the context. The error tells both:
// the context's end, and what the last run failed of.
func TestContextEndsWhileRetrying(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db, other := w.open(func(o *txn.Options) { o.MaxRetries = 1 << 30 }), w.open()
	tab, tab2 := newTable(t, db, "t", 8, 16, 64), newTable(t, other, "t", 8, 16, 64)
	put(t, db, tab, u64(1), "one")
	h := begin(t, other)
	if _, err := h.GetForUpdate(tab2, u64(1)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	begun := time.Now()
	err := db.Update(ctx, func(tx *txn.Tx) error { return tx.Put(tab, u64(1), []byte("x")) })
	wantErr(t, err, context.DeadlineExceeded)
	wantErr(t, err, txn.ErrConflict, "locked")
	if d := time.Since(begun); d > 5*time.Second {
		t.Errorf("it took %v to notice", d)
	}
	if err := h.Abort(); err != nil {
		t.Error(err)
	}
	w.sound(db, map[string]int{"t": 1})
}

// Waiting for a session ends with the context.
func TestContextEndsWhileWaitingForASession(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db := w.open(func(o *txn.Options) { o.Sessions = 1 })
	tab := newTable(t, db, "t", 8, 16, 64)
	holder := begin(t, db)
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			wantErr(t, db.Update(ctx, func(*txn.Tx) error { t.Error("the function ran"); return nil }), context.DeadlineExceeded)
			_, err := db.Begin(ctx)
			wantErr(t, err, context.DeadlineExceeded)
		})
	}
	wg.Wait()
	if err := holder.Abort(); err != nil {
		t.Error(err)
	}
	put(t, db, tab, u64(1), "x") // the session is there again
	w.sound(db, map[string]int{"t": 1})
}

package txn_test

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fjord/coord"
	"fjord/txn"
)

// Every method of a closed DB says ErrClosed, or does nothing.
func TestUseAfterClose(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	for what, db := range map[string]*txn.DB{"on a cluster": w.open(), "embedded": embedded(t)} {
		t.Run(name(what), func(t *testing.T) {
			ctx := context.Background()
			tab := newTable(t, db, "t", 8, 16, 64)
			put(t, db, tab, u64(1), "one")
			tx := begin(t, db)
			if err := tx.Abort(); err != nil {
				t.Fatal(err)
			}
			before := db.Stats()
			if err := db.Close(); err != nil {
				t.Fatalf("close: %v", err)
			}
			nothing := func(*txn.Tx) error { t.Error("the function ran"); return nil }
			wantErr(t, db.Update(ctx, nothing), txn.ErrClosed)
			wantErr(t, db.View(ctx, nothing), txn.ErrClosed)
			_, err := db.Begin(ctx)
			wantErr(t, err, txn.ErrClosed)
			_, err = db.CreateTable(ctx, txn.Schema{Name: "n", KeySize: 1, Capacity: 1})
			wantErr(t, err, txn.ErrClosed)
			_, err = db.Table(ctx, "t")
			wantErr(t, err, txn.ErrClosed)
			_, err = db.Tables(ctx)
			wantErr(t, err, txn.ErrClosed)
			wantErr(t, db.DropTable(ctx, "t"), txn.ErrClosed)
			_, err = db.Check(ctx)
			wantErr(t, err, txn.ErrClosed)
			_, err = db.Resolve(ctx, tx.ID())
			wantErr(t, err, txn.ErrClosed)
			_, err = tx.Get(tab, u64(1))
			wantErr(t, err, txn.ErrClosed)
			if err := tx.Abort(); err != nil {
				t.Errorf("Abort of an ended transaction: %v", err)
			}
			if after := db.Stats(); after.Committed != before.Committed || after.Cancelled != before.Cancelled {
				t.Errorf("Stats after Close: %+v, before: %+v; want no less", after, before)
			}
			if db.Runtime() == nil || tab.Name() != "t" {
				t.Error("Runtime or Name is gone")
			}
			for range 3 {
				if err := db.Close(); err != nil {
					t.Errorf("Close again: %v", err)
				}
			}
		})
	}
}

// A cluster that is closed in the middle of DropTable is told as such.
func TestClusterClosedInDropTable(t *testing.T) {
	w := newWorld(t, shape(2, 2))
	rec := &closer{cluster: w.cluster}
	ctx := context.Background()
	db, err := txn.Open(ctx, txn.Options{Cluster: w.cluster, Sessions: 8, AddressCache: 64, Recorder: rec})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	newTable(t, db, "t", 8, 16, 64)
	rec.left = 2 // the mark, and the look at it: the epoch comes next
	wantErr(t, db.DropTable(ctx, "t"), txn.ErrClosed, `"t"`)
	if rec.left != 0 {
		t.Errorf("the cluster was not closed: %d attempts too few", rec.left)
	}
}

// closer closes a cluster behind so many attempts.
type closer struct {
	cluster *coord.Cluster
	left    int
}

func (c *closer) Record(*txn.Attempt) {
	if c.left--; c.left == 0 {
		_ = c.cluster.Close()
	}
}

// embedded opens a DB that owns its cluster.
func embedded(t testing.TB) *txn.DB {
	t.Helper()
	db, err := txn.Open(context.Background(), txn.Options{NodeMemory: 16 << 20, Sessions: 8, AddressCache: 64})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// Close waits for transactions that are running.
func TestCloseWaits(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db, other := w.open(), w.open()
	tab := newTable(t, db, "t", 8, 16, 64)
	tab2 := newTable(t, other, "t", 8, 16, 64)
	started, done := make(chan struct{}), make(chan error)
	go func() {
		done <- db.Update(context.Background(), func(tx *txn.Tx) error {
			if err := tx.Insert(tab, u64(1), []byte("x")); err != nil {
				return err
			}
			close(started)
			time.Sleep(30 * time.Millisecond)
			return nil
		})
	}()
	<-started
	if err := db.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("the transaction that ran: %v", err)
		}
	case <-time.After(time.Second):
		t.Error("Close returned before the transaction ended")
	}
	if got := read(t, other, tab2, u64(1)); got != "x" {
		t.Errorf("the other coordinator reads %q", got)
	}
	w.sound(other, map[string]int{"t": 1})
}

// A transaction that does not end in time does not keep Close for ever. Close
// says so; the transaction fails when it goes on, whatever it does, and nothing
// of the process is torn down under it.
func TestCloseWithEndlessTransaction(t *testing.T) {
	t.Parallel() // it sleeps most of the time
	w := newWorld(t, shape(3, 3))
	db, err := txn.Open(context.Background(), txn.Options{Cluster: w.cluster, Sessions: 8, AddressCache: 64})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	tab := newTable(t, db, "t", 8, 16, 64)
	put(t, db, tab, u64(1), "one")
	put(t, db, tab, u64(2), "two")
	begun := begin(t, db)
	v, err := begun.GetForUpdate(tab, u64(1))
	if err != nil {
		t.Fatal(err)
	}
	closed, done := make(chan struct{}), make(chan error)
	inside := make(chan struct{})
	go func() {
		done <- db.Update(ctx, func(tx *txn.Tx) error {
			v, err := tx.Get(tab, u64(2))
			if err != nil {
				return err
			}
			close(inside)
			<-closed
			if string(v) != "two" {
				t.Errorf("what was read before is now %q", v)
			}
			return tx.Put(tab, u64(2), []byte("x"))
		})
	}()
	<-inside
	before := time.Now()
	if err := db.Close(); err == nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close with running transactions: %v, want it to say that they run", err)
	}
	if d := time.Since(before); d > 15*time.Second {
		t.Errorf("Close took %v", d)
	}
	close(closed)
	if err := <-done; err == nil {
		t.Error("an Update over a closed DB succeeded")
	}
	if string(v) != "one" {
		t.Errorf("what was read before is now %q", v)
	}
	if _, err := begun.Get(tab, u64(2)); err == nil {
		t.Error("a Get over a closed DB succeeded")
	}
	if err := begun.Put(tab, u64(1), []byte("x")); err == nil {
		if err := begun.Commit(ctx); err == nil {
			t.Error("a commit over a closed DB succeeded")
		}
	} else {
		_ = begun.Abort()
	}
}

// Close inside the function of an Update cannot wait for it, and says so.
func TestCloseInsideUpdate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shape(3, 3))
	db, err := txn.Open(context.Background(), txn.Options{Cluster: w.cluster, Sessions: 8, AddressCache: 64})
	if err != nil {
		t.Fatal(err)
	}
	tab := newTable(t, db, "t", 8, 16, 64)
	err = db.Update(context.Background(), func(tx *txn.Tx) error {
		if err := tx.Put(tab, u64(1), []byte("x")); err != nil {
			return err
		}
		if err := db.Close(); err == nil {
			t.Error("Close inside Update succeeded")
		}
		return nil
	})
	if err == nil {
		t.Error("the Update that closed its DB committed")
	}
}

// Close under load: every transaction is committed or refused; none crashes,
// hangs, or is half done.
func TestCloseUnderLoad(t *testing.T) {
	rounds := 30
	if raceEnabled {
		rounds = 8
	}
	w := newWorld(t, shape(3, 2))
	keeper := w.open()
	kept := newTable(t, keeper, "t", 8, 16, 200)
	ctx := context.Background()
	want := 0
	for round := range rounds {
		db, err := txn.Open(ctx, txn.Options{Cluster: w.cluster, Sessions: 6, AddressCache: 64})
		if err != nil {
			t.Fatal(err)
		}
		tab, err := db.Table(ctx, "t")
		if err != nil {
			t.Fatal(err)
		}
		var committed atomic.Int64
		var wg sync.WaitGroup
		for g := range 20 { // more than sessions: some wait, and some make new ones
			wg.Go(func() {
				for {
					err := db.Update(ctx, func(tx *txn.Tx) error {
						v, err := tx.GetForUpdate(tab, u64(g))
						if errors.Is(err, txn.ErrNotFound) {
							return tx.Insert(tab, u64(g), u64(1))
						}
						if err != nil {
							return err
						}
						return tx.Put(tab, u64(g), increment(v))
					})
					switch {
					case err == nil:
						committed.Add(1)
					case errors.Is(err, txn.ErrClosed):
						return
					default:
						t.Errorf("round %d: %v", round, err)
						return
					}
				}
			})
		}
		time.Sleep(time.Duration(round%5) * time.Millisecond)
		if err := db.Close(); err != nil {
			t.Errorf("round %d: close: %v", round, err)
		}
		wg.Wait()
		want += int(committed.Load())
		if n := db.Stats().Committed; n < uint64(committed.Load()) {
			t.Errorf("round %d: Stats count %d commits, callers %d", round, n, committed.Load())
		}
	}
	sum := 0
	for g := range 20 {
		if v := read(t, keeper, kept, u64(g)); v != absent {
			sum += int(binary.BigEndian.Uint64([]byte(v)))
		}
	}
	if sum != want {
		t.Errorf("the counters sum up to %d, %d increments were reported committed", sum, want)
	}
	w.sound(keeper, nil)
}

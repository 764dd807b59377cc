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

// bounded fails the test if fn takes longer than a failure may.
func bounded(t *testing.T, what string, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); fn() }()
	select {
	case <-done:
	case <-time.After(8 * time.Second):
		t.Fatalf("%s hangs", what)
	}
}

// With a memory node gone, transactions fail with ErrUnavailable, or with
// ErrCommitUnknown if it went in the middle of their commit. Nothing hangs or
// panics, however many come, and Close gets through.
func TestMemoryNodeGone(t *testing.T) {
	for _, c := range []struct{ nodes, copies, gone int }{{1, 1, 0}, {3, 3, 0}, {3, 3, 2}, {3, 1, 1}, {4, 2, 3}} {
		t.Run(name(c.nodes, "nodes", c.copies, "copies", c.gone, "gone"), func(t *testing.T) {
			w := newWorld(t, shape(c.nodes, c.copies))
			ctx := context.Background()
			db, err := txn.Open(ctx, txn.Options{Cluster: w.cluster, AddressCache: 8, MaxRetries: 20})
			if err != nil {
				t.Fatal(err)
			}
			tab := newTable(t, db, "t", 8, 16, 200)
			for k := range 100 {
				put(t, db, tab, u64(k), "x")
			}
			held := begin(t, db) // it has locks there
			for k := range 20 {
				if _, err := held.GetForUpdate(tab, u64(k)); err != nil {
					t.Fatal(err)
				}
			}
			var all []*txn.Tx
			for range 7 { // every session there may be has been made
				all = append(all, begin(t, db))
			}
			for _, tx := range all {
				if err := tx.Abort(); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.cluster.Node(c.gone).Close(); err != nil {
				t.Fatal(err)
			}
			bounded(t, "an endless stream of transactions", func() {
				for k := 20; k < 100; k++ {
					for what, err := range map[string]error{
						"Put": db.Update(ctx, func(tx *txn.Tx) error { return tx.Put(tab, u64(k), []byte("y")) }),
						"Get and Put": db.Update(ctx, func(tx *txn.Tx) error {
							if _, err := tx.Get(tab, u64((k+1)%100)); err != nil {
								return err
							}
							return tx.Put(tab, u64(k), []byte("y"))
						}),
						"View":   db.View(ctx, func(tx *txn.Tx) error { _, err := tx.Get(tab, u64(k)); return err }),
						"Insert": db.Update(ctx, func(tx *txn.Tx) error { return tx.Insert(tab, u64(1000+k), nil) }),
					} {
						// What a transaction of unknown outcome has locked stays so.
						if err != nil && !errors.Is(err, txn.ErrUnavailable) && !errors.Is(err, txn.ErrCommitUnknown) && !errors.Is(err, txn.ErrConflict) {
							t.Errorf("%s of key %d: %v", what, k, err)
						}
						if err == nil && c.copies == c.nodes && what != "View" {
							t.Errorf("%s of key %d committed without one of the copies", what, k)
						}
					}
				}
				if _, err := db.CreateTable(ctx, txn.Schema{Name: "n", KeySize: 1, Capacity: 1}); err == nil {
					t.Error("a table was made without one of the nodes")
				}
			})
			bounded(t, "the end of a transaction that had locks there", func() {
				for k := range 20 {
					if err := held.Put(tab, u64(k), []byte("y")); err != nil {
						t.Error(err)
					}
				}
				err := held.Commit(ctx)
				if !errors.Is(err, txn.ErrUnavailable) && !errors.Is(err, txn.ErrCommitUnknown) {
					t.Errorf("commit: %v", err)
				}
			})
			bounded(t, "Close", func() { _ = db.Close() }) // may say that locks could not be released
		})
	}
}

// A node that goes in the middle of a commit leaves its outcome unknown. The
// error names the transaction; Resolve answers with Unknown as long as the node
// is away, and says so.
func TestMemoryNodeGoesInMidCommit(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	ctx := context.Background()
	rec := &recorder{}
	db, err := txn.Open(ctx, txn.Options{Cluster: w.cluster, AddressCache: 8, Recorder: rec})
	if err != nil {
		t.Fatal(err)
	}
	tab := newTable(t, db, "t", 8, 16, 10)
	put(t, db, tab, u64(1), "old")
	rec.take()
	var once sync.Once
	w.script.set(func(d *doorbell) (int, error) {
		for i := range d.wrs {
			if d.wrs[i].Opcode == verbs.OpWrite && d.wrs[i].Flags&verbs.FlagInline == 0 {
				once.Do(func() { _ = w.cluster.Node(1).Close() })
			}
		}
		return d.pass()
	})
	var id txn.ID
	err = db.Update(ctx, func(tx *txn.Tx) error {
		id = tx.ID()
		return tx.Put(tab, u64(1), []byte("new"))
	})
	w.script.set(nil)
	wantErr(t, err, txn.ErrCommitUnknown, id.String(), "Resolve")
	var u *txn.UnknownError
	if !errors.As(err, &u) || u.ID != id || u.Cause == nil {
		t.Fatalf("error is %#v, want an *UnknownError of %v with its cause", err, id)
	}
	all := rec.take()
	if n := len(all); n != 1 || all[0].Outcome != txn.Unknown || all[0].Reason == "" || all[0].ID != id {
		t.Errorf("recorded %+v, want one unknown attempt %v", all, id)
	}
	if st := db.Stats(); st.Unknown != 1 {
		t.Errorf("Stats count %d unknown outcomes, want 1", st.Unknown)
	}
	for range 3 {
		bounded(t, "Resolve", func() {
			o, err := db.Resolve(ctx, id)
			if o != txn.Unknown {
				t.Errorf("Resolve says %v, want unknown", o)
			}
			wantErr(t, err, txn.ErrUnavailable)
		})
	}
	var wg sync.WaitGroup
	for range 4 { // several callers at once
		wg.Go(func() {
			o, err := db.Resolve(ctx, id)
			if o != txn.Unknown || !errors.Is(err, txn.ErrUnavailable) {
				t.Errorf("Resolve says %v, %v", o, err)
			}
		})
	}
	wg.Wait()
	_, err = db.Resolve(ctx, id+1)
	wantErr(t, err, txn.ErrNotFound, (id + 1).String())
	bounded(t, "Close", func() { _ = db.Close() })
	_, err = db.Resolve(ctx, id)
	wantErr(t, err, txn.ErrClosed)
}

// QPs that break without their node being gone are repaired: a transaction whose
// commit was cut goes on, in whatever place the cut was, and one that had not
// begun to commit runs again.
func TestBrokenQPAtEveryRequest(t *testing.T) {
	writes := map[string]func(tx *txn.Tx, tab *txn.Table) error{
		"Put": func(tx *txn.Tx, tab *txn.Table) error {
			return errors.Join(tx.Put(tab, u64(1), []byte("new")), tx.Put(tab, u64(2), []byte("new")))
		},
		"Get and Put": func(tx *txn.Tx, tab *txn.Table) error {
			if _, err := tx.Get(tab, u64(3)); err != nil {
				return err
			}
			if err := tx.Fetch(txn.ForUpdate(tab, u64(1))); err != nil {
				return err
			}
			return errors.Join(tx.Put(tab, u64(1), []byte("new")), tx.Put(tab, u64(2), []byte("new")))
		},
		"Insert": func(tx *txn.Tx, tab *txn.Table) error {
			for k := 10; k < 30; k++ { // with an overflow bucket
				if err := tx.Insert(tab, u64(k), []byte("new")); err != nil {
					return err
				}
			}
			return nil
		},
		"Delete": func(tx *txn.Tx, tab *txn.Table) error {
			return errors.Join(tx.Delete(tab, u64(1)), tx.Delete(tab, u64(2)))
		},
		"abort": func(tx *txn.Tx, tab *txn.Table) error {
			if err := errors.Join(tx.Fetch(txn.ForUpdate(tab, u64(1))), tx.Put(tab, u64(2), []byte("never"))); err != nil {
				return err
			}
			return errMine
		},
	}
	states := map[string]map[int]string{
		"Put": {1: "new", 2: "new"}, "Get and Put": {1: "new", 2: "new"}, "Insert": {1: "old", 10: "new", 29: "new"},
		"Delete": {1: absent, 2: absent}, "abort": {1: "old", 2: "old"},
	}
	for what, fn := range writes {
		for _, copies := range []int{1, 2} {
			t.Run(name(what, copies, "copies"), func(t *testing.T) {
				tried := 0
				// Cut every doorbell at every request, until there are no more doorbells.
				for bell := 1; ; bell++ {
					reached := false
					for told := 0; told < 200; told++ {
						size := 0
						for _, lost := range []int{0, 1, 1000} { // requests executed whose answer is lost
							w := newWorld(t, shape(copies, copies))
							db := w.open()
							tab := newTable(t, db, "t", 8, 16, 4)
							for k := 1; k <= 3; k++ {
								put(t, db, tab, u64(k), "old")
							}
							n := 0
							w.script.set(func(d *doorbell) (int, error) {
								if n++; n != bell {
									return d.pass()
								}
								reached, size = true, len(d.wrs)
								if told >= len(d.wrs) {
									return d.pass()
								}
								return d.cut(told, min(told+lost, len(d.wrs)))
							})
							err := db.Update(context.Background(), func(tx *txn.Tx) error { return fn(tx, tab) })
							w.script.set(nil)
							if err != nil && !(what == "abort" && err == errMine) {
								t.Fatalf("doorbell %d cut at request %d, %d more executed: %v", bell, told, lost, err)
							}
							for k, want := range states[what] {
								if got := read(t, db, tab, u64(k)); got != want {
									t.Fatalf("doorbell %d cut at request %d, %d more executed: key %d is %q, want %q", bell, told, lost, k, got, want)
								}
							}
							w.sound(db, nil)
							if t.Failed() {
								t.Fatalf("doorbell %d cut at request %d, %d more executed", bell, told, lost)
							}
							tried++
							if err := db.Close(); err != nil {
								t.Fatal(err)
							}
							_ = w.cluster.Close()
						}
						if told+1 >= size {
							break
						}
						if told > 2 && told < size-3 {
							told = size - 4 // the middle of a long list is all alike
						}
					}
					if !reached {
						break
					}
					if raceEnabled && bell > 1 {
						break
					}
				}
				t.Logf("%d cuts", tried)
			})
		}
	}
}

var errMine = errors.New("mine")

// An unlock that is lost with its QP is made good at once, since the session may
// not be used for long, and others wait for the lock.
func TestLostUnlock(t *testing.T) {
	for i, executed := range []int{0, 1, 0, 1} {
		see := device(i / 2)
		t.Run(name(see, executed, "executed"), func(t *testing.T) {
			w := newWorld(t, shape(2, 2))
			w.device = see
			// Where the failure is not known at once, the heart polls for it.
			db, other := w.open(func(o *txn.Options) { o.SuspectAfter = time.Second / 2 }), w.open()
			tab, tab2 := newTable(t, db, "t", 8, 16, 10), newTable(t, other, "t", 8, 16, 10)
			put(t, db, tab, u64(1), "old")
			put(t, other, tab2, u64(1), "old")
			cuts := 0
			w.script.set(func(d *doorbell) (int, error) {
				if d.wrs[0].Opcode == verbs.OpWrite && d.wrs[0].Flags&verbs.FlagInline != 0 {
					cuts++
					return d.cut(0, executed)
				}
				return d.pass()
			})
			put(t, db, tab, u64(1), "new")
			w.script.set(nil)
			if cuts == 0 {
				t.Fatal("no unlock was seen")
			}
			if see == deviceAsync { // until the next beat
				put(t, other, tab2, u64(1), "new")
			}
			tx := begin(t, other)
			v, err := tx.GetForUpdate(tab2, u64(1))
			if err != nil || string(v) != "new" {
				t.Errorf("another coordinator gets %q, %v", v, err)
			}
			if err := tx.Abort(); err != nil {
				t.Error(err)
			}
			w.sound(other, map[string]int{"t": 1})
		})
	}
}

// A session can be made again after failures once nodes answer: nothing of the
// failed tries stays behind.
func TestUnavailableAtOpen(t *testing.T) {
	w := newWorld(t, shape(2, 2))
	_ = w.cluster.Node(1).Close()
	ctx := context.Background()
	db, err := txn.Open(ctx, txn.Options{Cluster: w.cluster, AddressCache: 8})
	if err != nil { // refused at once is as good
		wantErr(t, err, txn.ErrUnavailable)
		return
	}
	bounded(t, "many first transactions", func() {
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				for range 20 {
					wantErr(t, db.View(ctx, func(*txn.Tx) error { return nil }), txn.ErrUnavailable, "memory node 1")
				}
			})
		}
		wg.Wait()
	})
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

package txn_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"fjord/txn"
	"fjord/verbs"
)

// carriesWrite tells that a doorbell carries an image, a log entry or a mark: no
// more than an unlock is inline.
func carriesWrite(d *doorbell) bool {
	for i := range d.wrs {
		if wr := &d.wrs[i]; wr.Opcode == verbs.OpWrite && wr.Flags&verbs.FlagInline == 0 && len(wr.SGL) > 0 && wr.SGL[0].Length > 0 {
			return true
		}
	}
	return false
}

// A commit whose QPs broke again after each repair has an unknown outcome. Its
// locks stay, its session is kept, and Resolve ends it once the way is free:
// committed, on all copies. It says so again when asked again.
func TestResolveCommits(t *testing.T) {
	for _, see := range []device{deviceAsIs, deviceAsync} {
		for _, lost := range []int{0, 1, 1000} { // requests executed whose answer is lost
			t.Run(name(see, lost, "executed"), func(t *testing.T) {
				w := newWorld(t, shape(3, 2))
				w.device = see
				db, other := w.open(), w.open()
				ctx := context.Background()
				tab, tab2 := newTable(t, db, "t", 8, 16, 20), newTable(t, other, "t", 8, 16, 20)
				for k := range 10 {
					put(t, db, tab, u64(k), "old")
				}
				w.script.set(func(d *doorbell) (int, error) {
					if carriesWrite(d) {
						return d.cut(0, min(lost, len(d.wrs)))
					}
					return d.pass()
				})
				err := db.Update(ctx, func(tx *txn.Tx) error {
					for k := range 10 {
						if err := tx.Put(tab, u64(k), []byte("new")); err != nil {
							return err
						}
					}
					return tx.Insert(tab, u64(100), []byte("new"))
				})
				w.script.set(nil)
				var u *txn.UnknownError
				if !errors.As(err, &u) {
					t.Fatalf("got %v, want an unknown outcome", err)
				}
				l := begin(t, other)
				_, err = l.GetForUpdate(tab2, u64(1))
				wantErr(t, err, txn.ErrConflict) // nobody gets at it meanwhile
				if err := l.Abort(); err != nil {
					t.Error(err)
				}
				put(t, db, tab, u64(50), "x") // another session goes on
				var wg sync.WaitGroup
				for range 4 { // all who ask get the one answer
					wg.Go(func() {
						if o, err := db.Resolve(ctx, u.ID); err != nil || o != txn.Committed {
							t.Errorf("Resolve: %v, %v; want commit", o, err)
						}
					})
				}
				wg.Wait()
				for _, s := range []struct {
					db  *txn.DB
					tab *txn.Table
				}{{db, tab}, {other, tab2}} {
					for k := range 10 {
						if got := read(t, s.db, s.tab, u64(k)); got != "new" {
							t.Errorf("key %d is %q, want %q", k, got, "new")
						}
					}
				}
				put(t, other, tab2, u64(1), "free")
				w.sound(db, map[string]int{"t": 12})
			})
		}
	}
}

// A transaction that could not be undone says so with its id. Its locks stay
// until Resolve undoes it.
func TestResolveAborts(t *testing.T) {
	for _, see := range []device{deviceAsIs, deviceAsync} {
		t.Run(name(see), func(t *testing.T) {
			w := newWorld(t, shape(3, 2))
			w.device = see
			db, other := w.open(), w.open()
			ctx := context.Background()
			tab, tab2 := newTable(t, db, "t", 8, 16, 20), newTable(t, other, "t", 8, 16, 20)
			put(t, db, tab, u64(1), "one")
			put(t, db, tab, u64(2), "two")
			newTable(t, other, "dropped", 8, 16, 20)
			tx := begin(t, db)
			if _, err := tx.Get(tab, u64(1)); err != nil {
				t.Fatal(err)
			}
			if _, err := tx.GetForUpdate(tab, u64(2)); err != nil {
				t.Fatal(err)
			}
			if err := tx.Put(tab, u64(2), []byte("never")); err != nil {
				t.Fatal(err)
			}
			put(t, other, tab2, u64(1), "changed") // validation will fail, behind the log
			first := true
			w.script.set(func(d *doorbell) (int, error) {
				if !carriesWrite(d) {
					return d.pass()
				}
				if first { // log and validation
					first = false
					return d.pass()
				}
				return d.cut(0, 0)
			})
			err := tx.Commit(ctx)
			w.script.set(nil)
			wantErr(t, err, txn.ErrUnavailable, tx.ID().String(), "Resolve")
			wantErr(t, other.DropTable(ctx, "dropped"), txn.ErrBusy, "unknown outcome")
			_, err = db.Check(ctx)
			wantErr(t, err, txn.ErrBusy)
			l := begin(t, other)
			_, err = l.GetForUpdate(tab2, u64(2))
			wantErr(t, err, txn.ErrConflict)
			if err := l.Abort(); err != nil {
				t.Error(err)
			}
			for range 2 {
				if o, err := db.Resolve(ctx, tx.ID()); err != nil || o != txn.Aborted {
					t.Errorf("Resolve: %v, %v; want abort", o, err)
				}
			}
			if err := other.DropTable(ctx, "dropped"); err != nil {
				t.Errorf("drop the table when it was resolved: %v", err)
			}
			if got := read(t, other, tab2, u64(2)); got != "two" {
				t.Errorf("the key is %q", got)
			}
			put(t, other, tab2, u64(2), "free")
			wantErr(t, tx.Put(tab, u64(1), nil), txn.ErrClosed)
			if err := tx.Abort(); err != nil {
				t.Errorf("Abort of what was resolved: %v", err)
			}
			w.sound(db, map[string]int{"t": 2})
		})
	}
}

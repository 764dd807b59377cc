package txn_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"fjord/txn"
)

// A Recorder is told of every attempt: what it has read of the store, what it has
// written or would have, how it ended and why.
func TestRecorder(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	rec := &recorder{}
	db, other := w.open(func(o *txn.Options) { o.Recorder = rec }), w.open()
	ctx := context.Background()
	tab, tab2 := newTable(t, db, "t", 8, 16, 64), newTable(t, other, "t", 8, 16, 64)
	rec.take()
	var now int64
	one := func(t *testing.T) txn.Attempt {
		t.Helper()
		all := rec.take()
		if len(all) != 1 {
			t.Fatalf("%d attempts were recorded, want 1: %+v", len(all), all)
		}
		a := all[0]
		if a.Begin < now || a.End < a.Begin || a.ID == 0 {
			t.Errorf("attempt %v from %d to %d, the clock was at %d before", a.ID, a.Begin, a.End, now)
		}
		now = a.End
		return a
	}
	version := make(map[int]uint64) // of each key
	show := func(a txn.Attempt) string {
		s := fmt.Sprintf("%v %q %q:", a.Outcome, a.Reason, a.Label)
		for _, r := range a.Reads {
			s += fmt.Sprintf(" read %s/%d@%d", r.Table, r.Key[7], r.Version)
		}
		for _, x := range a.Writes {
			s += fmt.Sprintf(" write %s/%d %d>%d", x.Table, x.Key[7], x.Prev, x.Version)
			if x.Delete {
				s += " del"
			}
		}
		return s
	}
	// latest takes the version that a committed attempt has installed.
	latest := func(t *testing.T, a txn.Attempt, k int) uint64 {
		t.Helper()
		i := slices.IndexFunc(a.Writes, func(x txn.Write) bool { return x.Key[7] == byte(k) })
		if i < 0 {
			t.Fatalf("no write of key %d in %s", k, show(a))
		}
		v := a.Writes[i].Version
		if v <= version[k] {
			t.Errorf("key %d goes from version %d to %d", k, version[k], v)
		}
		version[k] = v
		return v
	}
	want := func(t *testing.T, a txn.Attempt, format string, args ...any) {
		t.Helper()
		if got := show(a); got != fmt.Sprintf(format, args...) {
			t.Errorf("recorded %s\nwant     %s", got, fmt.Sprintf(format, args...))
		}
	}

	t.Run("insert", func(t *testing.T) {
		update(t, db, func(tx *txn.Tx) error { tx.SetLabel("load"); return tx.Insert(tab, u64(1), nil) })
		a := one(t)
		want(t, a, `commit "" "load": read t/1@0 write t/1 0>%d`, latest(t, a, 1))
	})
	t.Run("blind Put of an absent key", func(t *testing.T) {
		put(t, db, tab, u64(2), "x")
		a := one(t)
		want(t, a, `commit "" "": write t/2 0>%d`, latest(t, a, 2))
	})
	t.Run("View", func(t *testing.T) {
		read(t, db, tab, u64(1))
		want(t, one(t), `commit "" "": read t/1@%d`, version[1])
		read(t, db, tab, u64(3))
		want(t, one(t), `commit "" "": read t/3@0`)
	})
	t.Run("blind Put", func(t *testing.T) {
		prev := version[1]
		put(t, db, tab, u64(1), "x")
		a := one(t)
		want(t, a, `commit "" "": write t/1 %d>%d`, prev, latest(t, a, 1))
	})
	t.Run("Get and Put, and a key put and read back", func(t *testing.T) {
		prev, prev2 := version[1], version[2]
		update(t, db, func(tx *txn.Tx) error {
			_, err := tx.Get(tab, u64(1))
			err2 := tx.Put(tab, u64(2), []byte("y"))
			_, err3 := tx.Get(tab, u64(2)) // its own: not a read of the store
			return errors.Join(err, err2, err3, tx.Put(tab, u64(1), []byte("y")))
		})
		a := one(t)
		want(t, a, `commit "" "": read t/1@%d write t/1 %d>%d write t/2 %d>%d`, prev, prev, latest(t, a, 1), prev2, latest(t, a, 2))
	})
	t.Run("delete and insert again", func(t *testing.T) {
		for range 5 {
			prev := version[1]
			update(t, db, func(tx *txn.Tx) error { return tx.Delete(tab, u64(1)) })
			a := one(t)
			want(t, a, `commit "" "": read t/1@%d write t/1 %d>%d del`, prev, prev, latest(t, a, 1))
			update(t, db, func(tx *txn.Tx) error { return tx.Insert(tab, u64(1), nil) })
			a = one(t)
			want(t, a, `commit "" "": read t/1@0 write t/1 0>%d`, latest(t, a, 1))
		}
	})
	t.Run("delete and insert in one", func(t *testing.T) {
		prev := version[1]
		update(t, db, func(tx *txn.Tx) error {
			return errors.Join(tx.Delete(tab, u64(1)), tx.Insert(tab, u64(1), nil))
		})
		a := one(t)
		want(t, a, `commit "" "": read t/1@%d write t/1 %d>%d`, prev, prev, latest(t, a, 1))
	})
	t.Run("insert and delete in one", func(t *testing.T) {
		update(t, db, func(tx *txn.Tx) error {
			return errors.Join(tx.Insert(tab, u64(3), nil), tx.Delete(tab, u64(3)))
		})
		want(t, one(t), `commit "" "": read t/3@0`)
	})
	t.Run("refused", func(t *testing.T) {
		err := db.Update(ctx, func(tx *txn.Tx) error { return tx.Insert(tab, u64(1), nil) })
		wantErr(t, err, txn.ErrExists)
		want(t, one(t), `abort "rollback" "": read t/1@%d`, version[1])
		err = db.Update(ctx, func(tx *txn.Tx) error { return tx.Delete(tab, u64(3)) })
		wantErr(t, err, txn.ErrNotFound)
		want(t, one(t), `abort "rollback" "": read t/3@0`)
	})
	t.Run("rolled back", func(t *testing.T) {
		_ = db.Update(ctx, func(tx *txn.Tx) error {
			_, err := tx.GetForUpdate(tab, u64(1))
			return errors.Join(err, tx.Put(tab, u64(1), nil), errMine)
		})
		want(t, one(t), `abort "rollback" "": read t/1@%d write t/1 %d>0`, version[1], version[1])
		tx := begin(t, db)
		if err := tx.Abort(); err != nil {
			t.Error(err)
		}
		want(t, one(t), `abort "rollback" "":`)
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(ctx)
		_ = db.Update(ctx, func(tx *txn.Tx) error { cancel(); return tx.Put(tab, u64(1), nil) })
		a := one(t)
		if a.Outcome != txn.Aborted || a.Reason != "cancelled" {
			t.Errorf("recorded %s", show(a))
		}
	})
	t.Run("panic", func(t *testing.T) {
		func() {
			defer func() { _ = recover() }()
			_ = db.Update(ctx, func(tx *txn.Tx) error { _, _ = tx.Get(tab, u64(1)); panic("x") })
		}()
		want(t, one(t), `abort "rollback" "": read t/1@%d`, version[1])
	})
	t.Run("conflict, and the run after it", func(t *testing.T) {
		h := begin(t, other)
		if _, err := h.GetForUpdate(tab2, u64(1)); err != nil {
			t.Fatal(err)
		}
		update(t, db, func(tx *txn.Tx) error {
			tx.SetLabel(fmt.Sprint("run ", tx.Attempt()))
			if _, err := tx.Get(tab, u64(2)); err != nil {
				return err
			}
			if _, err := tx.GetForUpdate(tab, u64(1)); err != nil {
				return errors.Join(err, h.Abort())
			}
			return nil
		})
		all := rec.take()
		if len(all) != 2 || all[0].ID == all[1].ID || all[0].Session != all[1].Session {
			t.Fatalf("recorded %+v, want two attempts of one session", all)
		}
		want(t, all[0], `abort "locked" "run 1": read t/2@%d`, version[2])
		want(t, all[1], `commit "" "run 2": read t/2@%d read t/1@%d`, version[2], version[1])
	})
	t.Run("conflict at validation tells what was planned", func(t *testing.T) {
		prev := version[2]
		l := begin(t, db)
		_, err := l.Get(tab, u64(1))
		err = errors.Join(err, l.Put(tab, u64(2), nil))
		put(t, other, tab2, u64(1), "z")
		if err != nil {
			t.Fatal(err)
		}
		wantErr(t, l.Commit(ctx), txn.ErrConflict)
		a := rec.take()[0]
		want(t, a, `abort "version" "": read t/1@%d write t/2 %d>%d`, version[1], prev, prev+1)
	})
}

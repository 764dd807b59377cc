package txn_test

import (
	"context"
	"errors"
	"testing"

	"fjord/layout"
	"fjord/txn"
	"fjord/verbs"
)

// keysByNode returns, for every memory node, n keys of a table whose primary it is;
// with one copy nobody else has them. They are put first.
func (w *world) keysByNode(db *txn.DB, tab *txn.Table, n int) [][][]byte {
	w.t.Helper()
	l, err := w.cluster.Layout(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	keys := make([][][]byte, len(l.Nodes))
	for k, full := 0, 0; full < len(keys); k++ {
		put(w.t, db, tab, u64(k), "old")
		at := -1
		w.script.set(func(d *doorbell) (int, error) {
			for i := range l.Nodes {
				if l.Nodes[i].GID == d.dest {
					at = i
				}
			}
			return d.pass()
		})
		read(w.t, db, tab, u64(k))
		w.script.set(nil)
		if keys[at] = append(keys[at], u64(k)); len(keys[at]) == n {
			full++
		}
	}
	return keys
}

// lively runs transactions of every kind that touch only living nodes: all must commit.
func lively(t *testing.T, db *txn.DB, tab *txn.Table, a, b []byte) {
	t.Helper()
	ctx := context.Background()
	for what, fn := range map[string]func(tx *txn.Tx) error{
		"Put": func(tx *txn.Tx) error { return tx.Put(tab, a, []byte("x")) },
		"Get and Put": func(tx *txn.Tx) error {
			_, err := tx.Get(tab, a)
			return errors.Join(err, tx.Put(tab, b, []byte("x")))
		},
		"GetForUpdate": func(tx *txn.Tx) error { _, err := tx.GetForUpdate(tab, b); return err },
		"Delete and Put": func(tx *txn.Tx) error {
			return errors.Join(tx.Delete(tab, a), tx.Put(tab, a, []byte("x")))
		},
	} {
		if err := db.Update(ctx, fn); err != nil {
			t.Errorf("%s on living nodes: %v", what, err)
		}
	}
	if err := db.View(ctx, func(tx *txn.Tx) error {
		_, err := tx.Get(tab, a)
		_, err2 := tx.Get(tab, b)
		return errors.Join(err, err2)
	}); err != nil {
		t.Errorf("View on living nodes: %v", err)
	}
}

// withoutNode2 runs a test, on each kind of device, with a DB of a single session of
// whose three nodes the last has died after the session used it. Of every node there
// are two keys, as keysByNode has them.
func withoutNode2(t *testing.T, copies int, run func(t *testing.T, db *txn.DB, tab *txn.Table, k [][][]byte)) {
	for _, see := range []device{deviceAsIs, deviceAsync, deviceNoInline, deviceLent} {
		t.Run(name(see), func(t *testing.T) {
			w := newWorld(t, shape(3, copies))
			first := w.open()
			k := w.keysByNode(first, newTable(t, first, "t", 8, 16, 200), 2)
			w.device = see
			db, err := txn.Open(context.Background(), txn.Options{Cluster: w.cluster, Sessions: 1, AddressCache: 64})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			tab := newTable(t, db, "t", 8, 16, 200)
			lively(t, db, tab, k[2][0], k[1][0])
			read(t, db, tab, k[2][0]) // and so knows that all its unlocks there have executed
			if err := w.cluster.Node(2).Close(); err != nil {
				t.Fatal(err)
			}
			run(t, db, tab, k)
		})
	}
}

// A memory node that died fails the transactions that use it, and no others, also not
// on the session that has met it, which is the only one here.
func TestLivingNodesServeOn(t *testing.T) {
	withoutNode2(t, 1, func(t *testing.T, db *txn.DB, tab *txn.Table, k [][][]byte) {
		ctx := context.Background()
		wantErr(t, db.View(ctx, func(tx *txn.Tx) error { _, err := tx.Get(tab, k[2][0]); return err }), txn.ErrUnavailable)
		for range 5 {
			for what, fn := range map[string]func(tx *txn.Tx) error{
				"Get": func(tx *txn.Tx) error { _, err := tx.Get(tab, k[2][0]); return err },
				"Put": func(tx *txn.Tx) error { return tx.Put(tab, k[2][0], nil) },
				"Put there and here": func(tx *txn.Tx) error {
					return errors.Join(tx.Put(tab, k[0][0], []byte("never")), tx.Put(tab, k[2][1], nil))
				},
			} {
				err := db.Update(ctx, fn)
				wantErr(t, err, txn.ErrUnavailable, "memory node 2")
				if errors.Is(err, txn.ErrCommitUnknown) {
					t.Errorf("%s: %v", what, err)
				}
			}
			lively(t, db, tab, k[0][0], k[1][0])
		}
		if got := read(t, db, tab, k[0][0]); got != "x" {
			t.Errorf("the key is %q", got)
		}
		if err := db.Close(); err != nil { // no lock was taken since the node was known to be away
			t.Errorf("close: %v", err)
		}
	})
}

// A node that is away as a copy only is known to be before anything is written: such a
// transaction has no unknown outcome, which would cost a session each time.
func TestAwayBackupIsSeenBeforeTheCommit(t *testing.T) {
	withoutNode2(t, 3, func(t *testing.T, db *txn.DB, tab *txn.Table, k [][][]byte) {
		ctx := context.Background()
		for range 5 {
			err := db.View(ctx, func(tx *txn.Tx) error { _, err := tx.Get(tab, k[2][0]); return err })
			wantErr(t, err, txn.ErrUnavailable, "memory node 2")
			err = db.Update(ctx, func(tx *txn.Tx) error { return tx.Put(tab, k[0][0], []byte("never")) })
			wantErr(t, err, txn.ErrUnavailable, "memory node 2")
			if got := read(t, db, tab, k[0][0]); got == "never" {
				t.Error("it was written all the same")
			}
		}
	})
}

// An unlock that is lost while its node is away for long stays owed: others do not
// get the lock, the log entry is not overwritten, however many transactions the
// session runs elsewhere meanwhile. When the node is back the next one makes it good.
func TestLostUnlockOutlivesOtherTransactions(t *testing.T) {
	for _, see := range []device{deviceAsIs, deviceAsync, deviceNoInline} {
		t.Run(name(see), func(t *testing.T) {
			w := newWorld(t, shape(3, 1))
			other := w.open()
			tab2 := newTable(t, other, "t", 8, 16, 200)
			k := w.keysByNode(other, tab2, 2)
			w.device = see
			db := w.open(func(o *txn.Options) { o.Sessions = 1 })
			tab := newTable(t, db, "t", 8, 16, 200)
			lively(t, db, tab, k[2][0], k[1][0])
			put(t, db, tab, k[2][1], "old") // its place is known from now on, and it is locked at once
			ctx := context.Background()
			away := w.nodeOf(2)
			w.script.set(func(d *doorbell) (int, error) {
				if wr := &d.wrs[0]; d.dest == away && wr.Opcode == verbs.OpWrite && wr.SGL[0].Length == 16 {
					w.script.away.Store(&away)
					return d.cut(0, 0)
				}
				return d.pass()
			})
			var id txn.ID
			update(t, db, func(tx *txn.Tx) error {
				id = tx.ID()
				return tx.Put(tab, k[2][0], []byte("new"))
			})
			w.script.set(nil)
			if w.script.away.Load() == nil {
				t.Fatal("no unlock was seen")
			}
			for range 5 {
				wantErr(t, db.Update(ctx, func(tx *txn.Tx) error { return tx.Put(tab, k[2][1], nil) }), txn.ErrUnavailable)
				lively(t, db, tab, k[0][0], k[1][0])
				// A QP to a living node that breaks is repaired none the less, before the
				// commit and in it.
				for _, broken := range []func(*doorbell) bool{func(*doorbell) bool { return true }, carriesWrite} {
					cut := false
					w.script.set(func(d *doorbell) (int, error) {
						if !cut && d.dest == w.nodeOf(0) && broken(d) {
							cut = true
							return d.cut(0, 0)
						}
						return d.pass()
					})
					put(t, db, tab, k[0][1], "y")
					w.script.set(nil)
					if !cut {
						t.Error("no QP was broken")
					}
				}
				there := 0
				w.logs(func(_ string, e layout.LogEntry) {
					if txn.ID(e.Token) == id {
						there++
					}
				})
				if there != 1 {
					t.Fatalf("%d log entries of the transaction whose unlock is owed, want 1", there)
				}
				tx := begin(t, other)
				_, err := tx.GetForUpdate(tab2, k[2][0])
				wantErr(t, err, txn.ErrConflict)
				if err := tx.Abort(); err != nil {
					t.Error(err)
				}
			}
			w.script.away.Store(nil)
			put(t, db, tab, k[0][0], "x")
			tx := begin(t, other)
			if v, err := tx.GetForUpdate(tab2, k[2][0]); err != nil || string(v) != "new" {
				t.Errorf("with the node back another coordinator gets %q, %v", v, err)
			}
			if err := tx.Abort(); err != nil {
				t.Error(err)
			}
			put(t, db, tab, k[2][1], "x")
			w.sound(other, nil)
		})
	}
}

// nodeOf is how a script knows a memory node.
func (w *world) nodeOf(i int) verbs.GID {
	w.t.Helper()
	l, err := w.cluster.Layout(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	return l.Nodes[i].GID
}

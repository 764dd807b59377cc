package txn_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"fjord/layout"
	"fjord/txn"
)

// find returns where a record with this key lies in the region of a node.
func (w *world) find(node int, key []byte) (va uint64, cell []byte) {
	w.t.Helper()
	l, err := w.cluster.Layout(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	const piece = 64 << 10
	for off := uint64(0); off < l.Header.RegionSize; off += piece {
		at := l.Nodes[node].Base + off
		b := w.probe().read(node, at, piece)
		for i := 0; i < piece; i += layout.CellAlign {
			c := b[i:]
			if layout.CellKind(c) == layout.KindRecord && layout.KeyLen(c) == len(key) && bytes.HasPrefix(c[layout.HeaderSize:], key) &&
				!layout.CellVersion(c).IsAbsent() {
				return at + uint64(i), c[:layout.CellAlign]
			}
		}
	}
	w.t.Fatalf("no record with key %x on node %d", key, node)
	return 0, nil
}

// Check finds whatever is planted, and says so under the name that it promises.
func TestCheckFindsDamage(t *testing.T) {
	word := func(n uint64) []byte { return []byte{byte(n), byte(n >> 8), 0, 0, 0, 0, 0, byte(n >> 56)} }
	for _, c := range []struct {
		name  string
		plant func(w *world, node int, va uint64, cell []byte)
		// Which checks fail: at the primary, at a backup.
		primary, backup []string
	}{
		{"a lock", func(w *world, node int, va uint64, _ []byte) {
			w.probe().write(node, va+layout.OffLock, word(7))
		}, []string{"no_locks"}, []string{"no_locks"}},
		{"a pending version", func(w *world, node int, va uint64, cell []byte) {
			v := bytes.Clone(cell[layout.OffVersion:][:8])
			v[7] |= 0x80
			w.probe().write(node, va+layout.OffVersion, v)
		}, []string{"no_pending", "replicas_equal"}, []string{"replicas_equal"}},
		{"a rotten byte", func(w *world, node int, va uint64, cell []byte) {
			v := bytes.Clone(cell[layout.HeaderSize+8:][:8])
			v[0] ^= 1
			w.probe().write(node, va+layout.HeaderSize+8, v)
		}, []string{"sums_valid", "replicas_equal"}, []string{"replicas_equal"}},
		{"a cell of another place", func(w *world, node int, va uint64, _ []byte) {
			_, other := w.find(node, []byte("another!"))
			w.probe().write(node, va+8, other[8:])
		}, []string{"sums_valid", "replicas_equal"}, []string{"replicas_equal"}},
	} {
		for _, primary := range []bool{true, false} {
			t.Run(name(c.name, "primary", primary), func(t *testing.T) {
				w := newWorld(t, shape(2, 2))
				db := w.open()
				ctx := context.Background()
				tab := newTable(t, db, "t", 8, 16, 40)
				put(t, db, tab, []byte("the key!"), "value")
				put(t, db, tab, []byte("another!"), "other")
				// The primary is where a READ of the key goes.
				node := -1
				l, err := w.cluster.Layout(ctx)
				if err != nil {
					t.Fatal(err)
				}
				w.script.set(func(d *doorbell) (int, error) {
					for n := range l.Nodes {
						if l.Nodes[n].GID == d.dest {
							node = n
						}
					}
					return d.pass()
				})
				read(t, db, tab, []byte("the key!"))
				w.script.set(nil)
				want := c.primary
				if !primary {
					node, want = 1-node, c.backup
				}
				va, cell := w.find(node, []byte("the key!"))
				c.plant(w, node, va, cell)
				r, err := db.Check(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if r.OK() || len(r.Details) == 0 {
					t.Errorf("nothing found: %+v", r)
				}
				for check, ok := range r.Checks {
					found := false
					for _, x := range want {
						found = found || x == check
					}
					if ok == found {
						t.Errorf("%s is %v, want %v: %v", check, ok, !found, r.Details)
					}
				}
				if !strings.Contains(strings.Join(r.Details, "\n"), "record of t") {
					t.Errorf("details %q do not say where", r.Details)
				}
			})
		}
	}
}

// A record whose bytes have rotted is never given to anybody, and never written over
// unseen: readers wait for a writer that does not come, lockers know better.
func TestRottenRecord(t *testing.T) {
	w := newWorld(t, shape(1, 1))
	db := w.open(func(o *txn.Options) { o.MaxRetries = 1 })
	ctx := context.Background()
	tab := newTable(t, db, "t", 8, 16, 40)
	put(t, db, tab, []byte("the key!"), "value")
	va, cell := w.find(0, []byte("the key!"))
	good := bytes.Clone(cell)
	cell = bytes.Clone(cell)
	cell[layout.HeaderSize+9] ^= 1
	w.probe().write(0, va, cell)
	err := db.View(ctx, func(tx *txn.Tx) error { _, err := tx.Get(tab, []byte("the key!")); return err })
	wantErr(t, err, txn.ErrConflict, "pending", `"t"`)
	for what, fn := range map[string]func(tx *txn.Tx) error{
		"GetForUpdate": func(tx *txn.Tx) error { _, err := tx.GetForUpdate(tab, []byte("the key!")); return err },
		"Put":          func(tx *txn.Tx) error { return tx.Put(tab, []byte("the key!"), []byte("x")) },
	} {
		err := db.Update(ctx, fn)
		wantErr(t, err, txn.ErrCorrupt, "record at")
		if errors.Is(err, txn.ErrConflict) {
			t.Errorf("%s: %v", what, err)
		}
	}
	w.probe().write(0, va, good)
	if got := read(t, db, tab, []byte("the key!")); got != "value" {
		t.Errorf("with the byte mended the key is %q", got)
	}
	w.sound(db, map[string]int{"t": 1})
}

// Check refuses to look while transactions run, and says which session.
func TestCheckWhileRunning(t *testing.T) {
	w := newWorld(t, shape(2, 2))
	db := w.open()
	tx := begin(t, db)
	_, err := db.Check(context.Background())
	wantErr(t, err, txn.ErrBusy, "in a transaction")
	if err := tx.Abort(); err != nil {
		t.Error(err)
	}
	w.sound(db, nil)
}

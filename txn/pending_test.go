package txn_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"fjord/layout"
	"fjord/txn"
)

// An image that is pending is one of which it is not known yet whether it is
// committed. Here an unlock has landed by half: the lock is free, the version is
// still pending. Whoever comes, to read or to lock, waits for the other half; he
// gives back the lock that he takes meanwhile.
func TestPendingImageIsWaitedFor(t *testing.T) {
	for what, fn := range map[string]func(tx *txn.Tx, tab *txn.Table, key []byte) error{
		"Get":          func(tx *txn.Tx, tab *txn.Table, key []byte) error { _, err := tx.Get(tab, key); return err },
		"GetForUpdate": func(tx *txn.Tx, tab *txn.Table, key []byte) error { _, err := tx.GetForUpdate(tab, key); return err },
		"Put":          func(tx *txn.Tx, tab *txn.Table, key []byte) error { return tx.Put(tab, key, []byte("value")) },
		"Delete":       func(tx *txn.Tx, tab *txn.Table, key []byte) error { return tx.Delete(tab, key) },
	} {
		for _, cold := range []bool{false, true} {
			t.Run(name(what, "cold", cold), func(t *testing.T) {
				w := newWorld(t, shape(1, 1))
				db := w.open(func(o *txn.Options) { o.MaxRetries = 1 << 20 })
				ctx := context.Background()
				tab := newTable(t, db, "t", 8, 16, 40)
				key := []byte("the key!")
				put(t, db, tab, key, "value")
				if cold {
					db = w.open(func(o *txn.Options) { o.MaxRetries = 1 << 20 })
					tab = newTable(t, db, "t", 8, 16, 40)
				} else {
					read(t, db, tab, key)
				}
				va, cell := w.find(0, key)
				settled := bytes.Clone(cell[layout.OffVersion:][:8])
				pending := bytes.Clone(settled)
				pending[7] |= 0x80
				w.probe().write(0, va+layout.OffVersion, pending)

				// In vain, as long as it is so: a transaction of its own conflicts in time.
				tx := begin(t, db)
				err := fn(tx, tab, key)
				if err == nil {
					err = tx.Commit(ctx)
				} else if e := tx.Abort(); e != nil {
					t.Error(e)
				}
				wantErr(t, err, txn.ErrConflict, "pending")

				done := make(chan error)
				go func() { done <- db.Update(ctx, func(tx *txn.Tx) error { return fn(tx, tab, key) }) }()
				select {
				case err := <-done:
					t.Fatalf("it ended (%v) while the image was pending", err)
				case <-time.After(20 * time.Millisecond):
				}
				w.probe().write(0, va+layout.OffVersion, settled)
				if err := <-done; err != nil {
					t.Errorf("when it was settled: %v", err)
				}
				left := 1
				if what == "Delete" {
					left = 0
				}
				w.sound(db, map[string]int{"t": left})
			})
		}
	}
}

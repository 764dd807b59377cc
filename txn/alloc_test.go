package txn_test

import (
	"context"
	"testing"

	"fjord/lock"
	"fjord/txn"
)

// In steady state a transaction on known keys allocates nothing.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	ctx := context.Background()
	keys := [][]byte{u64(0), u64(1), u64(2), u64(3)}
	value := []byte("sixteen bytes...")
	for _, copies := range []int{1, 3} {
		for _, strategy := range []lock.Strategy{lock.CAS{}, lock.DefaultBackoff()} {
			w := newWorld(t, shape(copies, copies))
			if strategy.Name() != "cas" {
				w.device = deviceAsync
			}
			db := w.open(func(o *txn.Options) { o.Lock = strategy })
			tab := newTable(t, db, "t", 8, 16, 100)
			for _, k := range keys {
				put(t, db, tab, k, string(value))
			}
			for what, run := range map[string]func() error{
				"View of one": func() error {
					return db.View(ctx, func(tx *txn.Tx) error { _, err := tx.Get(tab, keys[0]); return err })
				},
				"View of many": func() error {
					return db.View(ctx, func(tx *txn.Tx) error {
						for _, k := range keys {
							if _, err := tx.Get(tab, k); err != nil {
								return err
							}
						}
						return nil
					})
				},
				"View with Fetch": func() error {
					return db.View(ctx, func(tx *txn.Tx) error {
						return tx.Fetch(txn.ForRead(tab, keys[0]), txn.ForRead(tab, keys[1]), txn.ForRead(tab, keys[2]))
					})
				},
				"blind Put": func() error {
					return db.Update(ctx, func(tx *txn.Tx) error { return tx.Put(tab, keys[0], value) })
				},
				"Get and Put": func() error {
					return db.Update(ctx, func(tx *txn.Tx) error {
						v, err := tx.Get(tab, keys[0])
						if err != nil {
							return err
						}
						return tx.Put(tab, keys[0], v)
					})
				},
				"transfer": func() error {
					return db.Update(ctx, func(tx *txn.Tx) error {
						if err := tx.Fetch(txn.ForUpdate(tab, keys[0]), txn.ForUpdate(tab, keys[1])); err != nil {
							return err
						}
						a, err := tx.Get(tab, keys[0])
						if err != nil {
							return err
						}
						b, err := tx.Get(tab, keys[1])
						if err != nil {
							return err
						}
						a[0]--
						b[0]++
						if err := tx.Put(tab, keys[0], a); err != nil {
							return err
						}
						return tx.Put(tab, keys[1], b)
					})
				},
				"read set and write": func() error {
					return db.Update(ctx, func(tx *txn.Tx) error {
						if err := tx.Fetch(txn.ForRead(tab, keys[0]), txn.ForUpdate(tab, keys[1])); err != nil {
							return err
						}
						return tx.Put(tab, keys[1], value)
					})
				},
				"GetForUpdate alone": func() error {
					return db.Update(ctx, func(tx *txn.Tx) error { _, err := tx.GetForUpdate(tab, keys[0]); return err })
				},
				"error of the function": func() error {
					if err := db.Update(ctx, func(tx *txn.Tx) error {
						if _, err := tx.GetForUpdate(tab, keys[0]); err != nil {
							return err
						}
						return errMine
					}); err != errMine {
						return err
					}
					return nil
				},
				"absent key": func() error {
					return db.View(ctx, func(tx *txn.Tx) error {
						if _, err := tx.Get(tab, keys[0][:7]); err != txn.ErrNotFound {
							return err
						}
						return nil
					})
				},
			} {
				t.Run(name(copies, "copies", strategy.Name(), what), func(t *testing.T) {
					var err error
					try := func() {
						if e := run(); e != nil {
							err = e
						}
					}
					for range 200 { // every slice has its size, every address is known
						try()
					}
					if n := testing.AllocsPerRun(500, try); n != 0 || err != nil {
						t.Errorf("%v allocations per transaction (%v), want 0", n, err)
					}
				})
			}
			w.sound(db, map[string]int{"t": len(keys)})
		}
	}
}

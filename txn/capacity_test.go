package txn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"fjord/layout"
	"fjord/txn"
)

// A table holds its Capacity, however its keys fall.
func TestCapacityAlwaysFits(t *testing.T) {
	capacities := []int{1, 2, 3, 5, 8, 13, 40, 100, 333, 1000, 5000}
	if raceEnabled {
		capacities = []int{1, 40, 200}
	}
	for nodes := 1; nodes <= 5; nodes++ {
		if raceEnabled && nodes%2 == 0 {
			continue
		}
		c := shape(nodes, 1)
		c.NodeMemory = 16 << 20
		w := newWorld(t, c)
		db := w.open()
		for _, size := range []struct{ key, value int }{{8, 16}, {16, 500}, {8, 2000}} {
			for _, capacity := range capacities {
				if capacity*size.value > 4<<20 {
					continue
				}
				t.Run(name(nodes, "nodes", size.value, "bytes", capacity, "records"), func(t *testing.T) {
					tab := newTable(t, db, "t", size.key, size.value, capacity)
					rnd := rand.New(rand.NewPCG(uint64(nodes), uint64(capacity)))
					for n := 0; n < capacity; {
						err := db.Update(context.Background(), func(tx *txn.Tx) error {
							for i := range min(20, capacity-n) {
								if err := tx.Insert(tab, u64(int(rnd.Uint64()>>1)), fmt.Append(nil, i)); err != nil {
									return err
								}
							}
							return nil
						})
						if err != nil {
							t.Fatalf("with %d records of %d: %v", n, capacity, err)
						}
						n += min(20, capacity-n)
					}
					w.sound(db, map[string]int{"t": capacity})
					if err := db.DropTable(context.Background(), "t"); err != nil {
						t.Fatal(err)
					}
				})
			}
		}
	}
}

// Capacity used up is ErrFull with the table and what it was made for. Nothing of
// the transaction is done, the table is usable, and deletes make room.
func TestFull(t *testing.T) {
	w := newWorld(t, shape(2, 2))
	db := w.open()
	ctx := context.Background()
	const capacity = 10
	tab := newTable(t, db, "crate", 8, 16, capacity)
	canary := newTable(t, db, "canary", 8, 16, capacity)
	n := 0
	var err error
	for err == nil {
		if err = db.Update(ctx, func(tx *txn.Tx) error {
			if err := tx.Put(canary, u64(1), fmt.Append(nil, n)); err != nil {
				return err
			}
			return tx.Insert(tab, u64(n), []byte("x"))
		}); err == nil {
			n++
		}
		if n > 10_000 {
			t.Fatal("a table of capacity 10 holds 10,000 records")
		}
	}
	wantErr(t, err, txn.ErrFull, `"crate"`, "10 records")
	if n < capacity {
		t.Fatalf("full with %d records, want %d at least", n, capacity)
	}
	if got := read(t, db, canary, u64(1)); got != fmt.Sprint(n-1) {
		t.Errorf("the write beside the refused insert is %q, want that of the last that fitted, %q", got, fmt.Sprint(n-1))
	}
	w.sound(db, map[string]int{"crate": n, "canary": 1})

	// Everything but inserts works. Bring it down to less than its capacity, and a
	// whole capacity fits again, many times over.
	for i := range n {
		update(t, db, func(tx *txn.Tx) error { return tx.Put(tab, u64(i), []byte("y")) })
	}
	rounds := 20
	if raceEnabled {
		rounds = 4
	}
	for round := range rounds {
		for i := range n {
			if round == 0 || i < capacity {
				update(t, db, func(tx *txn.Tx) error { return tx.Delete(tab, u64(i+1000*round)) })
			}
		}
		w.sound(db, map[string]int{"crate": 0})
		for i := range capacity {
			update(t, db, func(tx *txn.Tx) error { return tx.Insert(tab, u64(i+1000*(round+1)), []byte("z")) })
		}
		w.sound(db, map[string]int{"crate": capacity})
	}
}

// fill inserts records until the table is full, and returns how many there are.
func fill(t *testing.T, db *txn.DB, tab *txn.Table) (n int) {
	t.Helper()
	for {
		err := db.Update(context.Background(), func(tx *txn.Tx) error { return tx.Insert(tab, u64(n), nil) })
		if errors.Is(err, txn.ErrFull) {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
}

// ErrFull counts only if what the function has read holds: it may have had nothing to
// insert.
func TestFullRestsOnReadsThatHold(t *testing.T) {
	w := newWorld(t, shape(1, 1))
	db, other := w.open(), w.open()
	tab := newTable(t, db, "crate", 8, 16, 1)
	flags, flags2 := newTable(t, db, "flags", 8, 16, 1), newTable(t, other, "flags", 8, 16, 1)
	put(t, db, flags, u64(1), "go on")
	n := fill(t, db, tab)
	runs := 0
	err := db.Update(context.Background(), func(tx *txn.Tx) error {
		runs++
		v, err := tx.Get(flags, u64(1))
		if err != nil || string(v) == "stop" {
			return err
		}
		put(t, other, flags2, u64(1), "stop")
		return tx.Insert(tab, u64(n), nil)
	})
	if err != nil || runs != 2 {
		t.Errorf("after %d runs: %v; want 2 and success", runs, err)
	}
	w.sound(db, map[string]int{"crate": n, "flags": 1})
}

// A table is not full as long as there is a free slot that somebody has locked by a
// stale address, or has not released yet: that passes.
func TestFullButForALockedSlot(t *testing.T) {
	for what, plant := range map[string]func(w *world, va uint64, cell []byte){
		"locked": func(w *world, va uint64, _ []byte) { w.probe().write(0, va, u64(77)) },
		"pending": func(w *world, va uint64, cell []byte) {
			cell[layout.OffVersion+7] |= 0x80
			w.probe().write(0, va+layout.OffVersion, cell[layout.OffVersion:][:8])
		},
	} {
		t.Run(name(what), func(t *testing.T) {
			w := newWorld(t, shape(1, 1))
			db := w.open(func(o *txn.Options) { o.MaxRetries = 3 })
			ctx := context.Background()
			tab := newTable(t, db, "crate", 8, 16, 1)
			n := fill(t, db, tab)
			va, _ := w.find(0, u64(0)) // the first record is in the head bucket
			update(t, db, func(tx *txn.Tx) error { return tx.Delete(tab, u64(0)) })
			cell := w.probe().read(0, va, layout.CellAlign)
			plant(w, va, bytes.Clone(cell))
			err := db.Update(ctx, func(tx *txn.Tx) error { return tx.Insert(tab, u64(n), nil) })
			wantErr(t, err, txn.ErrConflict, what, `"crate"`)
			if errors.Is(err, txn.ErrFull) {
				t.Errorf("it is full as well: %v", err)
			}
			runs := 0
			update(t, db, func(tx *txn.Tx) error {
				if runs++; runs == 2 {
					w.probe().write(0, va, cell[:16])
				}
				return tx.Insert(tab, u64(n), nil)
			})
			if runs != 2 {
				t.Errorf("%d runs, want 2", runs)
			}
			// A record that is locked takes its slot.
			held := begin(t, db)
			if _, err := held.GetForUpdate(tab, u64(n)); err != nil {
				t.Fatal(err)
			}
			wantErr(t, db.Update(ctx, func(tx *txn.Tx) error { return tx.Insert(tab, u64(n+1), nil) }), txn.ErrFull)
			if err := held.Abort(); err != nil {
				t.Error(err)
			}
			w.sound(db, map[string]int{"crate": n})
		})
	}
}

// As long as there are no more records than its Capacity, a table never fills up,
// however long records come and go.
func TestChurnAtFullCapacity(t *testing.T) {
	total := 200_000
	if raceEnabled {
		total = 10_000
	}
	for _, c := range []struct{ nodes, value, capacity int }{
		{1, 16, 3}, {1, 16, 30}, {1, 16, 2000}, {3, 16, 100}, {3, 16, 1000}, {1, 2000, 50}, {2, 2000, 400},
	} {
		t.Run(name(c.nodes, "nodes", c.value, "bytes", c.capacity, "records"), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, shape(c.nodes, 1))
			db := w.open()
			tab := newTable(t, db, "t", 8, c.value, c.capacity)
			rnd := rand.New(rand.NewPCG(1, uint64(c.capacity)))
			var live []int
			ctx := context.Background()
			for i := range total / 7 {
				// Half of the time one goes for one that comes, in one transaction.
				gone := -1
				if len(live) == c.capacity || len(live) > 0 && rnd.IntN(8) == 0 {
					gone = rnd.IntN(len(live))
				}
				both := rnd.IntN(2) == 0
				if gone >= 0 && !both {
					update(t, db, func(tx *txn.Tx) error { return tx.Delete(tab, u64(live[gone])) })
				}
				err := db.Update(ctx, func(tx *txn.Tx) error {
					if gone >= 0 && both {
						if err := tx.Delete(tab, u64(live[gone])); err != nil {
							return err
						}
					}
					return tx.Insert(tab, u64(i), []byte("x"))
				})
				if err != nil {
					t.Fatalf("after %d rounds, with %d records: %v", i, len(live), err)
				}
				if gone >= 0 {
					live[gone] = live[len(live)-1]
					live = live[:len(live)-1]
				}
				live = append(live, i)
			}
			w.sound(db, map[string]int{"t": len(live)})
		})
	}
}

// A full table in which the last records of every chain are deleted gives the
// chains' buckets back, to whichever bucket needs them.
func TestOverflowBucketsAreGivenBack(t *testing.T) {
	w := newWorld(t, shape(1, 1))
	db := w.open()
	ctx := context.Background()
	tab := newTable(t, db, "t", 8, 16, 5)
	fill := func(base int) (n int) {
		for {
			err := db.Update(ctx, func(tx *txn.Tx) error { return tx.Insert(tab, u64(base+n), nil) })
			if errors.Is(err, txn.ErrFull) {
				return n
			}
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	records := fill(0)
	for round := range 5 {
		base := 10_000 * round
		order := rand.Perm(records)
		for i := 0; i < records; i += 10 { // ten in one transaction: several buckets of a chain at once
			update(t, db, func(tx *txn.Tx) error {
				for _, k := range order[i:min(i+10, records)] {
					if err := tx.Delete(tab, u64(base+k)); err != nil {
						return err
					}
				}
				return nil
			})
		}
		w.sound(db, map[string]int{"t": 0})
		again := fill(base + 10_000)
		if again < records*9/10 {
			t.Fatalf("round %d: %d records fit, %d did before", round, again, records)
		}
		records = again
	}
}

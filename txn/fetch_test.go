package txn_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"fjord/txn"
)

// Fetch of any number of keys, there or not, in any mode, fetched before or not,
// leaves Get, Put, Insert and Delete with the same results as without it.
func TestFetchOfManyKeys(t *testing.T) {
	w := newWorld(t, roomy(3, 2))
	db := w.open()
	tab := newTable(t, db, "t", 8, 16, 1200)
	for i := 0; i < 1000; i += 2 {
		put(t, db, tab, u64(i), fmt.Sprint(i))
	}
	makers := []func(*txn.Table, []byte) txn.Ref{txn.ForRead, txn.ForUpdate, txn.ForInsert}
	for _, n := range []int{1, 2, 15, 16, 17, 18, 63, 64, 65, 127, 128, 129, 257, 500} {
		for _, modes := range [][]int{{0}, {1}, {2}, {0, 1, 2}} {
			for _, cold := range []bool{false, true} {
				t.Run(name(n, "keys", "modes", modes, "cold", cold), func(t *testing.T) {
					db, tab := db, tab
					if cold {
						db = w.open(func(o *txn.Options) { o.AddressCache = 8 })
						tab = newTable(t, db, "t", 8, 16, 1200)
						defer db.Close()
					}
					rnd := rand.New(rand.NewPCG(uint64(n), uint64(len(modes))))
					var refs []txn.Ref
					for i := range n {
						refs = append(refs, makers[modes[i%len(modes)]](tab, u64(i)))
					}
					for range n / 4 { // duplicates, in other modes
						i := rnd.IntN(n)
						refs = append(refs, makers[modes[rnd.IntN(len(modes))]](tab, u64(i)))
					}
					rnd.Shuffle(len(refs), func(i, j int) { refs[i], refs[j] = refs[j], refs[i] })
					err := db.Update(context.Background(), func(tx *txn.Tx) error {
						if err := tx.Fetch(refs...); err != nil {
							return err
						}
						if err := tx.Fetch(refs...); err != nil { // again: nothing is left to fetch
							return err
						}
						for i := range n {
							v, err := tx.Get(tab, u64(i))
							if i%2 == 0 && (err != nil || string(v) != fmt.Sprint(i)) || i%2 == 1 && !errors.Is(err, txn.ErrNotFound) {
								t.Errorf("key %d: %q, %v", i, v, err)
							}
						}
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
	w.sound(db, map[string]int{"t": 500})
}

// A whole Fetch is one round trip where the addresses are known, whatever the
// modes, and Get after it costs nothing.
func TestFetchThenWriteAll(t *testing.T) {
	w := newWorld(t, roomy(3, 3))
	db := w.open()
	tab := newTable(t, db, "t", 8, 16, 1200)
	const n = 300
	for i := range n {
		put(t, db, tab, u64(i), "old")
	}
	update(t, db, func(tx *txn.Tx) error {
		var refs []txn.Ref
		for i := range n {
			refs = append(refs, txn.ForUpdate(tab, u64(i)), txn.ForInsert(tab, u64(n+i)))
		}
		if err := tx.Fetch(refs...); err != nil {
			return err
		}
		for i := range n {
			switch i % 3 {
			case 0:
				if err := tx.Put(tab, u64(i), []byte("new")); err != nil {
					return err
				}
			case 1:
				if err := tx.Delete(tab, u64(i)); err != nil {
					return err
				}
			}
			if err := tx.Insert(tab, u64(n+i), []byte("inserted")); err != nil {
				return err
			}
		}
		return nil
	})
	for i := range n {
		if got, want := read(t, db, tab, u64(i)), []string{"new", absent, "old"}[i%3]; got != want {
			t.Errorf("key %d is %q, want %q", i, got, want)
		}
		if got := read(t, db, tab, u64(n+i)); got != "inserted" {
			t.Errorf("key %d is %q, want %q", n+i, got, "inserted")
		}
	}
	w.sound(db, map[string]int{"t": 2*n - n/3})
}

// A bad reference makes the whole Fetch fail and leaves everything as it was: the
// transaction goes on.
func TestFetchWithABadReference(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db := w.open()
	tab := newTable(t, db, "t", 8, 16, 64)
	put(t, db, tab, u64(1), "one")
	put(t, db, tab, u64(2), "two")
	other := newTable(t, newDB(t), "t", 8, 16, 64)
	for bad, ref := range map[string]txn.Ref{
		"long key":               txn.ForRead(tab, make([]byte, 9)),
		"empty key":              txn.ForUpdate(tab, nil),
		"nil table":              txn.ForInsert(nil, u64(1)),
		"table of another DB":    txn.ForRead(other, u64(1)),
		"reference without key":  {},
		"long key to be updated": txn.ForUpdate(tab, make([]byte, 100)),
	} {
		for before, fn := range map[string]func(tx *txn.Tx) error{
			"nothing":      func(*txn.Tx) error { return nil },
			"Get":          func(tx *txn.Tx) error { _, err := tx.Get(tab, u64(1)); return err },
			"GetForUpdate": func(tx *txn.Tx) error { _, err := tx.GetForUpdate(tab, u64(1)); return err },
			"Put":          func(tx *txn.Tx) error { return tx.Put(tab, u64(1), []byte("one")) },
		} {
			t.Run(name(bad, "after", before), func(t *testing.T) {
				update(t, db, func(tx *txn.Tx) error {
					if err := fn(tx); err != nil {
						return err
					}
					if err := tx.Fetch(txn.ForUpdate(tab, u64(1)), txn.ForInsert(tab, u64(3)), txn.ForRead(tab, u64(2)), ref); err == nil {
						t.Error("Fetch succeeded")
					}
					for i, want := range map[int]string{1: "one", 2: "two"} {
						if v, err := tx.Get(tab, u64(i)); err != nil || string(v) != want {
							t.Errorf("key %d is %q, %v after the bad Fetch, want %q", i, v, err, want)
						}
					}
					if _, err := tx.Get(tab, u64(3)); !errors.Is(err, txn.ErrNotFound) {
						t.Errorf("key 3: %v, want ErrNotFound", err)
					}
					return tx.Put(tab, u64(1), []byte("one"))
				})
			})
		}
	}
	w.sound(db, map[string]int{"t": 2})
}

// Nothing to fetch is no error.
func TestFetchOfNothing(t *testing.T) {
	db := newDB(t)
	if err := db.View(context.Background(), func(tx *txn.Tx) error { return tx.Fetch() }); err != nil {
		t.Error(err)
	}
}

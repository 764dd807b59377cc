package txn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"fjord/txn"
)

// What Get returns stays as it was until the transaction ends, whatever the
// transaction does to the key meanwhile.
func TestValueOfGetSurvivesLaterWrites(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db := w.open()
	tab := newTable(t, db, "t", 8, 32, 64)
	gets := map[string]func(tx *txn.Tx, key []byte) ([]byte, error){
		"Get":          func(tx *txn.Tx, key []byte) ([]byte, error) { return tx.Get(tab, key) },
		"GetForUpdate": func(tx *txn.Tx, key []byte) ([]byte, error) { return tx.GetForUpdate(tab, key) },
		"Fetch and Get": func(tx *txn.Tx, key []byte) ([]byte, error) {
			if err := tx.Fetch(txn.ForUpdate(tab, key)); err != nil {
				return nil, err
			}
			return tx.Get(tab, key)
		},
		"Put and Get": func(tx *txn.Tx, key []byte) ([]byte, error) {
			if err := tx.Put(tab, key, []byte("first")); err != nil {
				return nil, err
			}
			return tx.Get(tab, key)
		},
	}
	changes := map[string]func(tx *txn.Tx, key []byte) error{
		"Put":          func(tx *txn.Tx, key []byte) error { return tx.Put(tab, key, []byte("other")) },
		"longer Put":   func(tx *txn.Tx, key []byte) error { return tx.Put(tab, key, []byte("something long")) },
		"Delete":       func(tx *txn.Tx, key []byte) error { return tx.Delete(tab, key) },
		"GetForUpdate": func(tx *txn.Tx, key []byte) error { _, err := tx.GetForUpdate(tab, key); return err },
		"Delete and Insert": func(tx *txn.Tx, key []byte) error {
			return errors.Join(tx.Delete(tab, key), tx.Insert(tab, key, []byte("again")))
		},
		"other keys": func(tx *txn.Tx, key []byte) error {
			for i := range 40 {
				if err := tx.Put(tab, u64(100+i), []byte("xxxxxxxxxxxxxxxxxxxxxxxx")); err != nil {
					return err
				}
			}
			return nil
		},
	}
	for g, get := range gets {
		for c, change := range changes {
			t.Run(name(g, "then", c), func(t *testing.T) {
				put(t, db, tab, u64(1), "first")
				update(t, db, func(tx *txn.Tx) error {
					v, err := get(tx, u64(1))
					if err != nil {
						return err
					}
					if err := change(tx, u64(1)); err != nil {
						return err
					}
					if string(v) != "first" {
						t.Errorf("the value got before is now %q, want it to stay %q", v, "first")
					}
					return nil
				})
			})
		}
	}
	w.sound(db, nil)
}

// A caller may scribble over what Get returned: without a Put nothing of it is
// written, and neither the undo log nor any copy is damaged.
func TestChangingValueOfGetWritesNothing(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	// The cache remembers few addresses: most keys are found by way of their buckets.
	db := w.open(func(o *txn.Options) { o.AddressCache = 8 })
	tab := newTable(t, db, "t", 8, 32, 64)
	scribble := func(v []byte) {
		for i := range v[:cap(v)] {
			v[:cap(v)][i] ^= 0xff
		}
	}
	for _, c := range []struct {
		name string
		fn   func(tx *txn.Tx) error
		want string
	}{
		{"Get", func(tx *txn.Tx) error {
			v, err := tx.Get(tab, u64(1))
			scribble(v)
			return err
		}, "first"},
		{"GetForUpdate", func(tx *txn.Tx) error {
			v, err := tx.GetForUpdate(tab, u64(1))
			scribble(v)
			return err
		}, "first"},
		{"Get, then GetForUpdate", func(tx *txn.Tx) error {
			v, err := tx.Get(tab, u64(1))
			scribble(v)
			if err != nil {
				return err
			}
			v, err = tx.GetForUpdate(tab, u64(1))
			if string(v) != "first" {
				t.Errorf("GetForUpdate returns %q, want %q, read anew", v, "first")
			}
			return err
		}, "first"},
		{"Get before a Put", func(tx *txn.Tx) error {
			v, err := tx.Get(tab, u64(1))
			if err != nil {
				return err
			}
			scribble(v)
			return tx.Put(tab, u64(1), []byte("second"))
		}, "second"},
		{"GetForUpdate, after a Put", func(tx *txn.Tx) error {
			v, err := tx.GetForUpdate(tab, u64(1))
			if err != nil {
				return err
			}
			err = tx.Put(tab, u64(1), []byte("second"))
			scribble(v)
			return err
		}, "second"},
		{"Get after a Put", func(tx *txn.Tx) error {
			if err := tx.Put(tab, u64(1), []byte("second")); err != nil {
				return err
			}
			v, err := tx.Get(tab, u64(1))
			scribble(v)
			return err
		}, "second"},
		{"what was put in place, after the Put", func(tx *txn.Tx) error {
			v, err := tx.GetForUpdate(tab, u64(1))
			if err != nil {
				return err
			}
			copy(v, "FIRST")
			err = tx.Put(tab, u64(1), v)
			scribble(v)
			return err
		}, "FIRST"},
		{"a neighbour in the bucket, then delete", func(tx *txn.Tx) error {
			for i := 2; i < 40; i++ { // found by way of their buckets: their values are views of those
				v, err := tx.Get(tab, u64(i))
				if err != nil {
					return err
				}
				scribble(v)
			}
			return tx.Delete(tab, u64(1))
		}, absent},
	} {
		t.Run(name(c.name), func(t *testing.T) {
			put(t, db, tab, u64(1), "first")
			for i := 2; i < 40; i++ {
				put(t, db, tab, u64(i), "neighbour")
			}
			update(t, db, c.fn)
			if got := read(t, db, tab, u64(1)); got != c.want {
				t.Errorf("the key is %q, want %q", got, c.want)
			}
			for i := 2; i < 40; i++ {
				if got := read(t, db, tab, u64(i)); got != "neighbour" {
					t.Errorf("neighbour %d is %q", i, got)
				}
			}
			w.sound(db, nil)
		})
	}
}

// Put may be given the very slice that Get returned, changed, shortened or
// lengthened in place.
func TestPutOfValueOfGet(t *testing.T) {
	db := newDB(t)
	tab := newTable(t, db, "t", 8, 32, 64)
	for _, c := range []struct {
		name string
		edit func(v []byte) []byte
		want string
	}{
		{"changed", func(v []byte) []byte { v[0] = 'X'; return v }, "Xbcdef"},
		{"prefix", func(v []byte) []byte { return v[:2] }, "ab"},
		{"suffix", func(v []byte) []byte { return v[3:] }, "def"},
		{"nothing", func(v []byte) []byte { return v[:0] }, ""},
		{"appended", func(v []byte) []byte { return append(v, "ghi"...) }, "abcdefghi"},
	} {
		for _, twice := range []bool{false, true} {
			t.Run(name(c.name, "twice", twice), func(t *testing.T) {
				put(t, db, tab, u64(1), "abcdef")
				update(t, db, func(tx *txn.Tx) error {
					v, err := tx.GetForUpdate(tab, u64(1))
					if err != nil {
						return err
					}
					if twice {
						if err := tx.Put(tab, u64(1), v); err != nil {
							return err
						}
						if v, err = tx.Get(tab, u64(1)); err != nil {
							return err
						}
					}
					return tx.Put(tab, u64(1), c.edit(v))
				})
				if got := read(t, db, tab, u64(1)); got != c.want {
					t.Errorf("got %q, want %q", got, c.want)
				}
			})
		}
	}
}

// Keys and values are copied before a method returns: the caller may reuse his
// buffers at once.
func TestCallersBuffersAreCopied(t *testing.T) {
	db := newDB(t)
	tab := newTable(t, db, "t", 8, 32, 64)
	key, value := make([]byte, 8), make([]byte, 12)
	with := func(n int, fn func() error) error {
		copy(key, u64(n))
		copy(value, fmt.Sprintf("value %6d", n))
		err := fn()
		clear(key)
		clear(value)
		return err
	}
	update(t, db, func(tx *txn.Tx) error {
		var errs []error
		for n := range 10 {
			errs = append(errs,
				with(n, func() error { return tx.Put(tab, key, value) }),
				with(n+10, func() error { return tx.Insert(tab, key, value) }),
				with(n+20, func() error { return tx.Insert(tab, key, value) }),
				with(n+20, func() error { return tx.Delete(tab, key) }),
				with(n+10, func() error { _, err := tx.GetForUpdate(tab, key); return err }),
			)
		}
		refs := make([]txn.Ref, 0, 3)
		errs = append(errs, with(40, func() error {
			refs = append(refs, txn.ForUpdate(tab, key), txn.ForInsert(tab, key), txn.ForRead(tab, key))
			return tx.Fetch(refs...)
		}))
		clear(refs)
		errs = append(errs, with(40, func() error { return tx.Insert(tab, key, value) }))
		return errors.Join(errs...)
	})
	for n := range 50 {
		want := absent
		if n < 20 || n == 40 {
			want = fmt.Sprintf("value %6d", n)
		}
		if got := read(t, db, tab, u64(n)); got != want {
			t.Errorf("key %d is %q, want %q", n, got, want)
		}
	}
}

// Values of every length, and keys of every length, also such as are prefixes of
// each other, are kept byte by byte.
func TestLengths(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db := w.open()
	for _, size := range []struct{ key, value int }{{1, 0}, {1, 1}, {7, 9}, {8, 16}, {9, 64}, {40, 100}} {
		t.Run(name("key", size.key, "value", size.value), func(t *testing.T) {
			tab := newTable(t, db, name("t", size.key, size.value), size.key, size.value, 600)
			fill := func(b byte, n int) []byte { return bytes.Repeat([]byte{b}, n) }
			want := make(map[string][]byte)
			check := func() {
				t.Helper()
				for k, v := range want {
					if got := read(t, db, tab, []byte(k)); got != string(v) {
						t.Fatalf("key %q (%d bytes): value has %d bytes, want %d: %q", k, len(k), len(got), len(v), got)
					}
				}
			}
			for _, b := range []byte{0, 'a'} { // zeros look like padding
				for n := 1; n <= size.key; n++ {
					v := fill(byte(n), n%(size.value+1))
					update(t, db, func(tx *txn.Tx) error { return tx.Insert(tab, fill(b, n), v) })
					want[string(fill(b, n))] = v
				}
			}
			check()
			for n := size.value; n >= 0; n-- {
				k := fill('a', 1+n%size.key)
				v := fill(0xee, n)
				update(t, db, func(tx *txn.Tx) error { return tx.Put(tab, k, v) })
				want[string(k)] = v
				if got := read(t, db, tab, k); got != string(v) {
					t.Fatalf("value of %d bytes reads as %q", n, got)
				}
			}
			check()
			w.sound(db, map[string]int{tab.Name(): len(want)})
		})
	}
}

// A nil value is one of no bytes, and not absence.
func TestEmptyValueIsThere(t *testing.T) {
	db := newDB(t)
	tab := newTable(t, db, "t", 8, 8, 8)
	update(t, db, func(tx *txn.Tx) error { return tx.Put(tab, u64(1), nil) })
	if got := read(t, db, tab, u64(1)); got != "" {
		t.Errorf("got %q, want an empty value", got)
	}
	update(t, db, func(tx *txn.Tx) error {
		wantErr(t, tx.Insert(tab, u64(1), nil), txn.ErrExists)
		return nil
	})
}

// After a conflict the function runs again in fresh memory: what an earlier run
// got is not to be used, but nothing of it leaks into the later one either.
func TestRerunStartsAfresh(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db, other := w.open(), w.open()
	tab := newTable(t, db, "t", 8, 32, 64)
	tab2 := newTable(t, other, "t", 8, 32, 64)
	put(t, db, tab, u64(1), "0")
	runs := 0
	update(t, db, func(tx *txn.Tx) error {
		runs++
		v, err := tx.Get(tab, u64(1))
		if err != nil {
			return err
		}
		if runs == 1 {
			put(t, other, tab2, u64(1), "other")
			if err := tx.Put(tab, u64(2), []byte("of the first run")); err != nil {
				return err
			}
		}
		return tx.Put(tab, u64(3), append(v, " seen"...))
	})
	if runs != 2 {
		t.Errorf("the function ran %d times, want 2", runs)
	}
	for k, want := range map[int]string{1: "other", 2: absent, 3: "other seen"} {
		if got := read(t, db, tab, u64(k)); got != want {
			t.Errorf("key %d is %q, want %q", k, got, want)
		}
	}
	if err := db.View(context.Background(), func(tx *txn.Tx) error {
		if tx.Attempt() != 1 || tx.LastConflict() != nil {
			t.Errorf("a first run has attempt %d, last conflict %v", tx.Attempt(), tx.LastConflict())
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

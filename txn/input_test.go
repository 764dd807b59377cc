package txn_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"fjord/txn"
)

// Every write is refused inside View, at once, and the View goes on.
func TestViewRefusesWrites(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db := w.open()
	tab := newTable(t, db, "t", 8, 16, 64)
	put(t, db, tab, u64(1), "one")
	err := db.View(context.Background(), func(tx *txn.Tx) error {
		_, err := tx.GetForUpdate(tab, u64(1))
		wantErr(t, err, txn.ErrReadOnly)
		wantErr(t, tx.Put(tab, u64(1), []byte("x")), txn.ErrReadOnly)
		wantErr(t, tx.Insert(tab, u64(2), []byte("x")), txn.ErrReadOnly)
		wantErr(t, tx.Delete(tab, u64(1)), txn.ErrReadOnly)
		wantErr(t, tx.Fetch(txn.ForRead(tab, u64(1)), txn.ForUpdate(tab, u64(1))), txn.ErrReadOnly)
		wantErr(t, tx.Fetch(txn.ForInsert(tab, u64(2))), txn.ErrReadOnly)
		v, err := tx.Get(tab, u64(1))
		if err != nil || string(v) != "one" {
			t.Errorf("Get after the refusals: %q, %v", v, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	w.sound(db, map[string]int{"t": 1})
}

// A key or value that is too long, or an empty key, is refused by every method.
// The text says which table, how long it is, and how long it may be. The
// transaction can go on, and nothing of what was refused is done.
func TestKeysAndValuesThatDoNotFit(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db := w.open()
	tab := newTable(t, db, "parcels", 8, 16, 64)
	update(t, db, func(tx *txn.Tx) error {
		for _, key := range [][]byte{nil, {}, make([]byte, 9), make([]byte, 1<<16)} {
			words := []string{`"parcels"`, "key has", "1 to 8"}
			_, err := tx.Get(tab, key)
			wantErr(t, err, txn.ErrTooLarge, words...)
			_, err = tx.GetForUpdate(tab, key)
			wantErr(t, err, txn.ErrTooLarge, words...)
			wantErr(t, tx.Put(tab, key, nil), txn.ErrTooLarge, words...)
			wantErr(t, tx.Insert(tab, key, nil), txn.ErrTooLarge, words...)
			wantErr(t, tx.Delete(tab, key), txn.ErrTooLarge, words...)
			wantErr(t, tx.Fetch(txn.ForRead(tab, key)), txn.ErrTooLarge, words...)
		}
		wantErr(t, tx.Put(tab, u64(1), make([]byte, 17)), txn.ErrTooLarge, `"parcels"`, "value has 17 bytes", "16 at most")
		wantErr(t, tx.Insert(tab, u64(2), make([]byte, 1<<20)), txn.ErrTooLarge, `"parcels"`, "1048576", "16 at most")
		if _, err := tx.Get(tab, u64(1)); !errors.Is(err, txn.ErrNotFound) {
			t.Errorf("Get of a key whose Put was refused: %v", err)
		}
		return tx.Put(tab, u64(3), []byte("fits"))
	})
	for n, want := range map[int]string{1: absent, 2: absent, 3: "fits"} {
		if got := read(t, db, tab, u64(n)); got != want {
			t.Errorf("key %d is %q, want %q", n, got, want)
		}
	}
	w.sound(db, map[string]int{"parcels": 1})
}

// A nil handle, one of another DB, and one of no DB at all are refused.
func TestForeignTables(t *testing.T) {
	db, other := newDB(t), newDB(t)
	tab := newTable(t, db, "t", 8, 16, 64)
	for what, bad := range map[string]*txn.Table{"nil": nil, "another DB's": newTable(t, other, "t", 8, 16, 64), "zero": {}} {
		t.Run(what, func(t *testing.T) {
			update(t, db, func(tx *txn.Tx) error {
				_, err := tx.Get(bad, u64(1))
				wantErr(t, err, txn.ErrNoTable)
				_, err = tx.GetForUpdate(bad, u64(1))
				wantErr(t, err, txn.ErrNoTable)
				wantErr(t, tx.Put(bad, u64(1), nil), txn.ErrNoTable)
				wantErr(t, tx.Insert(bad, u64(1), nil), txn.ErrNoTable)
				wantErr(t, tx.Delete(bad, u64(1)), txn.ErrNoTable)
				wantErr(t, tx.Fetch(txn.ForRead(bad, u64(1))), txn.ErrNoTable)
				return tx.Put(tab, u64(1), []byte("fine"))
			})
		})
	}
}

// What is wrong with a schema is told with the field, the value, and the bounds.
func TestBadSchemas(t *testing.T) {
	db := newDB(t)
	good := txn.Schema{Name: "t", KeySize: 8, ValueSize: 8, Capacity: 10}
	for _, c := range []struct {
		name   string
		change func(s *txn.Schema)
		words  []string
	}{
		{"no name", func(s *txn.Schema) { s.Name = "" }, []string{"Name", `""`, "1 to 64"}},
		{"long name", func(s *txn.Schema) { s.Name = strings.Repeat("n", 65) }, []string{"Name", "65 bytes", "1 to 64"}},
		{"no key", func(s *txn.Schema) { s.KeySize = 0 }, []string{`"t"`, "KeySize is 0", "1 to 1024"}},
		{"negative key", func(s *txn.Schema) { s.KeySize = -1 }, []string{"KeySize is -1", "1 to 1024"}},
		{"long key", func(s *txn.Schema) { s.KeySize = 1025 }, []string{"KeySize is 1025", "1 to 1024"}},
		{"negative value", func(s *txn.Schema) { s.ValueSize = -1 }, []string{"ValueSize is -1", "0 to 1048576"}},
		{"long value", func(s *txn.Schema) { s.ValueSize = 1<<20 + 1 }, []string{"ValueSize is 1048577", "0 to 1048576"}},
		{"no capacity", func(s *txn.Schema) { s.Capacity = 0 }, []string{"Capacity is 0", "1 to"}},
		{"negative capacity", func(s *txn.Schema) { s.Capacity = -7 }, []string{"Capacity is -7", "1 to"}},
	} {
		t.Run(name(c.name), func(t *testing.T) {
			s := good
			c.change(&s)
			_, err := db.CreateTable(context.Background(), s)
			wantErr(t, err, txn.ErrSchema, c.words...)
		})
	}
	all, err := db.Tables(context.Background())
	if err != nil || len(all) != 0 {
		t.Errorf("tables after refused schemas: %v, %v", all, err)
	}
	long := good
	long.Name = strings.Repeat("n", 64)
	if _, err := db.CreateTable(context.Background(), long); err != nil {
		t.Errorf("a name of 64 bytes: %v", err)
	}
}

// A record that could not be changed or deleted once it is there, since its old
// image fits into no log slot, is refused when its table is made.
func TestRecordsLargerThanALogSlotAreRefused(t *testing.T) {
	c := shape(3, 3) // log slots of 16 KiB
	c.NodeMemory = 24 << 20
	w := newWorld(t, c)
	db := w.open()
	ctx := context.Background()
	_, err := db.CreateTable(ctx, txn.Schema{Name: "large", KeySize: 8, ValueSize: 16 << 10, Capacity: 4})
	wantErr(t, err, txn.ErrSchema, `"large"`, "16384")

	// The largest that is accepted lives a whole life.
	size := 16 << 10
	var tab *txn.Table
	for ; size > 0; size -= 64 {
		if tab, err = db.CreateTable(ctx, txn.Schema{Name: "t", KeySize: 8, ValueSize: size, Capacity: 20}); err == nil {
			break
		}
		wantErr(t, err, txn.ErrSchema)
	}
	if size < 15<<10 {
		t.Errorf("the largest value accepted has %d bytes, want nearly the log slot", size)
	}
	value := make([]byte, size)
	for i := range 20 {
		update(t, db, func(tx *txn.Tx) error { return tx.Insert(tab, u64(i), value) })
	}
	for i := range 20 {
		update(t, db, func(tx *txn.Tx) error { return tx.Put(tab, u64(i), value) })
	}
	for i := range 20 {
		update(t, db, func(tx *txn.Tx) error { return tx.Delete(tab, u64(i)) })
	}
	w.sound(db, map[string]int{"t": 0})
}

// Methods of a hand-ended transaction are refused inside Update and View, whose
// function ends by returning.
func TestCommitAndAbortInsideUpdate(t *testing.T) {
	db := newDB(t)
	tab := newTable(t, db, "t", 8, 16, 64)
	fn := func(tx *txn.Tx) error {
		wantErr(t, tx.Commit(context.Background()), txn.ErrOptions, "Begin")
		wantErr(t, tx.Abort(), txn.ErrOptions, "Begin")
		_, err := tx.Get(tab, u64(1))
		if errors.Is(err, txn.ErrNotFound) {
			return nil
		}
		return err
	}
	update(t, db, fn)
	if err := db.View(context.Background(), fn); err != nil {
		t.Error(err)
	}
	update(t, db, func(tx *txn.Tx) error {
		if err := tx.Put(tab, u64(1), []byte("x")); err != nil {
			return err
		}
		wantErr(t, tx.Commit(context.Background()), txn.ErrOptions)
		return nil
	})
	if got := read(t, db, tab, u64(1)); got != "x" {
		t.Errorf("key is %q after a refused Commit, want the Update's own", got)
	}
}

// An error of the user's function undoes the transaction and comes out as it is.
func TestUsersErrorUndoes(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db := w.open()
	tab := newTable(t, db, "t", 8, 16, 64)
	put(t, db, tab, u64(1), "one")
	mine := errors.New("mine")
	for what, fn := range map[string]func(tx *txn.Tx) error{
		"after nothing": func(*txn.Tx) error { return nil },
		"after Put":     func(tx *txn.Tx) error { return tx.Put(tab, u64(1), []byte("x")) },
		"after Insert":  func(tx *txn.Tx) error { return tx.Insert(tab, u64(2), []byte("x")) },
		"after Delete":  func(tx *txn.Tx) error { return tx.Delete(tab, u64(1)) },
	} {
		t.Run(name(what), func(t *testing.T) {
			err := db.Update(context.Background(), func(tx *txn.Tx) error {
				if err := fn(tx); err != nil {
					t.Error(err)
				}
				return mine
			})
			if err != mine {
				t.Errorf("Update returned %v, want the very error of the function", err)
			}
			for n, want := range map[int]string{1: "one", 2: absent} {
				if got := read(t, db, tab, u64(n)); got != want {
					t.Errorf("key %d is %q, want %q", n, got, want)
				}
			}
			w.sound(db, map[string]int{"t": 1})
		})
	}
}

// ErrExists and ErrNotFound end an Update whose function passes them on, but do
// not harm one whose function does not.
func TestExpectedErrorsCanBeSwallowed(t *testing.T) {
	db := newDB(t)
	tab := newTable(t, db, "t", 8, 16, 64)
	put(t, db, tab, u64(1), "one")
	ctx := context.Background()
	if err := db.Update(ctx, func(tx *txn.Tx) error { return tx.Insert(tab, u64(1), nil) }); !errors.Is(err, txn.ErrExists) {
		t.Errorf("got %v, want ErrExists", err)
	}
	if err := db.Update(ctx, func(tx *txn.Tx) error { return tx.Delete(tab, u64(2)) }); !errors.Is(err, txn.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	update(t, db, func(tx *txn.Tx) error {
		wantErr(t, tx.Insert(tab, u64(1), nil), txn.ErrExists)
		wantErr(t, tx.Delete(tab, u64(2)), txn.ErrNotFound)
		return tx.Put(tab, u64(3), []byte("three"))
	})
	if got := read(t, db, tab, u64(3)); got != "three" {
		t.Errorf("got %q, want %q", got, "three")
	}
}

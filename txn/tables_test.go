package txn_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fjord/txn"
)

// CreateTable of a table that exists returns it if the schema is the same, to
// every DB of the cluster, and says what differs if not.
func TestCreateTableAgain(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db, other := w.open(), w.open()
	ctx := context.Background()
	s := txn.Schema{Name: "t", KeySize: 8, ValueSize: 16, Capacity: 10}
	first, err := db.CreateTable(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	if first.Schema() != s || first.Name() != "t" || first.String() != "t" {
		t.Errorf("table is %v with schema %+v", first, first.Schema())
	}
	if again, err := db.CreateTable(ctx, s); err != nil || again != first {
		t.Errorf("the same schema: %v, %v; want the same handle", again, err)
	}
	if found, err := db.Table(ctx, "t"); err != nil || found != first {
		t.Errorf("Table: %v, %v; want the same handle", found, err)
	}
	theirs, err := other.CreateTable(ctx, s)
	if err != nil {
		t.Errorf("the same schema at another DB: %v", err)
	}
	put(t, db, first, u64(1), "x")
	if got := read(t, other, theirs, u64(1)); got != "x" {
		t.Errorf("the other DB reads %q", got)
	}
	for _, db := range []*txn.DB{db, other} {
		for _, c := range []struct {
			change func(s *txn.Schema)
			words  []string
		}{
			{func(s *txn.Schema) { s.KeySize = 9 }, []string{`"t"`, "KeySize is 8, not 9"}},
			{func(s *txn.Schema) { s.ValueSize = 17 }, []string{`"t"`, "ValueSize is 16, not 17"}},
			{func(s *txn.Schema) { s.Capacity = 11 }, []string{`"t"`, "Capacity is 10, not 11"}},
			{func(s *txn.Schema) { s.KeySize, s.Capacity = 7, 9 }, []string{"KeySize is 8, not 7", "Capacity is 10, not 9"}},
		} {
			bad := s
			c.change(&bad)
			_, err := db.CreateTable(ctx, bad)
			wantErr(t, err, txn.ErrSchema, c.words...)
		}
	}
	w.sound(db, map[string]int{"t": 1})
}

// A name that no table has is ErrNoTable, with the name.
func TestUnknownTable(t *testing.T) {
	db := newDB(t)
	ctx := context.Background()
	for _, n := range []string{"nobody", "", string(make([]byte, 100))} {
		_, err := db.Table(ctx, n)
		wantErr(t, err, txn.ErrNoTable, fmt.Sprintf("%q", n))
		wantErr(t, db.DropTable(ctx, n), txn.ErrNoTable, fmt.Sprintf("%q", n))
	}
}

// Tables returns all tables, sorted by name.
func TestTablesAreSorted(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db := w.open()
	ctx := context.Background()
	var want []string
	for i := range 60 {
		n := fmt.Sprintf("table %02d", i*37%60)
		newTable(t, db, n, 8, 0, 1)
		want = append(want, n)
	}
	slices.Sort(want)
	for _, db := range []*txn.DB{db, w.open()} {
		all, err := db.Tables(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, tab := range all {
			got = append(got, tab.Name())
		}
		if !slices.Equal(got, want) {
			t.Errorf("tables %q, want %q", got, want)
		}
	}
	w.sound(db, nil)
}

// A capacity for which there is no room is ErrFull with both numbers, and what
// would help; the cluster is as before.
func TestNoRoomForATable(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db := w.open()
	ctx := context.Background()
	_, err := db.CreateTable(ctx, txn.Schema{Name: "huge", KeySize: 8, ValueSize: 16, Capacity: 1 << 30})
	wantErr(t, err, txn.ErrFull, `"huge"`, "1073741824", "NodeMemory")
	n := 0
	for {
		_, err = db.CreateTable(ctx, txn.Schema{Name: fmt.Sprint("t", n), KeySize: 8, ValueSize: 16, Capacity: 8000})
		if err != nil {
			break
		}
		n++
	}
	wantErr(t, err, txn.ErrFull, fmt.Sprintf(`"t%d"`, n), "8000", "NodeMemory")
	if n == 0 {
		t.Error("not one table of 8000 records fits")
	}
	if all, err := db.Tables(ctx); err != nil || len(all) != n {
		t.Errorf("%d tables, %v; want %d", len(all), err, n)
	}
	w.sound(db, nil)
}

// DropTable makes every handle useless, at every DB, and the name is free for
// another schema.
func TestDropTable(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db, other := w.open(), w.open()
	ctx := context.Background()
	mine, theirs := newTable(t, db, "t", 8, 16, 10), newTable(t, other, "t", 8, 16, 10)
	for i := range 10 {
		put(t, db, mine, u64(i), "old")
	}
	if got := read(t, other, theirs, u64(3)); got != "old" {
		t.Fatalf("got %q", got)
	}
	if err := db.DropTable(ctx, "t"); err != nil {
		t.Fatal(err)
	}
	stale := func() {
		t.Helper()
		for _, s := range []struct {
			db  *txn.DB
			tab *txn.Table
		}{{db, mine}, {other, theirs}} {
			err := s.db.View(ctx, func(tx *txn.Tx) error { _, err := tx.Get(s.tab, u64(3)); return err })
			wantErr(t, err, txn.ErrNoTable, `"t"`, "dropped")
			err = s.db.Update(ctx, func(tx *txn.Tx) error { return tx.Put(s.tab, u64(3), []byte("zombie")) })
			wantErr(t, err, txn.ErrNoTable, `"t"`, "dropped")
		}
	}
	stale()
	for _, db := range []*txn.DB{db, other} {
		_, err := db.Table(ctx, "t")
		wantErr(t, err, txn.ErrNoTable, `"t"`)
		wantErr(t, db.DropTable(ctx, "t"), txn.ErrNoTable, `"t"`)
	}
	w.sound(db, nil)

	fresh := newTable(t, other, "t", 4, 40, 100)
	stale()
	if got := read(t, other, fresh, []byte("k")); got != absent {
		t.Errorf("a fresh table has %q", got)
	}
	put(t, other, fresh, []byte("k"), "new")
	if got := read(t, db, newTable(t, db, "t", 4, 40, 100), []byte("k")); got != "new" {
		t.Errorf("got %q from the table made anew, want %q", got, "new")
	}
	w.sound(db, map[string]int{"t": 1})
}

// Space of dropped tables is used again: a loop of create and drop goes on for
// ever, whatever the sizes, and leaves no piece behind.
func TestCreateAndDropForEver(t *testing.T) {
	rounds := 2000
	if raceEnabled {
		rounds = 50
	}
	w := newWorld(t, shape(3, 2))
	db := w.open()
	ctx := context.Background()
	keep := newTable(t, db, "keep", 8, 16, 100)
	put(t, db, keep, u64(1), "kept")
	for i := range rounds {
		s := txn.Schema{Name: fmt.Sprint("t", i%5), KeySize: 8 + i%7, ValueSize: i % 100, Capacity: 1 + i*7%2000}
		tab, err := db.CreateTable(ctx, s)
		if err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		put(t, db, tab, u64(i), "")
		if i >= 3 { // up to four live at once
			if err := db.DropTable(ctx, fmt.Sprint("t", (i-3)%5)); err != nil {
				t.Fatalf("round %d: %v", i, err)
			}
		}
	}
	if got := read(t, db, keep, u64(1)); got != "kept" {
		t.Errorf("the table beside is %q", got)
	}
	w.sound(db, map[string]int{"keep": 1})
}

// Many small tables, of which every second is dropped, leave more pieces of free
// space than the list of them holds: the drops that find no room there say so, and
// can be repeated once a neighbour is gone.
func TestDropThatShattersFreeSpace(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine, many tables: slow, and nothing to detect")
	}
	w := newWorld(t, shape(3, 3))
	db := w.open()
	ctx := context.Background()
	const n = 140
	for i := range n {
		newTable(t, db, fmt.Sprint("t", i), 8, 0, 1)
	}
	var refused []string
	for i := 0; i < n; i += 2 {
		name := fmt.Sprint("t", i)
		if err := db.DropTable(ctx, name); err != nil {
			wantErr(t, err, txn.ErrFull, name)
			refused = append(refused, name)
		}
		if _, err := db.Table(ctx, name); !errors.Is(err, txn.ErrNoTable) {
			t.Errorf("%s after the drop: %v, want it gone", name, err)
		}
	}
	for i := 1; i < n; i += 2 {
		if err := db.DropTable(ctx, fmt.Sprint("t", i)); err != nil {
			wantErr(t, err, txn.ErrFull)
			refused = append(refused, fmt.Sprint("t", i))
		}
	}
	for range 3 {
		left := refused[:0]
		for _, name := range refused {
			if err := db.DropTable(ctx, name); err != nil {
				left = append(left, name)
			}
		}
		refused = left
	}
	if len(refused) > 0 {
		t.Errorf("drops of %q never came to an end", refused)
	}
	// All space is one piece again.
	newTable(t, db, "large", 8, 16, 20_000)
	w.sound(db, nil)
}

// A drop waits for the transactions that use the table: they commit. Ones that
// come later find no table.
func TestDropWaitsForTransactions(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db, other := w.open(), w.open()
	ctx := context.Background()
	tab := newTable(t, other, "t", 8, 16, 10)
	keep := newTable(t, other, "keep", 8, 16, 10)
	tx, err := other.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Put(tab, u64(1), []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := tx.Put(keep, u64(1), []byte("x")); err != nil {
		t.Fatal(err)
	}
	var dropped atomic.Bool
	done := make(chan error)
	go func() {
		err := db.DropTable(ctx, "t")
		dropped.Store(true)
		done <- err
	}()
	time.Sleep(20 * time.Millisecond)
	if dropped.Load() {
		t.Error("DropTable returned while a transaction was using the table")
	}
	if err := tx.Commit(ctx); err != nil {
		t.Errorf("the transaction that ran before the drop: %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("drop: %v", err)
	}
	err = other.Update(ctx, func(tx *txn.Tx) error { return tx.Put(tab, u64(1), []byte("x")) })
	wantErr(t, err, txn.ErrNoTable)
	w.sound(db, map[string]int{"keep": 1})
}

// If the context of a drop ends while it waits, the table is gone, and its space
// comes back with the next drop or creation of that name.
func TestDropWhoseContextEnds(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db := w.open()
	ctx := context.Background()
	for round, finish := range []func() error{
		func() error { return db.DropTable(ctx, "t") },
		func() error {
			_, err := db.CreateTable(ctx, txn.Schema{Name: "t", KeySize: 8, ValueSize: 16, Capacity: 3000})
			return err
		},
	} {
		tab := newTable(t, db, "t", 8, 16, 3000) // more than half of the space
		tx, err := db.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Get(tab, u64(1)); !errors.Is(err, txn.ErrNotFound) {
			t.Error(err)
		}
		short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		wantErr(t, db.DropTable(short, "t"), context.DeadlineExceeded)
		cancel()
		_, err = db.Table(ctx, "t")
		wantErr(t, err, txn.ErrNoTable, `"t"`)
		if all, err := db.Tables(ctx); err != nil || len(all) != 0 {
			t.Errorf("round %d: tables %v, %v; want none", round, all, err)
		}
		if err := tx.Abort(); err != nil {
			t.Error(err)
		}
		if err := finish(); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		w.sound(db, nil)
	}
}

// Tables that are dropped and made anew under load: transactions see a table that
// is whole, or none. Drops of the same name by several coordinators at once do
// not harm what comes after them.
func TestDropUnderLoad(t *testing.T) {
	w := newWorld(t, shape(3, 2))
	dbs := []*txn.DB{w.open(), w.open(), w.open()}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	keep := newTable(t, dbs[0], "keep", 8, 16, 100)
	rounds := 150
	if raceEnabled {
		rounds = 25
	}
	allowed := func(err error) bool {
		return err == nil || errors.Is(err, txn.ErrNoTable) || errors.Is(err, txn.ErrSchema) || errors.Is(err, txn.ErrConflict)
	}
	var wg sync.WaitGroup
	var writes atomic.Int64
	for i, db := range dbs {
		wg.Go(func() { // creates, fills, drops
			for r := range rounds {
				tab, err := db.CreateTable(ctx, txn.Schema{Name: "t", KeySize: 8, ValueSize: 16 * (1 + r%3), Capacity: 50})
				if !allowed(err) {
					t.Errorf("create: %v", err)
					return
				}
				for k := range 30 {
					if err != nil {
						break
					}
					err = db.Update(ctx, func(tx *txn.Tx) error {
						if err := tx.Put(tab, u64(k), []byte("value")); err != nil {
							return err
						}
						return tx.Put(keep, u64(100*i), u64(r))
					})
					if !allowed(err) {
						t.Errorf("put: %v", err)
						return
					}
					if err != nil {
						break
					}
					writes.Add(1)
					verr := db.View(ctx, func(tx *txn.Tx) error {
						v, err := tx.Get(tab, u64(k))
						if err == nil && string(v) != "value" {
							return fmt.Errorf("key %d is %q", k, v)
						}
						return err
					})
					if !allowed(verr) && !errors.Is(verr, txn.ErrNotFound) {
						t.Errorf("get: %v", verr)
						return
					}
				}
				if err := db.DropTable(ctx, "t"); !allowed(err) {
					t.Errorf("drop: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	if writes.Load() == 0 {
		t.Error("not one write found its table")
	}
	t.Log(writes.Load(), "writes")
	if err := dbs[0].DropTable(ctx, "t"); !allowed(err) {
		t.Error(err)
	}
	w.sound(dbs[0], nil)
}

// Several coordinators drop a table at once, and one of them makes another, which
// gets the space. None of the drops may zero it after that.
func TestDropsAtOnceHarmNoSuccessor(t *testing.T) {
	rounds := 1000
	if raceEnabled {
		rounds = 60
	}
	w := newWorld(t, shape(2, 2))
	dbs := []*txn.DB{w.open(), w.open(), w.open()}
	ctx := context.Background()
	for round := range rounds {
		newTable(t, dbs[0], "t", 8, 16, 100)
		var wg sync.WaitGroup
		for i, db := range dbs {
			wg.Go(func() {
				if err := db.DropTable(ctx, "t"); err != nil && !errors.Is(err, txn.ErrNoTable) && !errors.Is(err, txn.ErrConflict) {
					t.Errorf("drop: %v", err)
				}
				if i != round%3 {
					return
				}
				tab, err := db.CreateTable(ctx, txn.Schema{Name: "successor", KeySize: 8, ValueSize: 16, Capacity: 100})
				if err == nil {
					err = db.Update(ctx, func(tx *txn.Tx) error { return tx.Insert(tab, u64(1), []byte("x")) })
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			return
		}
		db := dbs[round%3]
		if got := read(t, db, newTable(t, db, "successor", 8, 16, 100), u64(1)); got != "x" {
			t.Fatalf("round %d: the record of the table made after the drop is %q", round, got)
		}
		if err := db.DropTable(ctx, "successor"); err != nil {
			t.Fatal(err)
		}
	}
	w.sound(dbs[0], nil)
}

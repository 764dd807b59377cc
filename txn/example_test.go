package txn_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"sync"

	"fjord/txn"
)

// Money moves between two accounts, on three memory nodes that each hold a copy
// of everything.
func Example() {
	ctx := context.Background()
	db, err := txn.Open(ctx, txn.Options{}) // embedded: 3 memory nodes in this process
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	accounts, err := db.CreateTable(ctx, txn.Schema{Name: "accounts", KeySize: 8, ValueSize: 8, Capacity: 1000})
	if err != nil {
		log.Fatal(err)
	}
	alice, bob := []byte("alice"), []byte("bob")
	cents := func(v []byte) uint64 { return binary.BigEndian.Uint64(v) }
	err = db.Update(ctx, func(tx *txn.Tx) error {
		if err := tx.Insert(accounts, alice, binary.BigEndian.AppendUint64(nil, 100)); err != nil {
			return err
		}
		return tx.Insert(accounts, bob, binary.BigEndian.AppendUint64(nil, 50))
	})
	if err != nil {
		log.Fatal(err)
	}

	transfer := func(from, to []byte, amount uint64) error {
		return db.Update(ctx, func(tx *txn.Tx) error { // reruns on conflict
			if err := tx.Fetch(txn.ForUpdate(accounts, from), txn.ForUpdate(accounts, to)); err != nil { // one round trip
				return err
			}
			a, err := tx.Get(accounts, from)
			if err != nil {
				return err
			}
			b, err := tx.Get(accounts, to)
			if err != nil {
				return err
			}
			if cents(a) < amount {
				return fmt.Errorf("%s has only %d", from, cents(a)) // undoes everything
			}
			binary.BigEndian.PutUint64(a, cents(a)-amount)
			binary.BigEndian.PutUint64(b, cents(b)+amount)
			if err := tx.Put(accounts, from, a); err != nil {
				return err
			}
			return tx.Put(accounts, to, b)
		})
	}
	fmt.Println(transfer(alice, bob, 30))
	fmt.Println(transfer(alice, bob, 1000))

	err = db.View(ctx, func(tx *txn.Tx) error { // both as of one moment
		if err := tx.Fetch(txn.ForRead(accounts, alice), txn.ForRead(accounts, bob)); err != nil {
			return err
		}
		for _, who := range [][]byte{alice, bob} {
			v, err := tx.Get(accounts, who)
			if err != nil {
				return err
			}
			fmt.Printf("%s: %d\n", who, cents(v))
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// <nil>
	// alice has only 70
	// alice: 70
	// bob: 80
}

// open is what the shorter examples begin with.
func open() (*txn.DB, *txn.Table) {
	ctx := context.Background()
	db, err := txn.Open(ctx, txn.Options{MemoryNodes: 1})
	if err != nil {
		log.Fatal(err)
	}
	t, err := db.CreateTable(ctx, txn.Schema{Name: "words", KeySize: 16, ValueSize: 64, Capacity: 100})
	if err != nil {
		log.Fatal(err)
	}
	return db, t
}

// Records come and go. What a key must be, or must not be, is an error otherwise.
func ExampleTx_Insert() {
	db, words := open()
	defer db.Close()
	ctx := context.Background()
	err := db.Update(ctx, func(tx *txn.Tx) error {
		if err := tx.Insert(words, []byte("fjord"), []byte("a long narrow inlet")); err != nil {
			return err
		}
		err := tx.Insert(words, []byte("fjord"), []byte("something else"))
		fmt.Println("again:", err)
		return nil
	})
	fmt.Println("committed:", err == nil)

	err = db.Update(ctx, func(tx *txn.Tx) error { return tx.Delete(words, []byte("fjord")) })
	fmt.Println("deleted:", err == nil)
	err = db.Update(ctx, func(tx *txn.Tx) error { return tx.Delete(words, []byte("fjord")) })
	fmt.Println("deleted again:", errors.Is(err, txn.ErrNotFound))
	// Output:
	// again: txn: exists already
	// committed: true
	// deleted: true
	// deleted again: true
}

// Put writes a key whether it is there or not, without having read it: the
// cheapest way to write, two round trips for any number of keys.
func ExampleTx_Put() {
	db, words := open()
	defer db.Close()
	ctx := context.Background()
	for _, v := range []string{"one", "two"} {
		if err := db.Update(ctx, func(tx *txn.Tx) error { return tx.Put(words, []byte("last"), []byte(v)) }); err != nil {
			log.Fatal(err)
		}
	}
	_ = db.View(ctx, func(tx *txn.Tx) error {
		v, err := tx.Get(words, []byte("last"))
		fmt.Printf("%s %v\n", v, err)
		_, err = tx.Get(words, []byte("first"))
		fmt.Println(errors.Is(err, txn.ErrNotFound))
		return nil
	})
	// Output:
	// two <nil>
	// true
}

// A transaction can be ended by hand, where a function would be in the way. It is
// not run again: on ErrConflict the caller begins another.
func ExampleDB_Begin() {
	db, words := open()
	defer db.Close()
	ctx := context.Background()
	for {
		tx, err := db.Begin(ctx)
		if err != nil {
			log.Fatal(err)
		}
		err = tx.Put(words, []byte("key"), []byte("value"))
		if err == nil {
			err = tx.Commit(ctx)
		}
		_ = tx.Abort() // does nothing after Commit
		if errors.Is(err, txn.ErrConflict) {
			continue
		}
		fmt.Println("committed:", err == nil)
		break
	}
	// Output:
	// committed: true
}

// Update runs its function again when another transaction was faster. So it must
// be idempotent: what it does outside of the database happens in every run.
func ExampleDB_Update_conflict() {
	db, words := open()
	defer db.Close()
	ctx := context.Background()
	key := []byte("counter")
	if err := db.Update(ctx, func(tx *txn.Tx) error { return tx.Put(words, key, []byte{0}) }); err != nil {
		log.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			for range 20 {
				err := db.Update(ctx, func(tx *txn.Tx) error {
					if c := tx.LastConflict(); c != nil && (c.Table != "words" || string(c.Key) != "counter") {
						return fmt.Errorf("attempt %d: lost over %v", tx.Attempt(), c)
					}
					v, err := tx.GetForUpdate(words, key) // locks it: others conflict at once
					if err != nil {
						return err
					}
					v[0]++
					return tx.Put(words, key, v)
				})
				if err != nil {
					fmt.Println(err) // after 1000 conflicts, say
				}
			}
		})
	}
	wg.Wait()
	_ = db.View(ctx, func(tx *txn.Tx) error {
		v, err := tx.Get(words, key)
		fmt.Println(v, err)
		return err
	})
	// Output:
	// [200] <nil>
}

// Stats tell what was done and what it cost. Differences of two snapshots belong
// to what happened between them.
func ExampleDB_Stats() {
	db, words := open()
	defer db.Close()
	ctx := context.Background()
	update := func() {
		err := db.Update(ctx, func(tx *txn.Tx) error {
			v, err := tx.GetForUpdate(words, []byte("key"))
			if errors.Is(err, txn.ErrNotFound) {
				return tx.Insert(words, []byte("key"), []byte("value"))
			}
			if err != nil {
				return err
			}
			return tx.Put(words, []byte("key"), v)
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	update() // inserts
	before := db.Stats()
	update()
	s := db.Stats().Sub(before)
	fmt.Println("committed:", s.Committed)
	fmt.Println("keys found at their cached address:", s.Hits)
	fmt.Println("round trips:", s.Verbs.RoundTrips)
	fmt.Println("verbs:", s.Verbs.CAS, "CAS,", s.Verbs.Read, "READ,", s.Verbs.Write, "WRITE")
	// Output:
	// committed: 1
	// keys found at their cached address: 1
	// round trips: 2
	// verbs: 1 CAS, 1 READ, 3 WRITE
}

// A table that exists is returned, if its schema is the one asked for.
func ExampleDB_CreateTable() {
	db, _ := open()
	defer db.Close()
	ctx := context.Background()
	_, err := db.CreateTable(ctx, txn.Schema{Name: "words", KeySize: 16, ValueSize: 64, Capacity: 100})
	fmt.Println(err)
	_, err = db.CreateTable(ctx, txn.Schema{Name: "words", KeySize: 20, ValueSize: 64, Capacity: 100})
	fmt.Println(errors.Is(err, txn.ErrSchema))
	all, err := db.Tables(ctx)
	fmt.Println(all, err)
	fmt.Println(db.DropTable(ctx, "words"))
	_, err = db.Table(ctx, "words")
	fmt.Println(errors.Is(err, txn.ErrNoTable))
	// Output:
	// <nil>
	// true
	// [words] <nil>
	// <nil>
	// true
}

// Check reads every byte of every copy, while nothing runs.
func ExampleDB_Check() {
	db, words := open()
	defer db.Close()
	ctx := context.Background()
	if err := db.Update(ctx, func(tx *txn.Tx) error { return tx.Put(words, []byte("key"), nil) }); err != nil {
		log.Fatal(err)
	}
	r, err := db.Check(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("sound:", r.OK(), "records:", r.Records["words"])
	// Output:
	// sound: true records: 1
}

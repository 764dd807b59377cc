package txn_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"fjord/txn"
)

// BenchmarkUpdate is the price of transactions on keys with known addresses, one
// goroutine.
func BenchmarkUpdate(b *testing.B) {
	for _, copies := range []int{1, 3} {
		for _, keys := range []int{1, 2} {
			b.Run(fmt.Sprintf("copies=%d/keys=%d", copies, keys), func(b *testing.B) { benchUpdate(b, copies, keys, 100_000) })
		}
	}
	b.Run("view", func(b *testing.B) {
		db, tab := benchDB(b, 1, 100_000)
		ctx := context.Background()
		rnd := rand.New(rand.NewPCG(1, 2))
		k := make([]byte, 8)
		fn := func(tx *txn.Tx) error { _, err := tx.Get(tab, k); return err }
		b.ReportAllocs()
		for b.Loop() {
			binary.BigEndian.PutUint64(k, rnd.Uint64N(100_000))
			if err := db.View(ctx, fn); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func benchDB(b *testing.B, copies, n int) (*txn.DB, *txn.Table) {
	ctx := context.Background()
	db, err := txn.Open(ctx, txn.Options{MemoryNodes: copies, Replicas: copies})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	tab, err := db.CreateTable(ctx, txn.Schema{Name: "t", KeySize: 8, ValueSize: 16, Capacity: n})
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; i < n; i += 100 {
		if err := db.Update(ctx, func(tx *txn.Tx) error {
			for j := i; j < i+100; j++ {
				if err := tx.Insert(tab, benchKey(uint64(j)), make([]byte, 16)); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			b.Fatal(err)
		}
	}
	return db, tab
}

func benchUpdate(b *testing.B, copies, keys, n int) {
	db, tab := benchDB(b, copies, n)
	ctx := context.Background()
	rnd := rand.New(rand.NewPCG(1, 2))
	ks := [2][]byte{make([]byte, 8), make([]byte, 8)}
	fn := func(tx *txn.Tx) error {
		if keys == 1 {
			if err := tx.Fetch(txn.ForUpdate(tab, ks[0])); err != nil {
				return err
			}
		} else if err := tx.Fetch(txn.ForUpdate(tab, ks[0]), txn.ForUpdate(tab, ks[1])); err != nil {
			return err
		}
		for _, k := range ks[:keys] {
			v, err := tx.Get(tab, k)
			if err != nil {
				return err
			}
			v[0]++
			if err := tx.Put(tab, k, v); err != nil {
				return err
			}
		}
		return nil
	}
	b.ReportAllocs()
	t0 := cpu()
	defer func() { b.ReportMetric(float64(cpu()-t0)/float64(b.N), "cpu-ns/op") }()
	for b.Loop() {
		for _, k := range ks {
			binary.BigEndian.PutUint64(k, rnd.Uint64N(uint64(n)))
		}
		if err := db.Update(ctx, fn); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkUpdateHot is the same on few keys, so that caches hold everything.
func BenchmarkUpdateHot(b *testing.B) {
	for _, copies := range []int{1, 3} {
		for _, keys := range []int{1, 2} {
			b.Run(fmt.Sprintf("copies=%d/keys=%d", copies, keys), func(b *testing.B) { benchUpdate(b, copies, keys, 1000) })
		}
	}
}

// cpu is the processor time that the process has used, in nanoseconds: on a
// shared machine it says more than the time on the wall.
func cpu() int64 {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return r.Utime.Nano() + r.Stime.Nano()
}

func benchKey(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

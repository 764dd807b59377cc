package txn_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"

	"fjord/txn"
)

func key(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func TestSmoke(t *testing.T) {
	ctx := context.Background()
	db, err := txn.Open(ctx, txn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tab, err := db.CreateTable(ctx, txn.Schema{Name: "a", KeySize: 8, ValueSize: 16, Capacity: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(1000) {
		if err := db.Update(ctx, func(tx *txn.Tx) error { return tx.Insert(tab, key(i), fmt.Appendf(nil, "value %d", i)) }); err != nil {
			t.Fatal(i, err)
		}
	}
	for i := range uint64(1000) {
		if err := db.View(ctx, func(tx *txn.Tx) error {
			v, err := tx.Get(tab, key(i))
			if err == nil && string(v) != fmt.Sprintf("value %d", i) {
				t.Errorf("%d: %q", i, v)
			}
			return err
		}); err != nil {
			t.Fatal(i, err)
		}
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range uint64(2000) {
				err := db.Update(ctx, func(tx *txn.Tx) error {
					k := key(i*uint64(g+1)%50 + 2000)
					if err := tx.Delete(tab, k); !errors.Is(err, txn.ErrNotFound) {
						return err
					}
					return tx.Insert(tab, k, []byte("x"))
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	all, err := db.Tables(ctx)
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	r, err := db.Check(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r.Checks, r.Records, fmt.Sprintf("%+v", db.Stats()))
	if !r.OK() {
		t.Error(r.Details)
	}
	if err := db.DropTable(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

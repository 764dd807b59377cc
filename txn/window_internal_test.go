package txn

import (
	"context"
	"errors"
	"testing"
	"time"

	"fjord/layout"
)

// Nothing of a transaction keeps others waiting while the user's function runs: a
// lock that was taken by a stale address goes back also when another key of that
// Fetch ends the attempt, and the memory node can be closed.
func TestUsersFunctionHoldsNothingUp(t *testing.T) {
	ctx := context.Background()
	db, err := Open(ctx, Options{MemoryNodes: 1, NodeMemory: 24 << 20, Sessions: 4, MaxRetries: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() // its memory node is gone by then
	tab, err := db.CreateTable(ctx, Schema{Name: "t", KeySize: 8, ValueSize: 16, Capacity: 50})
	if err != nil {
		t.Fatal(err)
	}
	moved, held := []byte("moved"), []byte("held")
	if err := db.Update(ctx, func(tx *Tx) error {
		return errors.Join(tx.Insert(tab, moved, []byte("1")), tx.Insert(tab, held, []byte("2")))
	}); err != nil {
		t.Fatal(err)
	}
	hash := layout.HashKey(tab.meta.ID, moved)
	bucket, _ := tab.head(hash)
	slot := tab.index.Find(bucket, hash)
	if slot < 0 {
		t.Fatal("the insert is not remembered")
	}
	tab.index.Put(bucket, hash, (slot+1)%tab.geo.Slots)
	holder, err := db.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.GetForUpdate(tab, held); err != nil {
		t.Fatal(err)
	}
	asked := false
	_ = db.Update(ctx, func(tx *Tx) error {
		err := tx.Fetch(ForUpdate(tab, moved), ForUpdate(tab, held))
		if asked {
			return err // the second attempt finds no memory node
		}
		asked = true
		if !errors.Is(err, ErrConflict) {
			t.Errorf("with a key that another holds: %v, want ErrConflict", err)
		}
		closed := make(chan error)
		go func() { closed <- db.cluster.Node(0).Close() }()
		select {
		case err := <-closed:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Error("the memory node cannot be closed while the function runs")
			go func() { <-closed }()
		}
		return err
	})
	_ = holder.Abort()
}

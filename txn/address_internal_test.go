package txn

import (
	"context"
	"testing"

	"fjord/coord"
	"fjord/layout"
)

// The address cache may take another key for the one sought, of another table, or
// of one that was dropped. Whatever it says, nothing but a record's slot of the table is ever taken for the key's cell:
// a CAS anywhere else would be in the middle of a value.
func TestCachedAddressIsARecordOfTheTable(t *testing.T) {
	ctx := context.Background()
	db, err := Open(ctx, Options{MemoryNodes: 2, NodeMemory: 24 << 20, Sessions: 4, AddressCache: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, size := range []struct{ key, value int }{{8, 16}, {8, 17}, {8, 200}, {100, 1000}, {8, 3000}, {8, 6000}} {
		tab, err := db.CreateTable(ctx, Schema{Name: "t", KeySize: size.key, ValueSize: size.value, Capacity: 50})
		if err != nil {
			t.Fatal(err)
		}
		m := &tab.meta
		good := make(map[layout.Addr]bool)
		for shard := range m.Extents {
			for b := range m.Buckets + m.OverflowBuckets {
				for i := range tab.geo.Slots {
					good[tab.bucketAddr(shard, b)+layout.Addr(tab.geo.SlotOffset(i))] = true
				}
			}
		}
		for a := range good {
			if p := tab.place(a); p == 0 || tab.at(p) != a {
				t.Fatalf("key %d, value %d: %v has the place %#x, which is %v", size.key, size.value, a, p, tab.at(p))
			}
		}
		accepted := 0
		for extent := range coord.Place(len(m.Extents) + 2) {
			for bucket := range coord.Place(m.Buckets + m.OverflowBuckets + 3) {
				for slot := range coord.Place(1 << placeSlotBits) {
					p := extent<<(placeBucketBits+placeSlotBits) | bucket<<placeSlotBits | slot
					if a := tab.at(p); a != 0 {
						accepted++
						if !good[a] {
							t.Fatalf("key %d, value %d: the place %#x is taken for a record at %v", size.key, size.value, p, a)
						}
					}
				}
			}
		}
		if accepted != len(good) {
			t.Errorf("%d of %d slots were accepted", accepted, len(good))
		}
		// And the check is used.
		key := []byte("key")
		hash := layout.HashKey(m.ID, key)
		for _, p := range []coord.Place{
			coord.Place(len(m.Extents))<<(placeBucketBits+placeSlotBits) | 1, // no extent
			coord.Place(m.Buckets+m.OverflowBuckets)<<placeSlotBits | 1,      // behind the last bucket
			(1<<placeBucketBits-1)<<placeSlotBits | 1,
			coord.Place(tab.geo.Slots + 1), // behind the last slot
			1 << placeSlotBits,             // before the first
			1<<44 - 1,
		} {
			db.co.Cache.Put(hash, p)
			before := db.Stats()
			if err := db.Update(ctx, func(tx *Tx) error { return tx.Fetch(ForUpdate(tab, key)) }); err != nil {
				t.Errorf("with %#x in the cache: %v", p, err)
			}
			if d := db.Stats().Sub(before); d.Verbs.CAS != 0 || d.Stale != 0 {
				t.Errorf("with %#x in the cache: %d CAS, %d stale; want the bucket looked at at once", p, d.Verbs.CAS, d.Stale)
			}
		}
		if err := db.DropTable(ctx, "t"); err != nil {
			t.Fatal(err)
		}
	}
}

// The index of a bucket's slots may take another key for the one sought: that costs
// a look into the bucket, and is corrected.
func TestIndexedSlotIsLookedAt(t *testing.T) {
	ctx := context.Background()
	db, err := Open(ctx, Options{MemoryNodes: 2, NodeMemory: 24 << 20, Sessions: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tab, err := db.CreateTable(ctx, Schema{Name: "t", KeySize: 8, ValueSize: 16, Capacity: 50})
	if err != nil {
		t.Fatal(err)
	}
	if tab.index == nil {
		t.Fatal("the table has no index")
	}
	key := []byte("key")
	hash := layout.HashKey(tab.meta.ID, key)
	bucket, head := tab.head(hash)
	if err := db.Update(ctx, func(tx *Tx) error { return tx.Insert(tab, key, []byte("value")) }); err != nil {
		t.Fatal(err)
	}
	right := tab.index.Find(bucket, hash)
	if right < 0 || tab.remembered(hash, bucket, head) == 0 {
		t.Fatal("an insert is not remembered")
	}
	for slot := range tab.geo.Slots {
		tab.index.Put(bucket, hash, slot)
		before := db.Stats()
		err := db.Update(ctx, func(tx *Tx) error {
			v, err := tx.GetForUpdate(tab, key)
			if string(v) != "value" {
				t.Errorf("with slot %d in the index: %q, %v", slot, v, err)
			}
			return err
		})
		d := db.Stats().Sub(before)
		if want := uint64(min(1, max(slot-right, right-slot))); err != nil || d.Stale != want || d.Verbs.CAS != 1+want {
			t.Errorf("with slot %d in the index, %d is right: %v, %d stale, %d CAS", slot, right, err, d.Stale, d.Verbs.CAS)
		}
		if got := tab.index.Find(bucket, hash); got != right {
			t.Errorf("the index still says %d, right is %d", got, right)
		}
	}
	if err := db.Update(ctx, func(tx *Tx) error { return tx.Delete(tab, key) }); err != nil {
		t.Fatal(err)
	}
	if tab.index.Find(bucket, hash) >= 0 {
		t.Error("a deleted key is remembered")
	}
	if err := db.DropTable(ctx, "t"); err != nil {
		t.Fatal(err)
	}
}

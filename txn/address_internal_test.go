package txn

import (
	"context"
	"testing"

	"fjord/coord"
	"fjord/layout"
)

// The address cache may take another key for the one sought, of another table, or
// of one that was dropped and whose space has another shape now. Whatever it
// says, nothing but a record's slot of the table is ever taken for the key's cell:
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
		accepted := 0
		for shard := range uint16(4) {
			x := m.Extents[min(int(shard), len(m.Extents)-1)]
			for off := x.Off - 4096; off < x.Off+x.Len+4096; off += layout.CellAlign {
				a := layout.MakeAddr(shard, off)
				if tab.holds(a) != good[a] {
					t.Fatalf("key %d, value %d: %v (extent %v) is taken for a record: %v, want %v", size.key, size.value, a, x, !good[a], good[a])
				}
				if good[a] {
					accepted++
				}
			}
		}
		if accepted != len(good) {
			t.Errorf("%d of %d slots were accepted", accepted, len(good))
		}
		// And the check is used.
		key := []byte("key")
		hash := layout.HashKey(m.ID, key)
		for _, a := range []layout.Addr{
			layout.MakeAddr(m.Extents[0].Shard, m.Extents[0].Off), // the cursor
			tab.bucketAddr(0, 0),                      // a header
			layout.MakeAddr(0, layout.CellAlign),      // an allocator
			coord.AllocatorAddr(1) + layout.CellAlign, // the middle of one
			layout.MakeAddr(3, m.Extents[0].Off),      // no shard
		} {
			db.co.Cache.Put(hash, a)
			before := db.Stats()
			if err := db.Update(ctx, func(tx *Tx) error { return tx.Fetch(ForUpdate(tab, key)) }); err != nil {
				t.Errorf("with %v in the cache: %v", a, err)
			}
			if d := db.Stats().Sub(before); d.Verbs.CAS != 0 || d.Stale != 0 {
				t.Errorf("with %v in the cache: %d CAS, %d stale; want the bucket looked at at once", a, d.Verbs.CAS, d.Stale)
			}
		}
		if err := db.DropTable(ctx, "t"); err != nil {
			t.Fatal(err)
		}
	}
}

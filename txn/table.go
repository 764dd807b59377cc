package txn

import (
	"fmt"
	"math/bits"
	"sync/atomic"

	"fjord/coord"
	"fjord/layout"
)

// Schema describes a table.
type Schema struct {
	// Name, 1 to 64 bytes.
	Name string
	// KeySize is the longest key in bytes, 1 to 1024.
	KeySize int
	// ValueSize is the longest value in bytes, 0 to 1 MiB.
	ValueSize int
	// Capacity is how many records the table is sure to hold. Inserts beyond
	// it may fail with ErrFull.
	Capacity int
}

// Bounds of a Schema. A record, its log entry and the bucket around it must be
// fit for one message each.
const (
	maxKeySize   = 1024
	maxValueSize = 1 << 20
	maxCapacity  = 1 << 40
)

// Validate says what is wrong with s.
func (s Schema) Validate() error {
	if s.Name == "" || len(s.Name) > layout.MaxTableName {
		return fmt.Errorf("%w: Name %q has %d bytes, right is 1 to %d", ErrSchema, s.Name, len(s.Name), layout.MaxTableName)
	}
	for _, l := range []struct {
		name      string
		v, lo, hi uint64
	}{
		{"KeySize", uint64(s.KeySize), 1, maxKeySize},
		{"ValueSize", uint64(s.ValueSize), 0, maxValueSize},
		{"Capacity", uint64(s.Capacity), 1, maxCapacity},
	} {
		if l.v < l.lo || l.v > l.hi { // negative numbers are huge here
			return fmt.Errorf("%w: table %q: %s is %d, right is %d to %d", ErrSchema, s.Name, l.name, int64(l.v), l.lo, l.hi)
		}
	}
	return nil
}

// Table is a handle of a table, for any goroutine.
type Table struct {
	db      *DB
	schema  Schema
	meta    layout.TableMeta
	geo     layout.BucketGeometry
	slot    int // bytes of a record's slot
	room    int // spare bytes behind the image of a cell that is locked
	bucket  uint64
	shards  uint64
	parts   []layout.Addr    // per extent, the address of its first bucket
	buckets uint64           // in each of them
	index   *coord.SlotIndex // of its head buckets; nil if there is no room for one
	dropped atomic.Bool
}

func newTable(db *DB, name string, m layout.TableMeta) *Table {
	g := m.Geometry()
	t := &Table{db: db, meta: m, geo: g, slot: g.SlotSize, room: g.SlotSize + (int(m.ValueSize)+7)&^7, bucket: uint64(g.BucketSize()),
		shards: uint64(len(m.Extents)), buckets: m.Buckets + m.OverflowBuckets,
		schema: Schema{Name: name, KeySize: int(m.KeySize), ValueSize: int(m.ValueSize), Capacity: int(m.Capacity)}}
	for i := range m.Extents {
		t.parts = append(t.parts, t.bucketAddr(i, 0))
	}
	return t
}

// Name returns the table's name.
func (t *Table) Name() string { return t.schema.Name }

// Schema returns what the table was created with.
func (t *Table) Schema() Schema { return t.schema }

// String returns the name.
func (t *Table) String() string { return t.schema.Name }

// head returns the bucket in which a key of that hash belongs, its number among all
// heads and its address: the hash, taken as a fraction, chooses the shard, what
// remains the bucket.
func (t *Table) head(hash uint64) (n uint64, addr layout.Addr) {
	shard, rest := bits.Mul64(hash, t.shards)
	bucket, _ := bits.Mul64(rest, t.meta.Buckets)
	return shard*t.meta.Buckets + bucket, t.parts[shard] + layout.Addr(bucket*t.bucket)
}

// remembered returns the address at which the record of a key was found last, 0 if
// that is not known.
func (t *Table) remembered(hash, bucket uint64, head layout.Addr) layout.Addr {
	if t.index != nil {
		if slot := t.index.Find(bucket, hash); slot >= 0 {
			return head + layout.Addr(layout.BucketHeaderSize+slot*t.slot)
		}
	}
	return t.at(t.db.co.Cache.Get(hash))
}

// remember notes the address at which the record of a key was found.
func (t *Table) remember(hash uint64, addr layout.Addr) {
	bucket, head := t.head(hash)
	if t.index != nil {
		if slot, ok := t.geo.SlotOf(uint64(addr - head)); ok {
			t.index.Put(bucket, hash, slot)
			return
		}
		t.index.Forget(bucket, hash)
	}
	t.db.co.Cache.Put(hash, t.place(addr))
}

// forget drops what is remembered of a key.
func (t *Table) forget(hash uint64) {
	if t.index != nil {
		bucket, _ := t.head(hash)
		t.index.Forget(bucket, hash)
	}
	t.db.co.Cache.Forget(hash)
}

// bucketAddr returns the address of a bucket of a shard; overflow buckets are
// numbered after the heads.
func (t *Table) bucketAddr(shard int, n uint64) layout.Addr {
	x := &t.meta.Extents[shard]
	return layout.MakeAddr(x.Shard, x.Off+coord.CursorSlot+n*t.bucket)
}

// A record's place in its table: extent (12 bits) | bucket (28) | slot, from 1 on (4).
const (
	placeSlotBits   = 4
	placeBucketBits = 28
)

// at returns the address of a place, 0 if the table has none such: what the cache
// takes for a key's place may, by a coincidence of hashes, be that of another
// table's key. Nothing but a record's slot may be taken for a key's cell: a CAS
// anywhere else would be in the middle of a value.
func (t *Table) at(p coord.Place) layout.Addr {
	extent, bucket, slot := p>>(placeBucketBits+placeSlotBits), uint64(p>>placeSlotBits&(1<<placeBucketBits-1)), int(p&(1<<placeSlotBits-1))
	if extent >= coord.Place(len(t.parts)) || bucket >= t.buckets || uint(slot-1) >= uint(t.geo.Slots) {
		return 0
	}
	return t.parts[extent] + layout.Addr(bucket*t.bucket+layout.BucketHeaderSize+uint64((slot-1)*t.slot))
}

// place returns the place of a record's slot, 0 if it cannot be told in 44 bits.
func (t *Table) place(addr layout.Addr) coord.Place {
	extent := t.extentOf(addr.Shard())
	off := uint64(addr - t.parts[extent])
	slot, ok := t.geo.SlotOf(off % t.bucket)
	if bucket := off / t.bucket; ok && bucket>>placeBucketBits == 0 {
		return coord.Place(uint64(extent)<<(placeBucketBits+placeSlotBits) | bucket<<placeSlotBits | uint64(slot+1))
	}
	return 0
}

// cursorAddr is the overflow cursor of a shard's part of the table.
func (t *Table) cursorAddr(shard uint16) layout.Addr {
	x := &t.meta.Extents[t.extentOf(shard)]
	return layout.MakeAddr(x.Shard, x.Off)
}

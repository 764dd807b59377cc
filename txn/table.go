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
	bucket  uint64
	shards  uint64
	buckets divisor // a bucket and a slot in lines
	slots   divisor
	dropped atomic.Bool
}

func newTable(db *DB, name string, m layout.TableMeta) *Table {
	g := m.Geometry()
	return &Table{db: db, meta: m, geo: g, slot: g.SlotSize, bucket: uint64(g.BucketSize()), shards: uint64(len(m.Extents)),
		buckets: newDivisor(g.BucketSize() / layout.CellAlign), slots: newDivisor(g.SlotSize / layout.CellAlign),
		schema: Schema{Name: name, KeySize: int(m.KeySize), ValueSize: int(m.ValueSize), Capacity: int(m.Capacity)}}
}

// Name returns the table's name.
func (t *Table) Name() string { return t.schema.Name }

// Schema returns what the table was created with.
func (t *Table) Schema() Schema { return t.schema }

// String returns the name.
func (t *Table) String() string { return t.schema.Name }

// head returns the address of the bucket in which a key of that hash belongs:
// the hash, taken as a fraction, chooses the shard, what remains the bucket.
func (t *Table) head(hash uint64) layout.Addr {
	shard, rest := bits.Mul64(hash, t.shards)
	bucket, _ := bits.Mul64(rest, t.meta.Buckets)
	return t.bucketAddr(int(shard), bucket)
}

// bucketAddr returns the address of a bucket of a shard; overflow buckets are
// numbered after the heads.
func (t *Table) bucketAddr(shard int, n uint64) layout.Addr {
	x := &t.meta.Extents[shard]
	return layout.MakeAddr(x.Shard, x.Off+coord.CursorSlot+n*t.bucket)
}

// holds tells whether an address is that of a record's slot of the table.
func (t *Table) holds(addr layout.Addr) bool {
	shard := int(addr.Shard())
	if shard >= len(t.meta.Extents) {
		return false
	}
	x := &t.meta.Extents[shard]
	off := addr.Offset() - x.Off - coord.CursorSlot
	if off >= x.Len-coord.CursorSlot || off%layout.CellAlign != 0 {
		return false
	}
	in := t.buckets.mod(uint32(off / layout.CellAlign))
	return in != 0 && t.slots.mod(in-1) == 0 // behind the header's line
}

// divisor divides without a division (D. Lemire, O. Kaser, N. Kurz, Faster
// remainder by direct computation, 2019).
type divisor struct {
	d     uint64
	magic uint64
}

func newDivisor(d int) divisor { return divisor{uint64(d), ^uint64(0)/uint64(d) + 1} }

func (v divisor) mod(n uint32) uint32 {
	hi, _ := bits.Mul64(v.magic*uint64(n), v.d)
	return uint32(hi)
}

// cursorAddr is the overflow cursor of a shard's part of the table.
func (t *Table) cursorAddr(shard uint16) layout.Addr {
	x := &t.meta.Extents[t.extentOf(shard)]
	return layout.MakeAddr(x.Shard, x.Off)
}

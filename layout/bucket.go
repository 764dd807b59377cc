package layout

import "encoding/binary"

// A bucket of a hash table is one header cell in the first line and Slots record slots of equal size behind
// it. Overflow buckets look the same and are chained from the header.
//
// The header cell has no key. Its value:
//
//	0   next overflow bucket, Addr, 0 if none
//	8   table id, u32
//	12  reserved, u32
const (
	// BucketHeaderSize is the size of the header's slot.
	BucketHeaderSize = CellAlign
	// MaxBucketSize bounds a bucket, and with it the READ of a cold lookup, unless two slots need more.
	MaxBucketSize = 4096
	// MinBucketSlots and MaxBucketSlots bound the slots of a bucket. One slot would make every collision an
	// overflow; more than eight make a lookup read mostly strangers.
	MinBucketSlots = 2
	MaxBucketSlots = 8

	bucketValueSize = 16
	offBucketNext   = HeaderSize
	offBucketTable  = HeaderSize + 8
)

// BucketGeometry is the shape of a table's buckets.
type BucketGeometry struct {
	Slots    int // record slots in a bucket
	SlotSize int // bytes of one
}

// NewBucketGeometry returns the shape for records of these sizes: as many slots as fit into MaxBucketSize,
// within the bounds above.
func NewBucketGeometry(keySize, valueSize int) BucketGeometry {
	slot := SlotSize(keySize, valueSize)
	n := (MaxBucketSize - BucketHeaderSize) / slot
	return BucketGeometry{Slots: min(max(n, MinBucketSlots), MaxBucketSlots), SlotSize: slot}
}

// BucketSize returns the bytes of a bucket, header included.
func (g BucketGeometry) BucketSize() int { return BucketHeaderSize + g.Slots*g.SlotSize }

// SlotOffset returns the offset of slot i within the bucket, in bytes.
func (g BucketGeometry) SlotOffset(i int) int { return BucketHeaderSize + i*g.SlotSize }

// SlotOf returns the slot that begins at an offset within the bucket; ok is false if none does.
func (g BucketGeometry) SlotOf(off uint64) (i int, ok bool) {
	if off < BucketHeaderSize || g.SlotSize <= 0 {
		return 0, false
	}
	off -= BucketHeaderSize
	q, r := off/uint64(g.SlotSize), off%uint64(g.SlotSize)
	if r != 0 || q >= uint64(g.Slots) {
		return 0, false
	}
	return int(q), true
}

// EncodeBucketHeader writes an unlocked bucket header to dst and returns its ImageSize.
func EncodeBucketHeader(dst []byte, addr Addr, v Version, writer uint64, next Addr, table uint32) int {
	b := dst[:BucketHeaderImage:len(dst)]
	binary.LittleEndian.PutUint64(b[offBucketNext:], uint64(next))
	binary.LittleEndian.PutUint64(b[offBucketTable:], uint64(table))
	return SealCell(b, addr, v, writer, KindBucket, 0, bucketValueSize)
}

// BucketHeaderImage is the ImageSize of a bucket header.
const BucketHeaderImage = HeaderSize + bucketValueSize

// BucketNext returns the next overflow bucket of a verified bucket header, 0 if there is none.
func BucketNext(b []byte) Addr {
	// No lengths, no value: the header is virgin. The word may be set nonetheless, by a first write that
	// overtook the READ between the two, and is not to be followed before a READ sees that write whole.
	if binary.LittleEndian.Uint64(b[OffValueLen:]) == 0 {
		return 0
	}
	return Addr(binary.LittleEndian.Uint64(b[offBucketNext:]))
}

// BucketTable returns the id of the table that a verified bucket header belongs to, 0 if it is virgin.
func BucketTable(b []byte) uint32 {
	if binary.LittleEndian.Uint64(b[OffValueLen:]) == 0 {
		return 0
	}
	return binary.LittleEndian.Uint32(b[offBucketTable:])
}

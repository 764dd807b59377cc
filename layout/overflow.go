package layout

import "encoding/binary"

// OverflowCursorSize is the bytes of an OverflowCursor's value: its four fields, u64 each.
const OverflowCursorSize = 32

// OverflowCursor is the value of the cursor cell that hands out the overflow buckets of one table in one
// shard: first those that were given back, chained by their headers, then fresh ones.
type OverflowCursor struct {
	NextFresh uint64 // index of the first overflow bucket that was never used
	Limit     uint64 // number of overflow buckets
	FreeHead  Addr   // first bucket given back, 0 if none
	FreeCount uint64 // buckets given back
}

// Encode writes the value, OverflowCursorSize bytes, to dst.
func (c *OverflowCursor) Encode(dst []byte) {
	b := dst[:OverflowCursorSize:len(dst)]
	binary.LittleEndian.PutUint64(b[0:], c.NextFresh)
	binary.LittleEndian.PutUint64(b[8:], c.Limit)
	binary.LittleEndian.PutUint64(b[16:], uint64(c.FreeHead))
	binary.LittleEndian.PutUint64(b[24:], c.FreeCount)
}

// DecodeOverflowCursor reads a value of OverflowCursorSize bytes. An error wraps ErrBadCatalog.
func DecodeOverflowCursor(b []byte) (OverflowCursor, error) {
	if len(b) != OverflowCursorSize {
		return OverflowCursor{}, badCatalog("overflow cursor of %d bytes, want %d", len(b), OverflowCursorSize)
	}
	c := OverflowCursor{
		NextFresh: binary.LittleEndian.Uint64(b[0:]),
		Limit:     binary.LittleEndian.Uint64(b[8:]),
		FreeHead:  Addr(binary.LittleEndian.Uint64(b[16:])),
		FreeCount: binary.LittleEndian.Uint64(b[24:]),
	}
	if c.NextFresh > c.Limit {
		return OverflowCursor{}, badCatalog("overflow cursor has next %d, limit %d", c.NextFresh, c.Limit)
	}
	if (c.FreeHead == 0) != (c.FreeCount == 0) || c.FreeCount > c.NextFresh {
		return OverflowCursor{}, badCatalog("overflow cursor has %d free buckets from %v on, of %d ever used", c.FreeCount, c.FreeHead, c.NextFresh)
	}
	return c, nil
}

package layout

import "strconv"

// addrOffsetBits is the width of the offset in an Addr: extents of up to 256 TiB, 65536 shards.
const addrOffsetBits = 48

// MaxOffset is the largest offset that an Addr can hold.
const MaxOffset = 1<<addrOffsetBits - 1

// Addr is the address of a cell: the shard in the high 16 bits, below it the offset in bytes within the
// shard's extent. It is the same at every replica, so it outlives a failover. Addr 0 is "none": no cell is
// at offset 0 of shard 0.
type Addr uint64

// MakeAddr joins shard and offset. It panics if the offset exceeds MaxOffset, as the address would
// otherwise silently name a cell of another shard.
func MakeAddr(shard uint16, off uint64) Addr {
	if off > MaxOffset {
		panic("layout: offset does not fit into an address")
	}
	return Addr(uint64(shard)<<addrOffsetBits | off)
}

// Shard returns the shard of the cell.
func (a Addr) Shard() uint16 { return uint16(a >> addrOffsetBits) }

// Offset returns the offset of the cell within the shard's extent, in bytes.
func (a Addr) Offset() uint64 { return uint64(a) & MaxOffset }

// String formats the address as shard:offset, the offset in hex, or "none" for Addr 0.
func (a Addr) String() string {
	if a == 0 {
		return "none"
	}
	b := make([]byte, 0, 24)
	b = strconv.AppendUint(b, uint64(a.Shard()), 10)
	b = append(b, ":0x"...)
	b = strconv.AppendUint(b, a.Offset(), 16)
	return string(b)
}

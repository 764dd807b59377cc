package layout

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A catalog cell has the table's name as its key and a TableMeta as its value:
//
//	0   id, u32
//	4   key size, u32
//	8   value size, u32
//	12  kind, u8
//	13  state, u8
//	14  number of extents, u16
//	16  capacity, u64
//	24  slots of a bucket, u32
//	28  slot size, u32
//	32  buckets per shard, u64
//	40  overflow buckets per shard, u64
//	48  reserved, 16 bytes, zero
//	64  per extent: shard u16, reserved 6 bytes, offset u64, length u64
const (
	// MaxTableName is the longest name of a table, in bytes.
	MaxTableName = 64

	tableMetaHeader = 64
	tableExtentSize = 24
	maxExtents      = 1<<16 - 1
)

// TableKind is the index of a table.
type TableKind uint8

// The kinds of tables.
const (
	TableHash    TableKind = 1 + iota // buckets, point access
	TableOrdered                      // a tree per partition, scans
)

// String returns the name of the kind.
func (k TableKind) String() string {
	switch k {
	case TableHash:
		return "hash"
	case TableOrdered:
		return "ordered"
	}
	return fmt.Sprintf("TableKind(%d)", uint8(k))
}

// TableState is where a table is in its life.
type TableState uint8

// The states of a table.
const (
	TableLive     TableState = 1 + iota
	TableDropping            // its extents are freed once every coordinator has acknowledged
)

// String returns the name of the state.
func (s TableState) String() string {
	switch s {
	case TableLive:
		return "live"
	case TableDropping:
		return "dropping"
	}
	return fmt.Sprintf("TableState(%d)", uint8(s))
}

// ErrBadCatalog: the bytes are no catalog or cursor value. It is wrapped with the reason. The cell's sum
// held, so it is a fault of the program, not of the memory.
var ErrBadCatalog = errors.New("layout: bad catalog value")

// Extent is a range of a shard that belongs to a table, in bytes.
type Extent struct {
	Shard uint16
	Off   uint64
	Len   uint64
}

// TableMeta is a table's schema and its place. Sizes are in bytes.
type TableMeta struct {
	ID              uint32
	KeySize         uint32 // longest key
	ValueSize       uint32 // longest value
	Capacity        uint64 // records it was made for
	Kind            TableKind
	State           TableState
	Slots           uint32 // of a bucket
	SlotSize        uint32
	Buckets         uint64 // head buckets per shard
	OverflowBuckets uint64 // per shard
	Extents         []Extent
}

// TableMetaSize returns the bytes of the value for a table of this many extents. With the number of shards
// it is the size to reserve for any table that has one extent per shard.
func TableMetaSize(extents int) int { return tableMetaHeader + extents*tableExtentSize }

// Encode writes the value to dst and returns its size, TableMetaSize. The error says which field is
// impossible, or that dst is too short.
func (m *TableMeta) Encode(dst []byte) (n int, err error) {
	if len(m.Extents) > maxExtents {
		return 0, badCatalog("%d extents, want %d at most", len(m.Extents), maxExtents)
	}
	if err := m.check(); err != nil {
		return 0, err
	}
	n = TableMetaSize(len(m.Extents))
	if len(dst) < n {
		return 0, badCatalog("buffer of %d bytes, the table needs %d", len(dst), n)
	}
	b := dst[:n]
	clear(b)
	binary.LittleEndian.PutUint32(b[0:], m.ID)
	binary.LittleEndian.PutUint32(b[4:], m.KeySize)
	binary.LittleEndian.PutUint32(b[8:], m.ValueSize)
	b[12] = byte(m.Kind)
	b[13] = byte(m.State)
	binary.LittleEndian.PutUint16(b[14:], uint16(len(m.Extents)))
	binary.LittleEndian.PutUint64(b[16:], m.Capacity)
	binary.LittleEndian.PutUint32(b[24:], m.Slots)
	binary.LittleEndian.PutUint32(b[28:], m.SlotSize)
	binary.LittleEndian.PutUint64(b[32:], m.Buckets)
	binary.LittleEndian.PutUint64(b[40:], m.OverflowBuckets)
	for i, x := range m.Extents {
		e := b[tableMetaHeader+i*tableExtentSize:][:tableExtentSize]
		binary.LittleEndian.PutUint16(e[0:], x.Shard)
		binary.LittleEndian.PutUint64(e[8:], x.Off)
		binary.LittleEndian.PutUint64(e[16:], x.Len)
	}
	return n, nil
}

// DecodeTableMeta reads a value. It may be longer than the table needs, if the rest is zero.
func DecodeTableMeta(b []byte) (TableMeta, error) {
	if len(b) < tableMetaHeader {
		return TableMeta{}, badCatalog("table of %d bytes, want %d at least", len(b), tableMetaHeader)
	}
	count := int(binary.LittleEndian.Uint16(b[14:]))
	n := TableMetaSize(count)
	if len(b) < n {
		return TableMeta{}, badCatalog("table of %d bytes, %d extents need %d", len(b), count, n)
	}
	if !allZero(b[48:tableMetaHeader]) || !allZero(b[n:]) {
		return TableMeta{}, badCatalog("reserved bytes of a table are not zero")
	}
	m := TableMeta{
		ID:              binary.LittleEndian.Uint32(b[0:]),
		KeySize:         binary.LittleEndian.Uint32(b[4:]),
		ValueSize:       binary.LittleEndian.Uint32(b[8:]),
		Kind:            TableKind(b[12]),
		State:           TableState(b[13]),
		Capacity:        binary.LittleEndian.Uint64(b[16:]),
		Slots:           binary.LittleEndian.Uint32(b[24:]),
		SlotSize:        binary.LittleEndian.Uint32(b[28:]),
		Buckets:         binary.LittleEndian.Uint64(b[32:]),
		OverflowBuckets: binary.LittleEndian.Uint64(b[40:]),
	}
	if count > 0 {
		m.Extents = make([]Extent, count)
	}
	for i := range m.Extents {
		e := b[tableMetaHeader+i*tableExtentSize:][:tableExtentSize]
		if !allZero(e[2:8]) {
			return TableMeta{}, badCatalog("reserved bytes of extent %d are not zero", i)
		}
		m.Extents[i] = Extent{
			Shard: binary.LittleEndian.Uint16(e[0:]),
			Off:   binary.LittleEndian.Uint64(e[8:]),
			Len:   binary.LittleEndian.Uint64(e[16:]),
		}
	}
	if err := m.check(); err != nil {
		return TableMeta{}, err
	}
	return m, nil
}

// Geometry returns the shape of the table's buckets.
func (m *TableMeta) Geometry() BucketGeometry {
	return BucketGeometry{Slots: int(m.Slots), SlotSize: int(m.SlotSize)}
}

// check finds what would make a reader of the table go astray.
func (m *TableMeta) check() error {
	switch m.Kind {
	case TableHash, TableOrdered:
	default:
		return badCatalog("table kind is %d, want hash (1) or ordered (2)", uint8(m.Kind))
	}
	switch m.State {
	case TableLive, TableDropping:
	default:
		return badCatalog("table state is %d, want live (1) or dropping (2)", uint8(m.State))
	}
	if m.KeySize > MaxKeySize {
		return badCatalog("key size is %d, want %d at most", m.KeySize, MaxKeySize)
	}
	if m.ValueSize > MaxValueSize {
		return badCatalog("value size is %d, want %d at most", m.ValueSize, MaxValueSize)
	}
	if m.SlotSize%CellAlign != 0 {
		return badCatalog("slot size is %d, want a multiple of %d", m.SlotSize, CellAlign)
	}
	for i, x := range m.Extents {
		if x.Off%CellAlign != 0 || x.Len%CellAlign != 0 || x.Off > MaxOffset || x.Len > MaxOffset+1-x.Off {
			return badCatalog("extent %d is %d bytes at %#x, want multiples of %d within %#x", i, x.Len, x.Off, CellAlign, uint64(MaxOffset+1))
		}
	}
	return nil
}

func badCatalog(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrBadCatalog}, args...)...)
}

package layout

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// LayoutVersion names the formats of this package. A change to any golden file is a new version.
const LayoutVersion = 1

// RegionHeaderSize is what is reserved at the start of a memory node's region: one page.
const RegionHeaderSize = 4096

// RegionMagic is the first eight bytes of a region.
const RegionMagic = "FJORD\x00\x00\x01"

// The fields of the header. What follows them in the page is zero and not summed.
const (
	offRegMagic           = 0   // 8 bytes
	offRegLayout          = 8   // u32
	offRegNodeID          = 12  // u16
	offRegNodes           = 14  // u16
	offRegClusterID       = 16  // u64
	offRegEpoch           = 24  // u64
	offRegReplicas        = 32  // u16
	offRegShards          = 34  // u16
	offRegExtents         = 36  // u16
	offRegReserved1       = 38  // u16, zero
	offRegSize            = 40  // u64
	offRegExtentOffset    = 48  // u64
	offRegExtentSize      = 56  // u64
	offRegLogOffset       = 64  // u64
	offRegLogSlotSize     = 72  // u64
	offRegLogSlots        = 80  // u16
	offRegSessions        = 82  // u16
	offRegCoordinators    = 84  // u16
	offRegReserved2       = 86  // u16, zero
	offRegHeartbeatOffset = 88  // u64
	offRegHeartbeatSize   = 96  // u64
	offRegSum             = 104 // u64: Sum64 of all before
	regionUsed            = 112
)

// ErrRegionUnformatted: the header is all zero; no region was ever laid out here.
var ErrRegionUnformatted = errors.New("layout: region is not formatted: its header is all zero")

// RegionError says what is wrong with a region header. It does not go away by itself; don't retry.
type RegionError struct {
	Field string // name of the field
	Found string // its value
	Want  string // what would be right
}

// Error names the field, what was found and what would be right.
func (e *RegionError) Error() string {
	return fmt.Sprintf("layout: region header: %s is %s, want %s", e.Field, e.Found, e.Want)
}

// RegionHeader describes how a memory node's region is cut up: header page, heartbeats, log slots, extents.
// Offsets are in bytes from the start of the region, sizes in bytes.
type RegionHeader struct {
	ClusterID uint64 // random, the same on all nodes
	NodeID    uint16
	Nodes     uint16 // memory nodes of the cluster
	Replicas  uint16 // copies of a shard, primary included
	Shards    uint16
	Epoch     uint64 // in which the header was written

	RegionSize   uint64
	ExtentOffset uint64 // of the first extent; the others follow without gaps
	ExtentSize   uint64 // of the extent of one shard
	Extents      uint16 // extents in this region

	LogOffset    uint64 // of the first log slot
	LogSlotSize  uint64
	LogSlots     uint16 // per session
	Sessions     uint16 // per coordinator
	Coordinators uint16

	HeartbeatOffset uint64
	HeartbeatSize   uint64 // 0: none
}

// LogBytes returns the size of the log area, in bytes.
func (h *RegionHeader) LogBytes() uint64 {
	return uint64(h.Coordinators) * uint64(h.Sessions) * uint64(h.LogSlots) * h.LogSlotSize
}

// LogSlotAt returns the offset in the region of a log slot. Slots of a session lie together, and sessions of
// a coordinator, so that recovery reads a coordinator's in one piece.
func (h *RegionHeader) LogSlotAt(coordinator, session, slot int) uint64 {
	i := (uint64(coordinator)*uint64(h.Sessions)+uint64(session))*uint64(h.LogSlots) + uint64(slot)
	return h.LogOffset + i*h.LogSlotSize
}

// ExtentAt returns the offset in the region of its i-th extent.
func (h *RegionHeader) ExtentAt(i int) uint64 { return h.ExtentOffset + uint64(i)*h.ExtentSize }

// Encode writes the header page, RegionHeaderSize bytes, to dst. It does not call Validate.
func (h *RegionHeader) Encode(dst []byte) {
	b := dst[:RegionHeaderSize:len(dst)]
	clear(b)
	copy(b[offRegMagic:], RegionMagic)
	binary.LittleEndian.PutUint32(b[offRegLayout:], LayoutVersion)
	binary.LittleEndian.PutUint16(b[offRegNodeID:], h.NodeID)
	binary.LittleEndian.PutUint16(b[offRegNodes:], h.Nodes)
	binary.LittleEndian.PutUint64(b[offRegClusterID:], h.ClusterID)
	binary.LittleEndian.PutUint64(b[offRegEpoch:], h.Epoch)
	binary.LittleEndian.PutUint16(b[offRegReplicas:], h.Replicas)
	binary.LittleEndian.PutUint16(b[offRegShards:], h.Shards)
	binary.LittleEndian.PutUint16(b[offRegExtents:], h.Extents)
	binary.LittleEndian.PutUint64(b[offRegSize:], h.RegionSize)
	binary.LittleEndian.PutUint64(b[offRegExtentOffset:], h.ExtentOffset)
	binary.LittleEndian.PutUint64(b[offRegExtentSize:], h.ExtentSize)
	binary.LittleEndian.PutUint64(b[offRegLogOffset:], h.LogOffset)
	binary.LittleEndian.PutUint64(b[offRegLogSlotSize:], h.LogSlotSize)
	binary.LittleEndian.PutUint16(b[offRegLogSlots:], h.LogSlots)
	binary.LittleEndian.PutUint16(b[offRegSessions:], h.Sessions)
	binary.LittleEndian.PutUint16(b[offRegCoordinators:], h.Coordinators)
	binary.LittleEndian.PutUint64(b[offRegHeartbeatOffset:], h.HeartbeatOffset)
	binary.LittleEndian.PutUint64(b[offRegHeartbeatSize:], h.HeartbeatSize)
	binary.LittleEndian.PutUint64(b[offRegSum:], Sum64(b[:offRegSum]))
}

// DecodeRegionHeader reads and validates the header at the start of b. It returns ErrRegionUnformatted if
// the header is all zero, else a *RegionError.
func DecodeRegionHeader(b []byte) (RegionHeader, error) {
	if len(b) < regionUsed {
		return RegionHeader{}, regionErr("buffer", fmt.Sprintf("%d bytes", len(b)), fmt.Sprintf("at least %d", regionUsed))
	}
	b = b[:regionUsed:regionUsed]
	if allZero(b) {
		return RegionHeader{}, ErrRegionUnformatted
	}
	if m := b[offRegMagic : offRegMagic+len(RegionMagic)]; string(m) != RegionMagic {
		return RegionHeader{}, regionErr("magic", fmt.Sprintf("%q", m), fmt.Sprintf("%q: this memory is not a fjord region", RegionMagic))
	}
	// Before the sum: another version may place it elsewhere.
	if v := binary.LittleEndian.Uint32(b[offRegLayout:]); v != LayoutVersion {
		return RegionHeader{}, regionErr("layout version", fmt.Sprint(v), fmt.Sprintf("%d: the region was laid out by another release", LayoutVersion))
	}
	if got, want := binary.LittleEndian.Uint64(b[offRegSum:]), Sum64(b[:offRegSum]); got != want {
		return RegionHeader{}, regionErr("sum", fmt.Sprintf("%#x", got), fmt.Sprintf("%#x: the header is damaged or half written", want))
	}
	if x, y := binary.LittleEndian.Uint16(b[offRegReserved1:]), binary.LittleEndian.Uint16(b[offRegReserved2:]); x|y != 0 {
		return RegionHeader{}, regionErr("reserved", fmt.Sprintf("%#x, %#x", x, y), "0")
	}
	h := RegionHeader{
		NodeID:          binary.LittleEndian.Uint16(b[offRegNodeID:]),
		Nodes:           binary.LittleEndian.Uint16(b[offRegNodes:]),
		ClusterID:       binary.LittleEndian.Uint64(b[offRegClusterID:]),
		Epoch:           binary.LittleEndian.Uint64(b[offRegEpoch:]),
		Replicas:        binary.LittleEndian.Uint16(b[offRegReplicas:]),
		Shards:          binary.LittleEndian.Uint16(b[offRegShards:]),
		Extents:         binary.LittleEndian.Uint16(b[offRegExtents:]),
		RegionSize:      binary.LittleEndian.Uint64(b[offRegSize:]),
		ExtentOffset:    binary.LittleEndian.Uint64(b[offRegExtentOffset:]),
		ExtentSize:      binary.LittleEndian.Uint64(b[offRegExtentSize:]),
		LogOffset:       binary.LittleEndian.Uint64(b[offRegLogOffset:]),
		LogSlotSize:     binary.LittleEndian.Uint64(b[offRegLogSlotSize:]),
		LogSlots:        binary.LittleEndian.Uint16(b[offRegLogSlots:]),
		Sessions:        binary.LittleEndian.Uint16(b[offRegSessions:]),
		Coordinators:    binary.LittleEndian.Uint16(b[offRegCoordinators:]),
		HeartbeatOffset: binary.LittleEndian.Uint64(b[offRegHeartbeatOffset:]),
		HeartbeatSize:   binary.LittleEndian.Uint64(b[offRegHeartbeatSize:]),
	}
	if err := h.Validate(); err != nil {
		return RegionHeader{}, err
	}
	return h, nil
}

// Validate checks that the header describes a region: its counts are possible, and its areas are aligned,
// within the region and disjoint. The error is a *RegionError.
func (h *RegionHeader) Validate() error {
	if h.Nodes == 0 {
		return regionErr("nodes", "0", "1 or more")
	}
	if h.Replicas == 0 || h.Replicas > h.Nodes {
		return regionErr("replicas", fmt.Sprint(h.Replicas), fmt.Sprintf("1 to %d, the number of nodes", h.Nodes))
	}
	if h.Shards == 0 {
		return regionErr("shards", "0", "1 or more")
	}
	if h.Extents > h.Shards {
		return regionErr("extents", fmt.Sprint(h.Extents), fmt.Sprintf("%d at most, one per shard", h.Shards))
	}
	if h.ExtentSize == 0 || h.ExtentSize%CellAlign != 0 || h.ExtentSize > MaxOffset+1 {
		return regionErr("extent size", fmt.Sprint(h.ExtentSize), fmt.Sprintf("a multiple of %d up to %d", CellAlign, uint64(MaxOffset+1)))
	}
	if h.LogSlotSize < LogHeaderSize || h.LogSlotSize%CellAlign != 0 || h.LogSlotSize > 1<<31 {
		return regionErr("log slot size", fmt.Sprint(h.LogSlotSize), fmt.Sprintf("a multiple of %d from %d to %d", CellAlign, LogHeaderSize, uint64(1<<31)))
	}
	for _, c := range []struct {
		name  string
		value uint16
	}{
		{"log slots per session", h.LogSlots},
		{"sessions per coordinator", h.Sessions},
		{"coordinators", h.Coordinators},
	} {
		if c.value == 0 {
			return regionErr(c.name, "0", "1 or more")
		}
	}

	// LogBytes may wrap: three counts of 16 bits and a size of 32.
	slots := uint64(h.Coordinators) * uint64(h.Sessions) * uint64(h.LogSlots)
	areas := [...]struct {
		name        string
		off         uint64
		count, each uint64
	}{
		{"header", 0, 1, RegionHeaderSize},
		{"log", h.LogOffset, slots, h.LogSlotSize},
		{"heartbeat", h.HeartbeatOffset, 1, h.HeartbeatSize},
		{"extent", h.ExtentOffset, uint64(h.Extents), h.ExtentSize},
	}
	var ends [len(areas)]uint64
	for i, a := range areas {
		if a.off%CellAlign != 0 {
			return regionErr(a.name+" offset", fmt.Sprintf("%#x", a.off), fmt.Sprintf("a multiple of %d", CellAlign))
		}
		over, size := bits.Mul64(a.count, a.each)
		end, carry := bits.Add64(a.off, size, 0)
		if over|carry != 0 || end > h.RegionSize {
			return regionErr(a.name+" area", fmt.Sprintf("%d x %d bytes at %#x", a.count, a.each, a.off), fmt.Sprintf("its end within the region size, %#x", h.RegionSize))
		}
		ends[i] = end
		if size == 0 {
			continue
		}
		for j, o := range areas[:i] {
			if a.off < ends[j] && o.off < end {
				return regionErr(a.name+" offset", fmt.Sprintf("%#x", a.off), fmt.Sprintf("outside the %s area, %#x to %#x", o.name, o.off, ends[j]))
			}
		}
	}
	return nil
}

func regionErr(field, found, want string) error {
	return &RegionError{Field: field, Found: found, Want: want}
}

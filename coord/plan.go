package coord

import (
	"fmt"

	"fjord/layout"
	"fjord/verbs"
)

// Layout is the shape of a cluster: what the directory tells a coordinator.
type Layout struct {
	Header layout.RegionHeader // as in every node's region, NodeID aside
	Nodes  []NodeInfo
	Shards []ShardInfo
}

// NodeInfo is how a memory node is reached.
type NodeInfo struct {
	GID  verbs.GID
	Base uint64 // virtual address of the region
	RKey uint32
}

// ShardInfo is where a shard's extent lies: at the same offset in the region of
// each of its replicas.
type ShardInfo struct {
	Replicas []int // nodes, the primary first
	Slot     int   // which of the region's extents
}

// ExtentOffset is the offset of a shard's extent in the region of its replicas.
func (l *Layout) ExtentOffset(shard int) uint64 {
	return l.Header.ExtentAt(l.Shards[shard].Slot)
}

// logSlots is how many log slots a session takes in turn. With two, a
// transaction need not wait for the unlocks of the one before it.
const logSlots = 2

// heartbeatLine is what a coordinator's heartbeat takes: a line of its own.
const heartbeatLine = 64

// reservedPerExtent is the start of every extent, where the shard's allocator
// cell is; offset 0 is no cell's, so that address 0 can mean none. The catalog's
// part follows, then what the allocator gives out.
const reservedPerExtent = 4096

// extentAlign keeps extents on the boundaries of huge pages.
const extentAlign = 2 << 20

// planCluster decides where everything is. Every node is the primary of one
// shard, whose backups are the nodes after it.
func planCluster(c ClusterConfig) (*Layout, error) {
	n := c.MemoryNodes
	if need := tableLog(n); c.LogSlot < need {
		return nil, fmt.Errorf("%w: LogSlot is %d: to create or drop a table on %d memory nodes takes %d; right is %d at least",
			ErrConfig, c.LogSlot, n, need, align(need, layout.CellAlign))
	}
	l := &Layout{Nodes: make([]NodeInfo, n), Shards: make([]ShardInfo, n)}
	used := make([]map[int]bool, n) // extents taken at each node
	for i := range used {
		used[i] = make(map[int]bool)
	}
	extents := 0
	for s := range l.Shards {
		replicas := make([]int, c.Replicas)
		for i := range replicas {
			replicas[i] = (s + i) % n
		}
		slot := 0
		free := func() bool {
			for _, r := range replicas {
				if used[r][slot] {
					return false
				}
			}
			return true
		}
		for !free() {
			slot++
		}
		for _, r := range replicas {
			used[r][slot] = true
		}
		l.Shards[s] = ShardInfo{Replicas: replicas, Slot: slot}
		extents = max(extents, slot+1)
	}
	beats := uint64(c.Coordinators) * heartbeatLine
	logs := uint64(c.Coordinators) * uint64(c.Sessions) * logSlots * c.LogSlot
	start := align(layout.RegionHeaderSize+align(beats, 4096)+logs, 4096)
	size := uint64(0)
	if c.NodeMemory > start {
		size = (c.NodeMemory - start) / uint64(extents)
		if size >= 2*extentAlign {
			start = align(start, extentAlign)
			size = (c.NodeMemory - start) / uint64(extents) &^ (extentAlign - 1)
		}
		size &^= 4095
	}
	if least := firstFree(n, c.Sessions) + minExtent; size < least {
		return nil, fmt.Errorf("%w: NodeMemory is %d: logs of %d coordinators × %d sessions × %d slots × %d bytes take %d, and %d extents need %d each; right is %d at least",
			ErrConfig, c.NodeMemory, c.Coordinators, c.Sessions, logSlots, c.LogSlot, logs, extents, least,
			start+uint64(extents)*least)
	}
	l.Header = layout.RegionHeader{
		Nodes: uint16(n), Replicas: uint16(c.Replicas), Shards: uint16(n), Epoch: 1,
		RegionSize: c.NodeMemory, ExtentOffset: start, ExtentSize: size, Extents: uint16(extents),
		LogOffset: layout.RegionHeaderSize + align(beats, 4096), LogSlotSize: c.LogSlot, LogSlots: logSlots,
		Sessions: uint16(c.Sessions), Coordinators: uint16(c.Coordinators),
		HeartbeatOffset: layout.RegionHeaderSize, HeartbeatSize: beats,
	}
	return l, nil
}

func align(n, to uint64) uint64 { return (n + to - 1) / to * to }

// AllocatorAddr is the address of a shard's allocation cursor.
func AllocatorAddr(shard int) layout.Addr {
	return layout.MakeAddr(uint16(shard), layout.CellAlign)
}

// AllocatorSlot is the size of that cell's slot.
const AllocatorSlot = (layout.HeaderSize + layout.FreeListSize + layout.CellAlign - 1) &^ (layout.CellAlign - 1)

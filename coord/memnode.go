package coord

import (
	"fmt"
	"sync"

	"fjord/layout"
	"fjord/verbs"
)

// MemNode is a memory node's server: it registers a region, formats it once,
// accepts QPs, and destroys them. Its processor takes no part in transactions.
type MemNode struct {
	dev verbs.Device
	pd  verbs.PD
	cq  verbs.CQ
	mem *verbs.Memory
	mr  verbs.MR
	id  int

	mu     sync.Mutex
	closed bool
	links  map[uint32]*link // by QPN
	fenced map[uint16]bool  // coordinators that are refused
	beats  uint64           // offset of the heartbeats in the region
}

// newMemNode maps and formats the region of node id of the cluster.
func newMemNode(dev verbs.Device, id int, l *Layout, huge verbs.HugePages) (n *MemNode, err error) {
	n = &MemNode{dev: dev, id: id, links: make(map[uint32]*link), fenced: make(map[uint16]bool), beats: l.Header.HeartbeatOffset}
	defer func() {
		if err != nil {
			_ = n.Close() // the first error is the one to tell
			n, err = nil, fmt.Errorf("coord: memory node %d: %w", id, err)
		}
	}()
	if n.pd, err = dev.AllocPD(); err != nil {
		return n, err
	}
	if n.cq, err = dev.CreateCQ(16); err != nil { // its QPs send nothing
		return n, err
	}
	if n.mem, err = verbs.MapMemory(l.Header.RegionSize, huge); err != nil {
		return n, err
	}
	n.format(l)
	n.mr, err = n.pd.RegisterMR(n.mem, verbs.AccessAll)
	return n, err
}

// format writes the region header, and the allocators of the shards that have a
// copy here. Everything else is zero, which is what a virgin cell is.
func (n *MemNode) format(l *Layout) {
	b := n.mem.Bytes()
	h := l.Header
	h.NodeID = uint16(n.id)
	h.Encode(b[:layout.RegionHeaderSize])
	for s, shard := range l.Shards {
		for _, r := range shard.Replicas {
			if r != n.id {
				continue
			}
			var free layout.FreeList
			var value [layout.FreeListSize]byte
			first := firstFree(len(l.Shards), int(h.Sessions))
			if err := free.Free(first, h.ExtentSize-first); err != nil {
				panic(err) // an empty list takes any range
			}
			free.Encode(value[:])
			addr := AllocatorAddr(s)
			cell := b[l.ExtentOffset(s)+addr.Offset():]
			layout.EncodeCell(cell[:AllocatorSlot], addr, 1, 0, layout.KindCursor, nil, value[:])
		}
	}
}

// info is what the directory tells of this node.
func (n *MemNode) info() NodeInfo {
	return NodeInfo{GID: n.dev.Attr().GID, Base: n.mr.Addr(), RKey: n.mr.RKey()}
}

// accept makes the responder's side of a connection with a coordinator, ready to
// receive.
func (n *MemNode) accept(id uint16, from verbs.Endpoint) (verbs.Endpoint, error) {
	n.mu.Lock()
	err := n.refusal(id)
	n.mu.Unlock()
	if err != nil {
		return verbs.Endpoint{}, err
	}
	qp, err := n.pd.CreateQP(verbs.QPInit{SendCQ: n.cq, RecvCQ: n.cq, MaxSendWR: 1, MaxSendSGE: 1})
	if err != nil {
		return verbs.Endpoint{}, fmt.Errorf("coord: memory node %d: %w", n.id, err)
	}
	here := verbs.Endpoint{GID: n.dev.Attr().GID, QPN: qp.Num(), PSN: uint32(n.dev.Runtime().Secret()) & (1<<24 - 1)}
	if err := verbs.BringUp(qp, here, from, verbs.DefaultConnAttr(n.dev.Attr())); err != nil {
		_ = qp.Close() // the first error is the one to tell
		return verbs.Endpoint{}, fmt.Errorf("coord: memory node %d: %w", n.id, err)
	}
	n.mu.Lock()
	err = n.admit(id, qp)
	n.mu.Unlock()
	if err != nil {
		_ = qp.Close() // the first error is the one to tell
		return verbs.Endpoint{}, err
	}
	return here, nil
}

// Close stops the node as a power cut would.
func (n *MemNode) Close() error {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil
	}
	n.closed = true
	n.mu.Unlock()
	err := n.dev.Close()
	if n.mem != nil {
		if e := n.mem.Free(); err == nil {
			err = e
		}
	}
	return err
}

package coord

import (
	"errors"
	"regexp"
	"strconv"
	"testing"

	"fjord/layout"
)

// span is a range of a node's region that something takes.
type span struct {
	what     string
	from, to uint64
}

func overlap(t *testing.T, spans []span) {
	t.Helper()
	for i, a := range spans {
		for _, b := range spans[:i] {
			if a.from < b.to && b.from < a.to {
				t.Fatalf("%s [%#x, %#x) and %s [%#x, %#x) overlap", a.what, a.from, a.to, b.what, b.from, b.to)
			}
		}
	}
}

// Whatever the number of nodes and copies: every node is the primary of one
// shard, every shard has its copies on as many nodes, at the same offset on each,
// and nothing in a region overlaps anything else or its end.
func TestPlan(t *testing.T) {
	for nodes := 1; nodes <= 16; nodes++ {
		for replicas := 1; replicas <= min(nodes, 8); replicas++ {
			cfg := ClusterConfig{MemoryNodes: nodes, Replicas: replicas, NodeMemory: 32 << 20, Coordinators: 3, Sessions: 5, LogSlot: max(minLogSlot, align(tableLog(nodes), 64))}
			l, err := planCluster(cfg)
			if err != nil {
				t.Fatalf("%d nodes, %d copies: %v", nodes, replicas, err)
			}
			h := &l.Header
			if err := h.Validate(); err != nil {
				t.Errorf("%d nodes, %d copies: header: %v", nodes, replicas, err)
			}
			taken := make([][]span, nodes)
			primaries := make(map[int]int)
			for s, shard := range l.Shards {
				if len(shard.Replicas) != replicas {
					t.Errorf("shard %d has copies on %v, want %d", s, shard.Replicas, replicas)
				}
				primaries[shard.Replicas[0]]++
				seen := make(map[int]bool)
				for _, n := range shard.Replicas {
					if seen[n] || n < 0 || n >= nodes {
						t.Errorf("shard %d has copies on %v", s, shard.Replicas)
					}
					seen[n] = true
					from := l.ExtentOffset(s) // the same for all
					taken[n] = append(taken[n], span{"extent of shard " + strconv.Itoa(s), from, from + h.ExtentSize})
				}
			}
			for n := range nodes {
				if primaries[n] != 1 {
					t.Errorf("%d nodes, %d copies: node %d is the primary of %d shards", nodes, replicas, n, primaries[n])
				}
				spans := append(taken[n], span{"header", 0, layout.RegionHeaderSize},
					span{"heartbeats", h.HeartbeatOffset, h.HeartbeatOffset + h.HeartbeatSize}, span{"the end", h.RegionSize, 1 << 62})
				for place := range cfg.Coordinators {
					for session := range cfg.Sessions {
						for slot := range logSlots {
							at := h.LogSlotAt(place, session, slot)
							spans = append(spans, span{"a log slot", at, at + h.LogSlotSize})
							if at%64 != 0 {
								t.Errorf("a log slot is at %#x", at)
							}
						}
					}
				}
				overlap(t, spans)
			}
			if h.ExtentSize < firstFree(nodes, int(h.Sessions))+minExtent || h.ExtentSize%4096 != 0 || h.ExtentOffset%4096 != 0 {
				t.Errorf("%d nodes, %d copies: extents of %d bytes from %#x on", nodes, replicas, h.ExtentSize, h.ExtentOffset)
			}
			// At most half of the memory goes to waste, for whatever reason.
			used := uint64(replicas) * h.ExtentSize
			if most := uint64(h.Extents) * h.ExtentSize; used*2 < most {
				t.Errorf("%d nodes, %d copies: %d of %d extents of a region are used", nodes, replicas, replicas, h.Extents)
			}
		}
	}
}

// Large extents begin on boundaries of huge pages.
func TestPlanKeepsExtentsOnHugePages(t *testing.T) {
	l, err := planCluster(ClusterConfig{MemoryNodes: 3, Replicas: 3, NodeMemory: 512 << 20, Coordinators: 4, Sessions: 128, LogSlot: defaultLogSlot})
	if err != nil {
		t.Fatal(err)
	}
	for s := range l.Shards {
		if off := l.ExtentOffset(s); off%extentAlign != 0 {
			t.Errorf("the extent of shard %d is at %#x", s, off)
		}
	}
}

// What is wrong with a configuration is told with the field, the value, and what
// would be right; a number of bytes that is named as enough is enough.
func TestConfigValidate(t *testing.T) {
	good := small(2, 2)
	for _, c := range []struct {
		change func(c *ClusterConfig)
		words  []string
	}{
		{func(c *ClusterConfig) { c.MemoryNodes = 0 }, []string{"MemoryNodes is 0", "1 to 256"}},
		{func(c *ClusterConfig) { c.MemoryNodes = -1 }, []string{"MemoryNodes is -1"}},
		{func(c *ClusterConfig) { c.Replicas = 0 }, []string{"Replicas is 0", "1 to 8"}},
		{func(c *ClusterConfig) { c.Replicas = 3 }, []string{"Replicas is 3", "2 memory nodes"}},
		{func(c *ClusterConfig) { c.Coordinators = -1 }, []string{"Coordinators is -1", "1 to 1024"}},
		{func(c *ClusterConfig) { c.Sessions = 5000 }, []string{"Sessions is 5000", "1 to 4096"}},
		{func(c *ClusterConfig) { c.LogSlot = 100 }, []string{"LogSlot is 100", "4096 to"}},
		{func(c *ClusterConfig) { c.MemoryNodes = 4 }, []string{"LogSlot is 4096", "4 memory nodes"}},
		{func(c *ClusterConfig) { c.LogSlot = 4100 }, []string{"LogSlot is 4100", "multiple of 64"}},
		{func(c *ClusterConfig) { c.NodeMemory = 0 }, []string{"NodeMemory is 0"}},
		{func(c *ClusterConfig) { c.NodeMemory = 1 << 20; c.Sessions = 100 }, []string{"NodeMemory is 1048576", "100 sessions", "at least"}},
	} {
		cfg := good
		c.change(&cfg)
		err := cfg.Validate()
		wantErr(t, err, ErrConfig, c.words...)
		if err == nil {
			continue
		}
		if m := regexp.MustCompile(`(NodeMemory|LogSlot) is .* right is (\d+) at least`).FindStringSubmatch(err.Error()); m != nil {
			least, _ := strconv.ParseUint(m[2], 10, 64)
			field, step := &cfg.NodeMemory, uint64(4096)
			if m[1] == "LogSlot" {
				field, step = &cfg.LogSlot, layout.CellAlign
			}
			*field = least
			if err := cfg.Validate(); err != nil {
				t.Errorf("with what is named as enough: %v", err)
			}
			*field = least - step
			if err := cfg.Validate(); !errors.Is(err, ErrConfig) {
				t.Errorf("with less than that: %v", err)
			}
		}
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}

// The memory of every node is formatted alike, but for its own number; every
// shard has its allocator, with the same free space on each copy.
func TestFormat(t *testing.T) {
	c := newTestCluster(t, small(3, 2))
	l := c.layout
	for n := range l.Nodes {
		b := c.nodes[n].mem.Bytes()
		h, err := layout.DecodeRegionHeader(b)
		if err != nil || int(h.NodeID) != n || h.ClusterID == 0 || h.ClusterID != l.Header.ClusterID {
			t.Errorf("node %d: header %+v, %v", n, h, err)
		}
	}
	for s, shard := range l.Shards {
		a := AllocatorAddr(s)
		for _, n := range shard.Replicas {
			cell := c.nodes[n].mem.Bytes()[l.ExtentOffset(s)+a.Offset():][:AllocatorSlot]
			if st := layout.Verify(cell, a, AllocatorSlot); st != layout.Valid || layout.Lock(cell) != 0 {
				t.Errorf("allocator of shard %d on node %d is %v", s, n, st)
			}
			var f layout.FreeList
			if err := f.Decode(layout.Value(cell)); err != nil || f.Total() != l.Header.ExtentSize-firstFree(3, int(l.Header.Sessions)) {
				t.Errorf("allocator of shard %d on node %d has %d bytes free, %v", s, n, f.Total(), err)
			}
		}
	}
	m, o, first := CatalogMeta(3), OutcomesMeta(3, int(l.Header.Sessions)), firstFree(3, int(l.Header.Sessions))
	for i, x := range m.Extents {
		if x.Off < AllocatorAddr(0).Offset()+AllocatorSlot || x.Off+x.Len > o.Extents[i].Off {
			t.Errorf("the catalog lies at [%#x, %#x), not between the allocator and %#x", x.Off, x.Off+x.Len, o.Extents[i].Off)
		}
		if y := o.Extents[i]; y.Off%layout.CellAlign != 0 || y.Off+y.Len > first || y.Shard != x.Shard {
			t.Errorf("the outcomes lie at [%#x, %#x) of shard %d, not before %#x", y.Off, y.Off+y.Len, y.Shard, first)
		}
	}
}

package coord

import (
	"errors"
	"fmt"

	"fjord/layout"
	"fjord/verbs"
)

// ErrConfig: a cluster's description is out of range or contradicts itself.
var ErrConfig = errors.New("coord: cluster configuration")

// ClusterConfig describes a cluster of memory nodes.
type ClusterConfig struct {
	MemoryNodes  int    // how many
	Replicas     int    // copies of everything, the primary included
	NodeMemory   uint64 // bytes of each node's region
	Coordinators int    // how many may be joined at once; default 4
	Sessions     int    // of each coordinator: transactions at once; default 128
	LogSlot      uint64 // bytes: bounds what one transaction may write; default 128 KiB
	HugePages    verbs.HugePages
}

// Bounds of a ClusterConfig.
const (
	maxNodes        = 256
	maxReplicas     = 8
	maxCoordinators = 1024
	maxSessions     = 4096
	minLogSlot      = 4096
	maxLogSlot      = 1 << 30
	minExtent       = 64 << 10

	defaultCoordinators = 4
	defaultSessions     = 128
	defaultLogSlot      = 128 << 10
)

// EnsureDefaults fills in what was left zero and has a default.
func (c *ClusterConfig) EnsureDefaults() {
	if c.Coordinators == 0 {
		c.Coordinators = defaultCoordinators
	}
	if c.Sessions == 0 {
		c.Sessions = defaultSessions
	}
	if c.LogSlot == 0 {
		c.LogSlot = defaultLogSlot
	}
}

// Validate says what is wrong, after EnsureDefaults has been applied to a copy.
func (c ClusterConfig) Validate() error {
	c.EnsureDefaults()
	for _, l := range []struct {
		name      string
		v, lo, hi uint64
	}{
		{"MemoryNodes", uint64(c.MemoryNodes), 1, maxNodes},
		{"Replicas", uint64(c.Replicas), 1, maxReplicas},
		{"Coordinators", uint64(c.Coordinators), 1, maxCoordinators},
		{"Sessions", uint64(c.Sessions), 1, maxSessions},
		{"LogSlot", c.LogSlot, minLogSlot, maxLogSlot},
		{"NodeMemory", c.NodeMemory, 1 << 20, 1 << 46},
	} {
		if l.v < l.lo || l.v > l.hi { // negative numbers are huge here
			return fmt.Errorf("%w: %s is %d, right is %d to %d", ErrConfig, l.name, int64(l.v), l.lo, l.hi)
		}
	}
	if c.Replicas > c.MemoryNodes {
		return fmt.Errorf("%w: Replicas is %d but there are %d memory nodes: every copy needs a node of its own",
			ErrConfig, c.Replicas, c.MemoryNodes)
	}
	if c.LogSlot%layout.CellAlign != 0 {
		return fmt.Errorf("%w: LogSlot is %d, right is a multiple of %d", ErrConfig, c.LogSlot, layout.CellAlign)
	}
	_, err := planCluster(c)
	return err
}

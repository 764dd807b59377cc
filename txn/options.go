package txn

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"fjord/coord"
	"fjord/lock"
	"fjord/verbs"
)

// Options say what to open and how. The zero value, after EnsureDefaults, is an
// embedded cluster of 3 memory nodes with 3 copies of everything.
type Options struct {
	// Cluster to join. nil: a new embedded one, described by the next five
	// fields, which ends when the DB is closed.
	Cluster *coord.Cluster
	// MemoryNodes is the number of memory nodes. Default 3, or Replicas if that is more.
	MemoryNodes int
	// Replicas is the number of copies of everything, the primary included.
	// Default 3, or MemoryNodes if that is less. More than MemoryNodes is refused.
	Replicas int
	// NodeMemory is the size of each memory node's region in bytes. It is mapped,
	// not touched, at Open. Default 512 MiB.
	NodeMemory uint64
	// LogSlot bounds what one transaction may write: the size of its undo log in
	// bytes, which has the old image of every cell that changes. Each session has two
	// at every memory node. A multiple of 64. Default 128 KiB.
	LogSlot uint64
	// HugePages asks for pages of that size for all registered memory.
	HugePages verbs.HugePages

	// Sessions is how many transactions may run at once; more wait for their
	// turn. Default 128, or what Cluster allows if that is less.
	Sessions int
	// AddressCache is how many addresses of records are remembered, 8 bytes each.
	// Default 1 Mi.
	AddressCache int
	// Lock decides about locks that are held by others. Default lock.CAS.
	Lock lock.Strategy
	// MaxRetries is how often Update and View run a function again after a
	// conflict. Default 1000.
	MaxRetries int

	// SuspectAfter is how long the heartbeat of another coordinator of the cluster may
	// stand still before it is taken for dead, fenced, and what it has left is settled:
	// its transactions are committed or undone, its locks released. All coordinators
	// should have the same. One that was stopped for longer than that finds itself fenced
	// when it goes on, and joins again by itself. Default 2 s where others can join, that
	// is with Cluster, and time is real. NoSuspicion: no heartbeats are shown or looked at.
	SuspectAfter time.Duration

	// Logger is told what an operator must know. nil is silent.
	Logger *zap.Logger
	// Registerer gets a collector of the DB's Stats. nil registers nothing.
	Registerer prometheus.Registerer
	// Recorder is told of every attempt. nil records nothing, and costs nothing.
	Recorder Recorder
}

// Bounds and defaults of Options.
const (
	defaultNodeMemory = 512 << 20
	defaultSessions   = 128
	maxSessions       = 4096
	defaultCache      = 1 << 20
	maxCache          = 1 << 30
	defaultRetries    = 1000
	defaultSuspicion  = 2 * time.Second
	minSuspicion      = time.Duration(coord.MinSuspectAfter)
	maxSuspicion      = time.Duration(coord.MaxSuspectAfter)
)

// NoSuspicion, as Options.SuspectAfter, switches heartbeats off.
const NoSuspicion time.Duration = -1

// EnsureDefaults fills in what was left zero.
func (o *Options) EnsureDefaults() {
	if o.Cluster == nil {
		if o.MemoryNodes == 0 {
			o.MemoryNodes = max(3, o.Replicas)
		}
		if o.Replicas == 0 {
			o.Replicas = min(3, o.MemoryNodes)
		}
		if o.NodeMemory == 0 {
			o.NodeMemory = defaultNodeMemory
		}
		c := o.clusterConfig()
		c.EnsureDefaults()
		o.LogSlot = c.LogSlot
	}
	if o.Sessions == 0 {
		o.Sessions = defaultSessions
		if o.Cluster != nil {
			if l, err := o.Cluster.Layout(context.Background()); err == nil { // else Open will tell
				o.Sessions = min(o.Sessions, int(l.Header.Sessions))
			}
		}
	}
	if o.AddressCache == 0 {
		o.AddressCache = defaultCache
	}
	if o.Lock == nil {
		o.Lock = lock.CAS{}
	}
	if o.MaxRetries == 0 {
		o.MaxRetries = defaultRetries
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
}

// Validate says what is wrong with o, after EnsureDefaults.
func (o *Options) Validate() error {
	if o.Cluster != nil {
		if o.MemoryNodes != 0 || o.Replicas != 0 || o.NodeMemory != 0 || o.LogSlot != 0 || o.HugePages != 0 {
			return fmt.Errorf("%w: MemoryNodes, Replicas, NodeMemory, LogSlot and HugePages describe a new cluster and contradict Cluster", ErrOptions)
		}
	} else if err := o.clusterConfig().Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrOptions, err)
	}
	for _, l := range []struct {
		name      string
		v, lo, hi int
	}{
		{"Sessions", o.Sessions, 1, maxSessions},
		{"AddressCache", o.AddressCache, 1, maxCache},
		{"MaxRetries", o.MaxRetries, 1, 1 << 30},
	} {
		if l.v < l.lo || l.v > l.hi {
			return fmt.Errorf("%w: %s is %d, right is %d to %d", ErrOptions, l.name, l.v, l.lo, l.hi)
		}
	}
	if d := o.SuspectAfter; d != 0 && d != NoSuspicion && (d < minSuspicion || d > maxSuspicion) {
		return fmt.Errorf("%w: SuspectAfter is %v, right is %v to %v, or NoSuspicion", ErrOptions, d, minSuspicion, maxSuspicion)
	}
	return nil
}

// suspectAfter is SuspectAfter for a world: where time passes only when everybody
// waits, somebody who always will has to be asked for.
func (o *Options) suspectAfter(rt verbs.Runtime) time.Duration {
	switch {
	case o.SuspectAfter == NoSuspicion, o.SuspectAfter == 0 && (o.Cluster == nil || rt.Virtual()):
		return 0
	case o.SuspectAfter == 0:
		return defaultSuspicion
	}
	return o.SuspectAfter
}

func (o *Options) clusterConfig() coord.ClusterConfig {
	return coord.ClusterConfig{MemoryNodes: o.MemoryNodes, Replicas: o.Replicas, NodeMemory: o.NodeMemory,
		Sessions: o.Sessions, LogSlot: o.LogSlot, HugePages: o.HugePages}
}

// logOption names what bounds a transaction's undo log.
func (db *DB) logOption() string {
	if db.cluster != nil {
		return "Options.LogSlot"
	}
	return "ClusterConfig.LogSlot"
}

package coord

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"fjord/layout"
	"fjord/verbs"
)

// Coordinator is a compute node's part in a cluster: its device, registered
// memory, address cache and sessions. It is safe for concurrent use; its
// Sessions are not.
type Coordinator struct {
	dir      Directory
	dev      verbs.Device
	rt       verbs.Runtime
	pd       verbs.PD
	mem      *verbs.Memory
	mr       verbs.MR
	standing standing
	layout   *Layout
	shards   []placement
	first    []replica       // the primary of every shard
	inline   verbs.SendFlags // of unlocks: FlagInline, if that can be
	local    chunks
	pool     pool

	// Cache remembers where keys were found.
	Cache *AddrCache

	epoch    atomic.Uint64
	onDrain  func(ctx context.Context, epoch uint64) error
	onRejoin func(old, now uint16)
	closed   atomic.Bool
	heart    heart

	recovered *ids // coordinators whose locks may be released
}

// placement is a shard's replicas, ready for posting.
type placement struct {
	replicas []replica // the primary first
}

type replica struct {
	node int
	base uint64 // virtual address of the extent
}

// Config is how a coordinator joins.
type Config struct {
	Sessions  int // at most; not more than the cluster has log slots for
	Cache     int // addresses remembered
	HugePages verbs.HugePages
	// OnDrain is called when an epoch begins, before and after the transactions
	// that run are waited for.
	OnDrain func(ctx context.Context, epoch uint64) error
	// NewUser makes what hangs on a session in Session.User.
	NewUser func(*Session) any

	// SuspectAfter is how many nanoseconds another coordinator's heartbeat may stand still before
	// that is taken for dead and recovered. This one beats several times as often. 0: it
	// shows no heartbeats, looks at none, and is never suspected. All coordinators of a
	// cluster should have the same.
	SuspectAfter int64
	// OnRecovered is called when the transactions of a dead coordinator are settled. It
	// releases every lock that the dead has left, in all cells there are; its log area
	// is given to another after that. nil: this coordinator recovers nobody.
	OnRecovered func(ctx context.Context, r *Recovery) error
	// Report is told of the recoveries that heartbeats have led to: r is nil if err is
	// not.
	Report func(suspect uint16, r *Recovery, err error)
	// OnRejoin is told when this coordinator was fenced and has another id.
	OnRejoin func(old, now uint16)
}

// Join makes a coordinator on a device of its own.
func Join(ctx context.Context, dir Directory, dev verbs.Device, cfg Config) (_ *Coordinator, err error) {
	l, err := dir.Layout(ctx)
	if err != nil {
		return nil, err
	}
	if cfg.Sessions < 1 || cfg.Sessions > int(l.Header.Sessions) {
		return nil, fmt.Errorf("%w: Sessions is %d, the cluster's log areas allow 1 to %d", ErrConfig, cfg.Sessions, l.Header.Sessions)
	}
	c := &Coordinator{dir: dir, dev: dev, rt: dev.Runtime(), layout: l, Cache: NewAddrCache(cfg.Cache), onDrain: cfg.OnDrain, onRejoin: cfg.OnRejoin,
		recovered: new(ids)}
	if dev.Attr().MaxInline >= unlockSize {
		c.inline = verbs.FlagInline
	}
	c.epoch.Store(l.Header.Epoch)
	for s := range l.Shards {
		p := placement{}
		for _, n := range l.Shards[s].Replicas {
			p.replicas = append(p.replicas, replica{node: n, base: l.Nodes[n].Base + l.ExtentOffset(s)})
		}
		c.shards = append(c.shards, p)
		c.first = append(c.first, p.replicas[0])
	}
	defer func() {
		if err != nil {
			c.release()
		}
	}()
	if err = c.heart.init(c, cfg); err != nil {
		return nil, err
	}
	if c.pd, err = dev.AllocPD(); err != nil {
		return nil, fmt.Errorf("coord: %w", err)
	}
	shared := min(sharedLocal, uint64(len(l.Nodes))*l.Header.RegionSize) // no more than there is to read
	size := uint64(cfg.Sessions+privateSessions)*chunkSize + shared + 8*l.Header.LogSlotSize
	if c.mem, err = verbs.MapMemory(size, cfg.HugePages); err != nil {
		return nil, fmt.Errorf("coord: %w", err)
	}
	if c.mr, err = c.pd.RegisterMR(c.mem, verbs.AccessLocalWrite); err != nil {
		return nil, fmt.Errorf("coord: %w", err)
	}
	if b := c.mem.Bytes(); c.mr.Addr() != uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) {
		return nil, fmt.Errorf("coord: device %q registers memory under another address than its own", dev.Attr().Name)
	}
	c.local.init(c.mem.Bytes())
	c.pool.init(c, cfg)
	seat, err := dir.Join(ctx, c)
	if err != nil {
		return nil, err
	}
	c.standing.sit(seat)
	c.reach(seat.Epoch)
	c.heart.start()
	return c, nil
}

// Runtime is the world of the coordinator's device.
func (c *Coordinator) Runtime() verbs.Runtime { return c.rt }

// Layout is the cluster's shape.
func (c *Coordinator) Layout() *Layout { return c.layout }

// Epoch is the newest epoch acknowledged.
func (c *Coordinator) Epoch() uint64 { return c.epoch.Load() }

// Directory is where the coordinator joined.
func (c *Coordinator) Directory() Directory { return c.dir }

// Fallback is non-nil if huge pages were asked for and not to be had.
func (c *Coordinator) Fallback() error { return c.mem.Fallback }

// Primary returns the node and the virtual address of a cell at its primary.
func (c *Coordinator) Primary(a layout.Addr) (node int, va uint64) {
	r := &c.first[a.Shard()]
	return r.node, r.base + a.Offset()
}

// Replicas returns how many copies a shard has.
func (c *Coordinator) Replicas(shard uint16) int { return len(c.shards[shard].replicas) }

// Replica returns the node and the virtual address of a cell at its i-th copy.
func (c *Coordinator) Replica(a layout.Addr, i int) (node int, va uint64) {
	r := &c.shards[a.Shard()].replicas[i]
	return r.node, r.base + a.Offset()
}

// Holds tells whether a node has a copy of a shard.
func (c *Coordinator) Holds(node int, shard uint16) bool {
	for i := range c.shards[shard].replicas {
		if c.shards[shard].replicas[i].node == node {
			return true
		}
	}
	return false
}

// Drain acknowledges an epoch. What OnDrain looks at may be changed once more by
// transactions that ran while it looked, and be used by ones that came after
// them: hence twice.
func (c *Coordinator) Drain(ctx context.Context, epoch uint64) error {
	seat := c.Seat()
	for range 2 {
		if c.onDrain != nil {
			// A closed coordinator begins nothing: only what it still runs is waited for.
			if err := c.onDrain(ctx, epoch); err != nil && !c.closed.Load() {
				return err
			}
		}
		if err := c.pool.drain(ctx); err != nil {
			return err
		}
	}
	if !c.closed.Load() && c.standing.now.Load() != uint64(seat.ID) {
		return fmt.Errorf("%w: coordinator %d, before it had drained", ErrFenced, seat.ID)
	}
	c.reach(epoch)
	return nil
}

// reach notes an epoch, unless a later one was noted already.
func (c *Coordinator) reach(epoch uint64) {
	for old := c.epoch.Load(); old < epoch && !c.epoch.CompareAndSwap(old, epoch); {
		old = c.epoch.Load()
	}
}

// Close ends the membership: new sessions are refused, running ones are waited
// for until ctx ends, and what they still owe is settled.
func (c *Coordinator) Close(ctx context.Context) error {
	if c.closed.Swap(true) {
		return nil
	}
	c.standing.now.Store(0) // sessions look at it, and then at closed
	quiet, err := c.pool.close(ctx)
	if e := c.heart.stop(ctx); e != nil {
		quiet = false
		if err == nil {
			err = e
		}
	}
	if !quiet {
		return err // a transaction still runs: its memory and its seat stay
	}
	// What has an unknown outcome is left to who recovers this coordinator, and needs
	// its seat for that: its silence tells.
	if !c.pool.abandoned {
		if e := c.dir.Leave(c.Seat()); err == nil {
			err = e
		}
	}
	c.release()
	return err
}

// release gives back what Join took, but for the device.
func (c *Coordinator) release() {
	c.Cache.Close()
	// Errors here mean that the device is gone already.
	if c.mr != nil {
		_ = c.mr.Close()
	}
	if c.mem != nil {
		_ = c.mem.Free()
	}
	if c.pd != nil {
		_ = c.pd.Close()
	}
}

// chunkSize is the unit of local memory: one is enough for most transactions.
const chunkSize = 64 << 10

// sharedLocal is what large transactions share beyond one chunk each.
const sharedLocal = 256 << 20

// chunks hands out runs of registered memory.
type chunks struct {
	mu   sync.Mutex
	mem  []byte
	used []bool
	hint int // below it all are used
}

func (c *chunks) init(mem []byte) { c.mem, c.used = mem, make([]bool, len(mem)/chunkSize) }

// take returns n bytes or more, nil if there is no run of that length.
func (c *chunks) take(n int) []byte {
	want := (n + chunkSize - 1) / chunkSize
	c.mu.Lock()
	defer c.mu.Unlock()
	for run, i := 0, c.hint; i < len(c.used); i++ {
		if c.used[i] {
			run = 0
			continue
		}
		if run++; run < want {
			continue
		}
		first := i + 1 - want
		for j := first; j <= i; j++ {
			c.used[j] = true
		}
		if first == c.hint {
			c.hint = i + 1
		}
		return c.mem[first*chunkSize : (i+1)*chunkSize : (i+1)*chunkSize]
	}
	return nil
}

// give returns what take gave.
func (c *chunks) give(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))-uintptr(unsafe.Pointer(unsafe.SliceData(c.mem)))) / chunkSize
	for i := range len(b) / chunkSize {
		c.used[first+i] = false
	}
	c.hint = min(c.hint, first)
}

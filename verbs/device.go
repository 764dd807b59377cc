package verbs

import "fmt"

// GID addresses a port of a device, as an IPv6 address does.
type GID [16]byte

// String writes the GID in eight groups of hexadecimal digits.
func (g GID) String() string {
	return fmt.Sprintf("%x:%x:%x:%x:%x:%x:%x:%x",
		g[0:2], g[2:4], g[4:6], g[6:8], g[8:10], g[10:12], g[12:14], g[14:16])
}

// Caps are what a provider has beyond the core.
type Caps uint32

// The optional capabilities.
const (
	CapInline       Caps = 1 << iota // FlagInline saves a copy or a DMA
	CapEventWait                     // CQ.Arm works: a waiter may park
	CapInOrderLines                  // the lines of one READ or WRITE are accessed in ascending order
	CapSyncPost                      // requests have executed when PostSend returns
	CapHugePages                     // regions may ask for huge pages
)

// AtomicCap says with whom a device's atomics are atomic.
type AtomicCap uint8

// The levels of atomicity.
const (
	AtomicNone AtomicCap = iota
	AtomicHCA            // with other atomics of the same device
	AtomicGlob           // also with processors and other devices
)

// String returns NONE, HCA or GLOB.
func (a AtomicCap) String() string {
	switch a {
	case AtomicNone:
		return "NONE"
	case AtomicHCA:
		return "HCA"
	case AtomicGlob:
		return "GLOB"
	}
	return fmt.Sprintf("AtomicCap(%d)", uint8(a))
}

// DeviceAttr describes a device: identity, limits, capabilities.
type DeviceAttr struct {
	Name          string
	Provider      string // mem, shm, roce, ibv, sim
	GID           GID
	Ports         uint8
	ActiveMTU     uint32 // bytes
	MaxQP         int
	MaxQPWR       int // requests in one queue
	MaxSGE        int // pieces of one request
	MaxCQ         int
	MaxCQE        int
	MaxMR         int
	MaxMRSize     uint64
	MaxPD         int
	MaxMsgSize    uint32
	MaxInline     uint32
	MaxQPRdAtomic uint8 // READs and atomics in flight, as requester and as responder
	Atomics       AtomicCap
	Caps          Caps
}

// Device is an opened RDMA device. Its methods may be called from any
// goroutine.
type Device interface {
	// Attr returns what the device is and can do.
	Attr() DeviceAttr
	// Runtime returns the clock, the sleeps and the random numbers of the
	// world that this device lives in.
	Runtime() Runtime
	// AllocPD makes a protection domain: regions and QPs work together only
	// within one.
	AllocPD() (PD, error)
	// CreateCQ makes a completion queue that holds at least depth entries.
	CreateCQ(depth int) (CQ, error)
	// PollEvents takes up to len(ev) asynchronous events, oldest first; it
	// never blocks.
	PollEvents(ev []AsyncEvent) int
	// Close ends the device: its QPs go to ERR, everything made from it is
	// closed. It waits for requests that are executing on its memory.
	Close() error
}

// PD is a protection domain.
type PD interface {
	// RegisterMR makes memory usable by this domain's QPs, and by remote ones as
	// far as access says. The memory stays mapped until MR.Close.
	RegisterMR(m *Memory, access Access) (MR, error)
	// CreateQP makes a reliable-connected QP in state RESET.
	CreateQP(attr QPInit) (QP, error)
	// Close frees the domain; ErrBusy while a region or QP lives in it.
	Close() error
}

// Access is what may be done with a region (RegisterMR) or, for the remote
// rights, through a QP (QPAttr.Access).
type Access uint8

// The rights. Local reading is always allowed.
const (
	AccessLocalWrite Access = 1 << iota
	AccessRemoteRead
	AccessRemoteWrite
	AccessRemoteAtomic

	// AccessAll is every right.
	AccessAll = AccessLocalWrite | AccessRemoteRead | AccessRemoteWrite | AccessRemoteAtomic
)

// MR is a registered memory region.
type MR interface {
	Addr() uint64   // address of Bytes()[0] in this process: SGEs and remote peers name it
	Length() uint64 // bytes
	LKey() uint32
	RKey() uint32
	// Bytes is the memory itself. Where remote peers write concurrently it must
	// not be read but through verbs.
	Bytes() []byte
	// Close deregisters the region. It waits for requests that are executing on
	// it; later ones fail with a protection or access error. The Memory may be
	// freed after it.
	Close() error
}

// CQ is a completion queue.
type CQ interface {
	// Poll takes up to len(wcs) completions, oldest first, and returns how many;
	// it never blocks and allocates nothing. It may be called from several
	// goroutines.
	Poll(wcs []WC) int
	// Arm calls p.Unpark once, at the next completion that arrives. Poll once
	// more after Arm: what was there before does not count.
	Arm(p Parker)
	// Depth is the number of completions it holds. One more is an asynchronous
	// error: the CQ is lost, its QPs go to ERR. A CQ as deep as all queues of its
	// QPs together never overflows.
	Depth() int
	// Close frees the queue; ErrBusy while a QP uses it.
	Close() error
}

// EventType is a kind of asynchronous event.
type EventType uint8

// The asynchronous events.
const (
	EventCQError  EventType = iota // a CQ overflowed; it is lost
	EventQPFatal                   // a QP went to ERR on its own
	EventQPAccess                  // a QP went to ERR since a peer's request broke a rule
	EventDevice                    // the device failed or was closed
)

// String names the event.
func (e EventType) String() string {
	switch e {
	case EventCQError:
		return "CQ_ERR"
	case EventQPFatal:
		return "QP_FATAL"
	case EventQPAccess:
		return "QP_ACCESS_ERR"
	case EventDevice:
		return "DEVICE_FATAL"
	}
	return fmt.Sprintf("EventType(%d)", uint8(e))
}

// AsyncEvent tells of an error that belongs to no single request.
type AsyncEvent struct {
	Type EventType
	QPN  uint32 // the QP, where the event is about one
	CQ   CQ     // the CQ, where it is about one
}

package mem

import (
	"encoding/binary"
	"fmt"
	"sync"

	"fjord/verbs"
)

// Fabric joins devices that reach each other.
type Fabric struct {
	rt verbs.Runtime

	mu      sync.RWMutex
	devices map[verbs.GID]*Device
	next    uint64
}

// NewFabric returns an empty network in the world of rt (nil: the real one).
func NewFabric(rt verbs.Runtime) *Fabric {
	if rt == nil {
		rt = verbs.RealRuntime()
	}
	return &Fabric{rt: rt, devices: make(map[verbs.GID]*Device)}
}

// Limits of a mem device: generous, but every queue has an end.
const (
	maxQP       = 1 << 16
	maxWR       = 1 << 16
	maxSGE      = 32
	maxCQ       = 1 << 16
	maxCQE      = 1 << 20
	maxMR       = 1 << 12
	maxPD       = 1 << 10
	maxMsg      = 1 << 30
	maxInline   = 1024
	maxRdAtomic = 128
	maxEvents   = 1024
)

// NewDevice adds a device to the fabric.
func (f *Fabric) NewDevice(name string) *Device {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	d := &Device{fabric: f, rt: f.rt, qps: make(map[uint32]*qp)}
	d.attr = verbs.DeviceAttr{
		Name: name, Provider: "mem", Ports: 1, ActiveMTU: 4096,
		MaxQP: maxQP, MaxQPWR: maxWR, MaxSGE: maxSGE, MaxCQ: maxCQ, MaxCQE: maxCQE, MaxMR: maxMR,
		MaxMRSize: 1 << 46, MaxPD: maxPD, MaxMsgSize: maxMsg, MaxInline: maxInline, MaxQPRdAtomic: maxRdAtomic,
		Atomics: verbs.AtomicGlob,
		Caps:    verbs.CapInline | verbs.CapEventWait | verbs.CapInOrderLines | verbs.CapSyncPost | verbs.CapHugePages,
	}
	d.attr.GID[0], d.attr.GID[1] = 0xfe, 0x80
	binary.BigEndian.PutUint64(d.attr.GID[8:], f.next)
	d.mrs.Store(&mrTable{slots: make([]*mr, 16)})
	f.devices[d.attr.GID] = d
	return d
}

// lookup finds the QP that an endpoint names; nil if there is none.
func (f *Fabric) lookup(gid verbs.GID, qpn uint32) *qp {
	f.mu.RLock()
	d := f.devices[gid]
	f.mu.RUnlock()
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.qps[qpn]
}

func (f *Fabric) remove(d *Device) {
	f.mu.Lock()
	delete(f.devices, d.attr.GID)
	f.mu.Unlock()
}

// String counts the devices.
func (f *Fabric) String() string {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return fmt.Sprintf("mem fabric of %d devices", len(f.devices))
}

package mem

import (
	"fmt"
	"unsafe"

	"fjord/verbs"
)

type mr struct {
	span
	pd     *pd
	mem    *verbs.Memory
	access verbs.Access
	gone   bool // deregistered; under dev.mu
}

// mrTable finds a region by its key: the low bits of the random key are chosen
// to be the region's slot. A table is never changed, only replaced.
type mrTable struct {
	slots []*mr // a power of two
	n     int
}

func (t *mrTable) get(key uint32) *mr {
	m := t.slots[int(key)&(len(t.slots)-1)]
	if m == nil || m.key != key {
		return nil
	}
	return m
}

// with returns a table that holds m as well, under a key drawn for it, twice as
// large once half full: then keys keep enough random bits and are found fast.
func (t *mrTable) with(m *mr, secret func() uint64) *mrTable {
	n := &mrTable{slots: make([]*mr, len(t.slots)), n: t.n + 1}
	for 2*n.n > len(n.slots) {
		n.slots = make([]*mr, 2*len(n.slots))
	}
	mask := len(n.slots) - 1
	for _, o := range t.slots {
		if o != nil {
			n.slots[int(o.key)&mask] = o // distinct below, so distinct with one bit more
		}
	}
	for {
		k := uint32(secret())
		if k != 0 && n.slots[int(k)&mask] == nil {
			m.key = k
			n.slots[int(k)&mask] = m
			return n
		}
	}
}

func (t *mrTable) without(m *mr) *mrTable {
	n := &mrTable{slots: make([]*mr, len(t.slots)), n: t.n - 1}
	copy(n.slots, t.slots)
	n.slots[int(m.key)&(len(n.slots)-1)] = nil
	return n
}

// RegisterMR makes memory usable through verbs.
func (p *pd) RegisterMR(m *verbs.Memory, access verbs.Access) (verbs.MR, error) {
	if err := verbs.CheckRegister(m, access); err != nil {
		return nil, err
	}
	d := p.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := p.usable(); err != nil {
		return nil, err
	}
	t := d.mrs.Load()
	if t.n == maxMR {
		return nil, fmt.Errorf("%w: %d memory regions", verbs.ErrLimit, maxMR)
	}
	b := m.Bytes()
	base := unsafe.Pointer(unsafe.SliceData(b))
	r := &mr{pd: p, mem: m, span: span{base: base, va: uint64(uintptr(base)), size: uint64(len(b))}, access: access}
	d.mrs.Store(t.with(r, d.rt.Secret))
	p.users++
	return r, nil
}

func (m *mr) Addr() uint64   { return m.va }
func (m *mr) Length() uint64 { return m.size }
func (m *mr) LKey() uint32   { return m.key }
func (m *mr) RKey() uint32   { return m.key }
func (m *mr) Bytes() []byte  { return m.mem.Bytes() }

// Close deregisters the region, then waits for whoever looked it up before.
func (m *mr) Close() error {
	d := m.pd.dev
	d.mu.Lock()
	if m.gone {
		d.mu.Unlock()
		return nil
	}
	m.gone = true
	if t := d.mrs.Load(); t.get(m.key) == m {
		d.mrs.Store(t.without(m))
	}
	m.pd.users--
	qps := make([]*qp, 0, len(d.qps))
	for _, q := range d.qps {
		if q.pd == m.pd {
			qps = append(qps, q)
		}
	}
	d.mu.Unlock()
	for _, q := range qps { // taking a QP's mu waits for the one that is posting
		q.mu.Lock()
		q.forget(m)
		q.mu.Unlock()
		if r := q.requester(); r != nil && r != q {
			r.mu.Lock()
			r.forget(m)
			r.mu.Unlock()
		}
	}
	return nil
}

// at returns the memory of [addr, addr+n) if that lies within the region.
func (m *span) at(addr uint64, n uint64) (unsafe.Pointer, bool) {
	off := addr - m.va // wraps far above size when addr is below
	if off > m.size || n > m.size-off {
		return nil, false
	}
	return unsafe.Add(m.base, off), true
}

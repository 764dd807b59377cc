package sim

import (
	"fmt"
	"unsafe"

	"fjord/verbs"
)

type mr struct {
	pd     *pd
	mem    *verbs.Memory
	bytes  []byte // nil once it is gone
	va     uint64
	size   uint64
	key    uint32
	access verbs.Access
	first  uint64 // number of its first page at the NIC
}

// mrTable finds a region by its key: the low bits of the random key are chosen
// to be the region's slot.
type mrTable struct {
	slots []*mr // a power of two, at most half full
	n     int
}

func (t *mrTable) get(key uint32) *mr {
	m := t.slots[int(key)&(len(t.slots)-1)]
	if m == nil || m.key != key {
		return nil
	}
	return m
}

// add draws a key for m whose slot is free.
func (t *mrTable) add(m *mr, secret func() uint64) {
	t.n++
	for 2*t.n > len(t.slots) {
		old := t.slots
		t.slots = make([]*mr, 2*len(old))
		for _, o := range old {
			if o != nil {
				t.slots[int(o.key)&(len(t.slots)-1)] = o // distinct below, so distinct with one bit more
			}
		}
	}
	for {
		k := uint32(secret())
		if slot := &t.slots[int(k)&(len(t.slots)-1)]; k != 0 && *slot == nil {
			m.key, *slot = k, m
			return
		}
	}
}

func (t *mrTable) remove(m *mr) {
	if t.get(m.key) == m {
		t.slots[int(m.key)&(len(t.slots)-1)] = nil
		t.n--
	}
}

// RegisterMR makes memory usable through verbs.
func (p *pd) RegisterMR(m *verbs.Memory, access verbs.Access) (verbs.MR, error) {
	if err := verbs.CheckRegister(m, access); err != nil {
		return nil, err
	}
	if err := p.usable(); err != nil {
		return nil, err
	}
	d := p.dev
	if d.mrs.n == maxMR {
		return nil, fmt.Errorf("%w: %d memory regions", verbs.ErrLimit, maxMR)
	}
	b, n := m.Bytes(), d.host.nic
	r := &mr{pd: p, mem: m, bytes: b, va: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))), size: uint64(len(b)), access: access, first: n.pages}
	n.pages += uint64(len(b))/n.model.PageBytes + 1
	d.mrs.add(r, d.w.Secret)
	p.users++
	return r, nil
}

func (m *mr) Addr() uint64   { return m.va }
func (m *mr) Length() uint64 { return m.size }
func (m *mr) LKey() uint32   { return m.key }
func (m *mr) RKey() uint32   { return m.key }
func (m *mr) Bytes() []byte  { return m.mem.Bytes() }

// Close deregisters the region. Payloads of it that are to be sent are taken out
// before, since the memory may be freed after it.
func (m *mr) Close() error {
	if m.bytes == nil {
		return nil
	}
	d := m.pd.dev
	for _, q := range d.list {
		if q.pd == m.pd {
			q.take()
		}
	}
	d.mrs.remove(m)
	m.pd.users--
	m.bytes = nil
	return nil
}

// at returns the offset of addr if [addr, addr+n) lies within the region.
func (m *mr) at(addr, n uint64) (uint64, bool) {
	off := addr - m.va // wraps far above the size when addr is below
	size := uint64(len(m.bytes))
	return off, off <= size && n <= size-off
}

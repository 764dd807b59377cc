package coord

import "unsafe"

// Buf is a piece of a session's registered memory, valid until Session.Reset.
type Buf struct {
	B    []byte
	Addr uint64
}

// Slice returns a part of the buffer.
func (b Buf) Slice(from, to int) Buf { return Buf{b.B[from:to:to], b.Addr + uint64(from)} }

// Nil tells that there is no buffer.
func (b Buf) Nil() bool { return b.Addr == 0 }

// addr returns the registered address of a slice of the local memory.
func (c *chunks) addr(b []byte) uint64 {
	return c.base + uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))-uintptr(unsafe.Pointer(unsafe.SliceData(c.mem))))
}

// arena hands out buffers one after another and takes them all back at once.
type arena struct {
	local *chunks
	own   []byte // the first chunk, kept
	cur   []byte
	addr  uint64
	off   int
	more  [][]byte
}

func (a *arena) init(local *chunks) bool {
	a.local, a.own = local, local.take(chunkSize)
	if a.own == nil {
		return false
	}
	a.reset()
	return true
}

// alloc returns n bytes, aligned to 8; their contents are arbitrary. ok is false
// if the coordinator's local memory is used up.
func (a *arena) alloc(n int) (b Buf, ok bool) {
	n = (n + 7) &^ 7
	if n > len(a.cur)-a.off && !a.grow(n) {
		return Buf{}, false
	}
	b = Buf{a.cur[a.off : a.off+n : a.off+n], a.addr + uint64(a.off)}
	a.off += n
	return b, true
}

func (a *arena) grow(n int) bool {
	c := a.local.take(n)
	if c == nil {
		return false
	}
	a.more = append(a.more, c)
	a.cur, a.addr, a.off = c, a.local.addr(c), 0
	return true
}

func (a *arena) reset() {
	if len(a.more) > 0 {
		for _, c := range a.more {
			a.local.give(c)
		}
		a.more = a.more[:0]
	}
	a.cur, a.off = a.own, 0
	a.addr = a.local.addr(a.own)
}

// free gives everything back.
func (a *arena) free() {
	if a.own != nil {
		a.reset()
		a.local.give(a.own)
		a.own = nil
	}
}

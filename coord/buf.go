package coord

import (
	"encoding/binary"
	"unsafe"
)

// Buf is a piece of a session's registered memory, valid until Session.Reset. It
// is two words, since transactions carry many of them.
type Buf struct {
	p unsafe.Pointer
	n int
}

// maxBuf bounds a Buf, so that the length alone has to be looked at.
const maxBuf = 1 << 30

// B returns the memory.
func (b Buf) B() []byte { return (*[maxBuf]byte)(b.p)[:b.n:b.n] }

// Word returns the 8 bytes at an offset, a multiple of 8, as a number.
func (b Buf) Word(off int) uint64 {
	if uint(off|7) >= uint(b.n) {
		panic(outsideBuf)
	}
	return binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(b.p, off))[:])
}

// SetWord writes the 8 bytes at an offset, a multiple of 8.
func (b Buf) SetWord(off int, v uint64) {
	if uint(off|7) >= uint(b.n) {
		panic(outsideBuf)
	}
	binary.LittleEndian.PutUint64((*[8]byte)(unsafe.Add(b.p, off))[:], v)
}

// Addr returns the registered address: that of the memory itself (verbs.MR).
func (b Buf) Addr() uint64 { return uint64(uintptr(b.p)) }

// Len returns the length in bytes.
func (b Buf) Len() int { return b.n }

// Nil tells that there is no buffer.
func (b Buf) Nil() bool { return b.p == nil }

// Slice returns a part of the buffer.
func (b Buf) Slice(from, to int) Buf {
	if uint(from) > uint(to) || uint(to) > uint(b.n) {
		panic(outsideBuf)
	}
	return Buf{unsafe.Add(b.p, from), to - from}
}

const outsideBuf = "coord: part of a buffer lies outside of it"

// arena hands out buffers one after another and takes them all back at once.
type arena struct {
	chunk unsafe.Pointer // the one in use
	used  int            // bytes of it handed out
	size  int            // bytes of it that may be
	own   []byte         // the first chunk, kept
	more  [][]byte
	local *chunks
}

func (a *arena) init(local *chunks) bool {
	a.local, a.own = local, local.take(chunkSize)
	if a.own == nil {
		return false
	}
	a.use(a.own, 0)
	return true
}

func (a *arena) use(chunk []byte, used int) {
	a.chunk, a.used, a.size = unsafe.Pointer(unsafe.SliceData(chunk)), used, len(chunk)-slack
}

// slack is left at the end of a chunk, so that even a buffer of no bytes lies in it.
const slack = 8

// alloc returns n bytes, aligned to 8; their contents are arbitrary. ok is false
// if the coordinator's local memory is used up.
func (a *arena) alloc(n int) (b Buf, ok bool) {
	if b = a.next(n); b.Nil() {
		return a.grow(n)
	}
	return b, true
}

// next is alloc from what is left of the chunk in use, nil if that is not enough.
func (a *arena) next(n int) Buf {
	at := a.used
	end := at + (n+7)&^7
	if end > a.size {
		return Buf{}
	}
	a.used = end
	return Buf{unsafe.Add(a.chunk, at), n}
}

// grow is alloc from another chunk.
func (a *arena) grow(n int) (b Buf, ok bool) {
	if n > maxBuf {
		return Buf{}, false
	}
	c := a.local.take(n + slack)
	if c == nil {
		return Buf{}, false
	}
	a.more = append(a.more, c)
	a.use(c, (n+7)&^7)
	return Buf{a.chunk, n}, true
}

// reset takes everything back but the first keep bytes.
func (a *arena) reset(keep int) {
	if len(a.more) > 0 {
		for _, c := range a.more {
			a.local.give(c)
		}
		a.more = a.more[:0]
		a.use(a.own, keep)
	}
	a.used = keep
}

// free gives everything back.
func (a *arena) free() {
	if a.own != nil {
		a.reset(0)
		a.local.give(a.own)
		a.own = nil
	}
}

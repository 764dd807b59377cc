package coord

import (
	"sync/atomic"
	"unsafe"

	"fjord/layout"
)

// AddrCache remembers, by the hash of table and key, at which address a record
// was found. It is a bound number of one-word entries in sets of one line, so a
// lookup touches one line and nothing is locked. It may forget, and with a
// chance of 8 in 2^20 it takes another key for the one sought: who uses an
// address looks at the key in the cell.
type AddrCache struct {
	sets  []cacheSet
	shift uint
}

type cacheSet [8]atomic.Uint64

// An entry is tag (20 bits) | shard (12) | offset in cells (32).
const (
	cacheOffBits   = 32
	cacheShardBits = 12
	cacheTagShift  = cacheOffBits + cacheShardBits
)

// NewAddrCache returns a cache of at least n entries.
func NewAddrCache(n int) *AddrCache {
	bits := uint(0)
	for 8<<bits < n {
		bits++
	}
	sets := make([]cacheSet, 1<<bits+1)
	skip := 0
	for uintptr(unsafe.Pointer(&sets[0][skip]))&63 != 0 {
		skip++
	}
	// A set is a line only if the array begins on one.
	aligned := unsafe.Slice((*cacheSet)(unsafe.Pointer(&sets[0][skip])), 1<<bits)
	return &AddrCache{sets: aligned, shift: 64 - bits}
}

// place returns the set of a hash and the tag, in place, that its entry has. The
// set is chosen by the upper bits and the tag by lower ones.
func (c *AddrCache) place(hash uint64) (*cacheSet, uint64) {
	tag := hash<<cacheTagShift | 1<<cacheTagShift // never 0
	return &c.sets[hash>>c.shift&uint64(len(c.sets)-1)], tag
}

// Get returns the address remembered for a hash, 0 if there is none.
func (c *AddrCache) Get(hash uint64) layout.Addr {
	set, tag := c.place(hash)
	for i := range set {
		if e := set[i].Load(); e&^(1<<cacheTagShift-1) == tag {
			return unpackAddr(e)
		}
	}
	return 0
}

// Put remembers an address. One that cannot be packed is not remembered.
func (c *AddrCache) Put(hash uint64, a layout.Addr) {
	off := a.Offset() / layout.CellAlign
	if off>>cacheOffBits != 0 || a.Shard()>>cacheShardBits != 0 || a.Offset()%layout.CellAlign != 0 {
		return
	}
	set, tag := c.place(hash)
	e := tag | uint64(a.Shard())<<cacheOffBits | off
	free := -1
	for i := range set {
		old := set[i].Load()
		if old == e {
			return
		}
		if old&^(1<<cacheTagShift-1) == tag {
			set[i].Store(e)
			return
		}
		if old == 0 && free < 0 {
			free = i
		}
	}
	if free < 0 {
		free = int(hash>>20) & 7 // any will do; the hash is as good as a die
	}
	set[free].Store(e)
}

// Forget drops what is remembered for a hash.
func (c *AddrCache) Forget(hash uint64) {
	set, tag := c.place(hash)
	for i := range set {
		if e := set[i].Load(); e&^(1<<cacheTagShift-1) == tag {
			set[i].CompareAndSwap(e, 0)
		}
	}
}

func unpackAddr(e uint64) layout.Addr {
	return layout.MakeAddr(uint16(e>>cacheOffBits&(1<<cacheShardBits-1)), e&(1<<cacheOffBits-1)*layout.CellAlign)
}

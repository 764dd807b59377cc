package coord

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"fjord/internal/words"
	"fjord/layout"
	"fjord/verbs"
)

// AddrCache remembers, by the hash of table and key, at which address a record
// was found. It is a bound number of one-word entries in sets of one line, so a
// lookup touches one line and nothing is locked. It may forget, and with a
// chance of 8 in 2^19 it takes another key for the one sought: who uses an
// address looks at the key in the cell.
//
// It begins small, since a table that is sparse in the processor's caches is
// slow, and grows while it has to forget much. Growing forgets everything: each
// key costs a look into its bucket once more.
type AddrCache struct {
	table atomic.Pointer[cacheTable]
	most  int // entries

	mu     sync.Mutex // guards growing
	closed bool
	memory []*verbs.Memory // of all tables: lookups may still be in an old one
}

type cacheTable struct {
	sets   []cacheSet
	shift  uint
	forgot atomic.Int64 // entries that gave way to others
}

type cacheSet [8]atomic.Uint64

// An entry is tag (20 bits) | shard (12) | offset in cells (32).
const (
	cacheOffBits   = 32
	cacheShardBits = 12
	cacheTagShift  = cacheOffBits + cacheShardBits
	cacheFirst     = 1 << 15 // entries to begin with
)

// NewAddrCache returns a cache that grows to n entries at most, rounded up to a
// power of two.
func NewAddrCache(n int) *AddrCache {
	c := &AddrCache{most: n}
	c.table.Store(c.newTable(min(n, cacheFirst)))
	return c
}

func (c *AddrCache) newTable(n int) *cacheTable {
	bits := uint(0)
	for 8<<bits < n {
		bits++
	}
	t := &cacheTable{shift: 64 - bits}
	m, err := verbs.MapMemory(64<<bits, verbs.HugeTransparent)
	if err != nil {
		t.sets = make([]cacheSet, 1<<bits) // no line-aligned memory: slower, and as good
		return t
	}
	c.memory = append(c.memory, m)
	t.sets = unsafe.Slice((*cacheSet)(unsafe.Pointer(unsafe.SliceData(m.Bytes()))), 1<<bits)
	return t
}

// Close frees the memory. Nobody may use the cache any more.
func (c *AddrCache) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, m := range c.memory {
		_ = m.Free() // nothing can be done about it, nor depends on it
	}
	c.memory = nil
}

// place returns the set of a hash and the tag, in place, that its entry has. The
// set is chosen by the upper bits and the tag by lower ones.
func (t *cacheTable) place(hash uint64) (*cacheSet, uint64) {
	tag := hash<<cacheTagShift | 1<<cacheTagShift // never 0
	return &t.sets[hash>>t.shift&uint64(len(t.sets)-1)], tag
}

// Get returns the address remembered for a hash, 0 if there is none.
func (c *AddrCache) Get(hash uint64) layout.Addr {
	set, tag := c.table.Load().place(hash)
	for i := range set {
		if e := set[i].Load(); e&^(1<<cacheTagShift-1) == tag {
			return unpackAddr(e)
		}
	}
	return 0
}

// Prefetch brings the line that Get will look at towards the processor.
func (c *AddrCache) Prefetch(hash uint64) {
	set, _ := c.table.Load().place(hash)
	words.Prefetch(unsafe.Pointer(set))
}

// Put remembers an address. One that cannot be packed is not remembered.
func (c *AddrCache) Put(hash uint64, a layout.Addr) {
	off := a.Offset() / layout.CellAlign
	if off>>cacheOffBits != 0 || a.Shard()>>cacheShardBits != 0 || a.Offset()%layout.CellAlign != 0 {
		return
	}
	t := c.table.Load()
	set, tag := t.place(hash)
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
	if free >= 0 {
		set[free].Store(e)
		return
	}
	set[hash>>20&7].Store(e) // any will do; the hash is as good as a die
	if t.forgot.Add(1) > int64(len(t.sets)) {
		c.grow(t)
	}
}

// grow replaces a table that had to forget an eighth of what it holds.
func (c *AddrCache) grow(t *cacheTable) {
	if 8*len(t.sets) >= c.most || !c.mu.TryLock() {
		return
	}
	defer c.mu.Unlock()
	if c.table.Load() == t && !c.closed {
		c.table.Store(c.newTable(16 * len(t.sets)))
	}
}

// Forget drops what is remembered for a hash.
func (c *AddrCache) Forget(hash uint64) {
	set, tag := c.table.Load().place(hash)
	for i := range set {
		if e := set[i].Load(); e&^(1<<cacheTagShift-1) == tag {
			set[i].CompareAndSwap(e, 0)
		}
	}
}

func unpackAddr(e uint64) layout.Addr {
	return layout.MakeAddr(uint16(e>>cacheOffBits&(1<<cacheShardBits-1)), e&(1<<cacheOffBits-1)*layout.CellAlign)
}

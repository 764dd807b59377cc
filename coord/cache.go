package coord

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"fjord/internal/words"
	"fjord/verbs"
)

// Place says where in its table a record is: the table makes it of an address, and
// an address of it. It has 44 bits, and is never 0.
type Place uint64

// AddrCache remembers, by the hash of table and key, at which place a record
// was found. It is a bound number of one-word entries in sets of one line, so a
// lookup touches one line and nothing is locked. It may forget, and with a
// chance of 8 in 2^19 it takes another key for the one sought, perhaps of another
// table: who uses a place looks at whether there is one, and at the key in the cell.
//
// It begins small, since a table that is sparse in the processor's caches is
// slow, and grows while it has to forget much. Growing forgets everything: each
// key costs a look into its bucket once more.
type AddrCache struct {
	table atomic.Pointer[cacheTable]
	most  int          // entries, those of indexes included
	given atomic.Int64 // to indexes

	mu     sync.Mutex // guards growing
	closed bool
	memory []*verbs.Memory // of all tables: lookups may still be in an old one
}

type cacheTable struct {
	sets  []cacheSet // a power of two
	base  unsafe.Pointer
	shift uint8  // of a hash, to the place of its set in bytes
	mask  uint64 // of places

	_      [64]byte     // those above are read all the time
	forgot atomic.Int64 // entries that gave way to others
}

const (
	lineBits = 6
	lineSize = 1 << lineBits // bytes of a processor's cache line
)

type cacheSet [lineSize / 8]atomic.Uint64

// An entry is tag (20 bits) | place (44).
const (
	cacheTagShift = 44
	cacheFirst    = 1 << 15 // entries to begin with
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
	t := &cacheTable{}
	if m, err := verbs.MapMemory(lineSize<<bits, verbs.HugeTransparent); err == nil {
		c.memory = append(c.memory, m)
		t.sets = unsafe.Slice((*cacheSet)(unsafe.Pointer(unsafe.SliceData(m.Bytes()))), 1<<bits)
	} else {
		t.sets = make([]cacheSet, 1<<bits) // no line-aligned memory: slower, and as good
	}
	t.base = unsafe.Pointer(unsafe.SliceData(t.sets))
	t.shift, t.mask = uint8(64-lineBits-bits), (1<<bits-1)*lineSize
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

// set returns the set of a hash, which is chosen by its upper bits.
func (t *cacheTable) set(hash uint64) *cacheSet {
	return (*cacheSet)(unsafe.Add(t.base, hash>>(t.shift&63)&t.mask))
}

// tagOf returns the tag of a hash, in its place in an entry: lower bits of the
// hash, and never 0.
func tagOf(hash uint64) uint64 { return hash<<cacheTagShift | 1<<cacheTagShift }

// tagged tells whether an entry has a tag.
func tagged(e, tag uint64) bool { return (e^tag)>>cacheTagShift == 0 }

// Get returns the place remembered for a hash, 0 if there is none.
func (c *AddrCache) Get(hash uint64) Place {
	set, tag := c.table.Load().set(hash), tagOf(hash)
	for i := range set {
		if e := set[i].Load(); tagged(e, tag) {
			return Place(e & (1<<cacheTagShift - 1))
		}
	}
	return 0
}

// Prefetch brings the line that Get will look at towards the processor.
func (c *AddrCache) Prefetch(hash uint64) {
	words.Prefetch(unsafe.Pointer(c.table.Load().set(hash)))
}

// Put remembers a place. One that does not fit is not remembered.
func (c *AddrCache) Put(hash uint64, p Place) {
	if p>>cacheTagShift != 0 {
		return
	}
	t := c.table.Load()
	set, tag := t.set(hash), tagOf(hash)
	e := tag | uint64(p)
	free := -1
	for i := range set {
		old := set[i].Load()
		if old == e {
			return
		}
		if tagged(old, tag) {
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
	if 8*len(t.sets) >= c.most-int(c.given.Load()) || !c.mu.TryLock() {
		return
	}
	defer c.mu.Unlock()
	if c.table.Load() == t && !c.closed {
		c.table.Store(c.newTable(16 * len(t.sets)))
	}
}

// reserve takes entries for an index, or gives back as many as -n. Indexes do not get
// more than three of every four.
func (c *AddrCache) reserve(n int64) bool {
	if c.given.Add(n) <= int64(c.most)/4*3 || n < 0 {
		return true
	}
	c.given.Add(-n)
	return false
}

// Forget drops what is remembered for a hash.
func (c *AddrCache) Forget(hash uint64) {
	set, tag := c.table.Load().set(hash), tagOf(hash)
	for i := range set {
		if e := set[i].Load(); tagged(e, tag) {
			set[i].CompareAndSwap(e, 0)
		}
	}
}

package coord

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"fjord/internal/words"
	"fjord/verbs"
)

// SlotIndex remembers, for the buckets of one table, in which slot a key was found,
// by 16 bits of its hash: a few bytes for each bucket, and so dense that it stays in
// the processor's caches where an AddrCache of as many records does not. Nothing is
// locked. It may forget, and it takes another key of the same bucket for the one
// sought with a chance of 1 in 2^16 for each: who uses a slot looks at the key in it.
type SlotIndex struct {
	base   unsafe.Pointer
	wide   uint64 // 1: two words for a bucket, 0: one
	memory *verbs.Memory
	cache  *AddrCache // whose entries these are
	size   int64      // how many of them
}

// lanes is how many slots a word has room for.
const lanes = 4

const (
	laneLow  = 0x0001_0001_0001_0001
	laneHigh = 0x8000_8000_8000_8000
)

// NewSlotIndex returns an index for so many buckets of so many slots, 8 at most. It
// takes its share of the entries that the cache may have; nil if that is too much.
func (c *AddrCache) NewSlotIndex(buckets uint64, slots int) *SlotIndex {
	x := &SlotIndex{cache: c}
	if slots > lanes {
		x.wide = 1
	}
	if buckets > 1<<32 || slots > 2*lanes || !c.reserve(int64(buckets)*int64(slots)) {
		return nil
	}
	x.size = int64(buckets) * int64(slots)
	var err error
	if x.memory, err = verbs.MapMemory(buckets*8<<x.wide, verbs.HugeTransparent); err != nil {
		x.Close()
		return nil
	}
	c.mu.Lock()
	c.memory = append(c.memory, x.memory) // freed with the cache, if not before
	c.mu.Unlock()
	x.base = unsafe.Pointer(unsafe.SliceData(x.memory.Bytes()))
	return x
}

// Close frees the index. Nobody may use it any more.
func (x *SlotIndex) Close() {
	c := x.cache
	c.reserve(-x.size)
	if x.memory != nil {
		c.mu.Lock()
		_ = x.memory.Free() // nothing can be done about it, nor depends on it
		c.mu.Unlock()
	}
}

// word returns the place of a bucket's first word.
func (x *SlotIndex) word(bucket uint64) unsafe.Pointer {
	return unsafe.Add(x.base, bucket<<(3+x.wide))
}

// laneOf returns what stands for a hash: its low bits, and never 0.
func laneOf(hash uint64) uint64 { return max(hash&0xffff, 1) }

// found returns 16 times the number of the first lane of w that holds what is
// repeated in all lanes of same, 64 if none does.
func found(w, same uint64) int {
	w ^= same
	return bits.TrailingZeros64((w-laneLow)&^w&laneHigh) &^ 15
}

// Find returns the slot in which a hash was found in a bucket, below 0 if none is
// remembered.
func (x *SlotIndex) Find(bucket, hash uint64) int {
	p, same := x.word(bucket), laneOf(hash)*laneLow
	if at := found(atomic.LoadUint64((*uint64)(p)), same); at < 64 {
		return at >> 4
	}
	if x.wide != 0 {
		if at := found(atomic.LoadUint64((*uint64)(unsafe.Add(p, 8))), same); at < 64 {
			return at>>4 + lanes
		}
	}
	return -1
}

// Prefetch brings what Find will look at towards the processor.
func (x *SlotIndex) Prefetch(bucket uint64) { words.Prefetch(x.word(bucket)) }

// Put remembers that a hash was found in a slot of a bucket, and in no other.
func (x *SlotIndex) Put(bucket, hash uint64, slot int) {
	lane := laneOf(hash)
	x.change(bucket, func(at int, old uint64) uint64 {
		switch {
		case at == slot:
			return lane
		case old == lane:
			return 0
		}
		return old
	})
}

// Forget drops what is remembered for a hash in a bucket.
func (x *SlotIndex) Forget(bucket, hash uint64) {
	lane := laneOf(hash)
	x.change(bucket, func(_ int, old uint64) uint64 {
		if old == lane {
			return 0
		}
		return old
	})
}

// change puts every lane of a bucket through f.
func (x *SlotIndex) change(bucket uint64, f func(slot int, old uint64) uint64) {
	for i := range 1 + int(x.wide) {
		p := (*uint64)(unsafe.Add(x.word(bucket), 8*i))
		for {
			old, w := atomic.LoadUint64(p), uint64(0)
			for j := range lanes {
				w |= f(lanes*i+j, old>>(16*j)&0xffff) << (16 * j)
			}
			if w == old || atomic.CompareAndSwapUint64(p, old, w) {
				break
			}
		}
	}
}

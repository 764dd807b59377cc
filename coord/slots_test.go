package coord

import (
	"math/rand/v2"
	"sync"
	"testing"
)

// An index gives the slot that was put last for a hash, until that is forgotten, and
// nothing in buckets where nothing was put.
func TestSlotIndexRemembers(t *testing.T) {
	for slots := 1; slots <= 8; slots++ {
		const buckets = 50
		c := NewAddrCache(1 << 20)
		x := c.NewSlotIndex(buckets, slots)
		if x == nil {
			t.Fatalf("no index for %d slots", slots)
		}
		rng := rand.New(rand.NewPCG(1, uint64(slots)))
		want := make([][8]uint64, buckets) // the hash in every slot
		for range 20_000 {
			b, i := rng.Uint64N(buckets), rng.IntN(slots)
			switch h := rng.Uint64(); rng.IntN(4) {
			case 0: // a key that is somewhere moves
				if h = want[b][i]; h == 0 {
					continue
				}
				want[b][i] = 0
				x.Forget(b, h)
				if s, ok := x.Get(b, h); ok && laneOf(want[b][s]) != laneOf(h) {
					t.Fatalf("bucket %d: %#x was forgotten and found in slot %d", b, h, s)
				}
				i = rng.IntN(slots)
				fallthrough
			default:
				for j := range want[b] { // a twin of 16 bits gives way
					if want[b][j] != 0 && laneOf(want[b][j]) == laneOf(h) {
						want[b][j] = 0
					}
				}
				x.Put(b, h, i)
				want[b][i] = h
			}
			for j, h := range want[b] {
				if s, ok := x.Get(b, h); h != 0 && (!ok || s != j) {
					t.Fatalf("bucket %d of %d slots: %#x is in slot %d, the index says %d, %v", b, slots, h, j, s, ok)
				}
			}
		}
		for b := range want {
			h := rng.Uint64()
			if s, ok := x.Get(uint64(b), h); ok && laneOf(want[b][s]) != laneOf(h) {
				t.Errorf("bucket %d: %#x, which nobody put, is said to be in slot %d", b, h, s)
			}
		}
		x.Close()
		c.Close()
	}
}

// A hash that ends in zeros is no empty slot.
func TestSlotIndexOfZero(t *testing.T) {
	c := NewAddrCache(64)
	defer c.Close()
	x := c.NewSlotIndex(1, 8)
	if _, ok := x.Get(0, 1<<16); ok {
		t.Error("a hash is found in an empty bucket")
	}
	x.Put(0, 1<<16, 5)
	if s, ok := x.Get(0, 1<<16); !ok || s != 5 {
		t.Errorf("slot %d, %v; want 5", s, ok)
	}
}

// Indexes take their entries from those of the cache, leave it some, and give them
// back.
func TestSlotIndexesAreBounded(t *testing.T) {
	c := NewAddrCache(1000)
	defer c.Close()
	a := c.NewSlotIndex(80, 8)
	if a == nil || c.NewSlotIndex(20, 8) != nil {
		t.Error("of 1,000 entries 640 were refused, or 160 more were given")
	}
	if c.NewSlotIndex(1, 9) != nil {
		t.Error("an index for 9 slots")
	}
	b := c.NewSlotIndex(13, 8)
	a.Close()
	if d := c.NewSlotIndex(80, 8); b == nil || d == nil {
		t.Error("entries that were given back are not to be had")
	}
	if n := c.given.Load(); n != 93*8 {
		t.Errorf("%d entries are given, want %d", n, 93*8)
	}
}

// Many may put, get and forget at once; what is got was put in that bucket.
func TestSlotIndexConcurrently(t *testing.T) {
	c := NewAddrCache(1 << 20)
	defer c.Close()
	x := c.NewSlotIndex(4, 8)
	var wg sync.WaitGroup
	for g := range uint64(4) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(5, g))
			for range 20_000 {
				b, i := rng.Uint64N(4), rng.IntN(2)
				h := g<<12 | b<<4 | uint64(i) | 1<<11 // every worker has 2 slots of each bucket
				x.Put(b, h, int(2*g)+i)
				if s, ok := x.Get(b, h); !ok || s != int(2*g)+i {
					t.Errorf("bucket %d: %#x is in slot %d, the index says %d, %v", b, h, int(2*g)+i, s, ok)
					return
				}
				if rng.IntN(3) == 0 {
					x.Forget(b, h)
					if _, ok := x.Get(b, h); ok {
						t.Errorf("bucket %d: %#x was forgotten and is found", b, h)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

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
				if s := x.Find(b, h); s >= 0 && laneOf(want[b][s]) != laneOf(h) {
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
				if s := x.Find(b, h); h != 0 && s != j {
					t.Fatalf("bucket %d of %d slots: %#x is in slot %d, the index says %d", b, slots, h, j, s)
				}
			}
		}
		for b := range want {
			h := rng.Uint64()
			if s := x.Find(uint64(b), h); s >= 0 && laneOf(want[b][s]) != laneOf(h) {
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
	if s := x.Find(0, 1<<16); s >= 0 {
		t.Error("a hash is found in an empty bucket")
	}
	x.Put(0, 1<<16, 5)
	if s := x.Find(0, 1<<16); s != 5 {
		t.Errorf("slot %d, want 5", s)
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
				if s := x.Find(b, h); s != int(2*g)+i {
					t.Errorf("bucket %d: %#x is in slot %d, the index says %d", b, h, int(2*g)+i, s)
					return
				}
				if rng.IntN(3) == 0 {
					x.Forget(b, h)
					if s := x.Find(b, h); s >= 0 {
						t.Errorf("bucket %d: %#x was forgotten and is found", b, h)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

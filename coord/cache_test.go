package coord

import (
	"math/rand/v2"
	"sync"
	"testing"
)

// Whatever its size, the cache gives what was put last under a hash until it
// forgets, and never what nobody put. Small ones are one set.
func TestCacheRemembers(t *testing.T) {
	for _, n := range []int{1, 8, 9, 64, 1 << 12} {
		c := NewAddrCache(n)
		rng := rand.New(rand.NewPCG(1, uint64(n)))
		put := map[Place]bool{0: true}
		hit := 0
		var hashes []uint64
		for i := range 2 * n {
			h := rng.Uint64()
			a := Place(rng.Uint64N(1<<cacheTagShift-1) + 1)
			c.Put(h, 64)
			c.Put(h, a) // the record has moved
			put[a], hashes = true, append(hashes, h)
			if got := c.Get(h); got != a {
				t.Fatalf("of %d entries: after %d others %#x gives %v, put was %v", n, i, h, got, a)
			}
		}
		for i, h := range hashes {
			got := c.Get(h)
			if !put[got] {
				t.Errorf("of %d entries: %#x gives %v, which nobody put", n, h, got)
			}
			if got != 0 {
				hit++
			}
			c.Forget(h)
			if got := c.Get(h); got != 0 {
				t.Errorf("of %d entries: %#x gives %v after it was forgotten, %d", n, h, got, i)
			}
		}
		if hit < n*3/4 {
			t.Errorf("of %d entries: %d of the latest %d are remembered", n, hit, 2*n)
		}
		c.Close()
	}
}

// A cache that has to forget much grows, to its bound.
func TestCacheGrows(t *testing.T) {
	const most = 4 * cacheFirst
	c := NewAddrCache(most)
	defer c.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 4 * most {
		c.Put(rng.Uint64(), 64)
	}
	if n := 8 * len(c.table.Load().sets); n != most {
		t.Errorf("it has %d entries, bound is %d", n, most)
	}
}

// A place that does not fit into an entry is not remembered, and none other
// instead of it.
func TestCachePassesOverWhatDoesNotFit(t *testing.T) {
	c := NewAddrCache(8)
	defer c.Close()
	for _, a := range []Place{1 << cacheTagShift, 1<<cacheTagShift + 1, 1 << 63} {
		c.Put(5, a)
		if got := c.Get(5); got != 0 {
			t.Errorf("for %v it gives %v", a, got)
		}
	}
}

// Many may put, get and forget at once, also while it grows: what is got was put
// under a hash of that set, and nothing else.
func TestCacheConcurrently(t *testing.T) {
	c := NewAddrCache(4 * cacheFirst)
	defer c.Close()
	n := 60_000
	if raceEnabled {
		n = 8_000
	}
	address := func(h uint64) Place { return Place(h>>32&0xffff | 1<<43) }
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(3, uint64(g%2))) // two pairs use the same hashes
			for i := range n {
				h := rng.Uint64()
				a := address(h)
				c.Put(h, a)
				if got := c.Get(h); got != 0 && got != a {
					// Another hash of this set and tag: one in 2^16 for each entry.
					continue
				}
				if i%7 == 0 {
					c.Forget(h)
				}
				c.Prefetch(h)
			}
		})
	}
	wg.Wait()
	rng := rand.New(rand.NewPCG(3, 0))
	right, wrong := 0, 0
	for range n {
		h := rng.Uint64()
		switch c.Get(h) {
		case address(h):
			right++
		case 0:
		default:
			wrong++
		}
	}
	if wrong > n/1000 || right < n/100 {
		t.Errorf("of %d lookups %d were right and %d wrong", n, right, wrong)
	}
}

package sim

import (
	"math/bits"
	"math/rand/v2"
)

// rng draws the same numbers from the same seed on every machine: integers only.
type rng struct{ rand.PCG }

func newRNG(seed, stream uint64) *rng {
	r := new(rng)
	r.Seed(seed, stream)
	return r
}

// below returns a number in [0, n); 0 for n of 1 or less.
func (r *rng) below(n int64) int64 {
	if n <= 1 {
		return 0
	}
	hi, _ := bits.Mul64(r.Uint64(), uint64(n))
	return int64(hi)
}

// within returns a number in [lo, hi].
func (r *rng) within(lo, hi int64) int64 { return lo + r.below(hi-lo+1) }

// rate is a probability as a threshold of 53 bits: a product with a power of two
// is exact, so that it is the same everywhere.
func rate(p float64) uint64 { return uint64(p * (1 << 53)) }

// hit is true with the probability of a threshold.
func (r *rng) hit(threshold uint64) bool { return threshold != 0 && r.Uint64()>>11 < threshold }

package main

import "math/bits"

// rng is splitmix64 (Steele, Lea, Flood, OOPSLA 2014). Drawing a transaction's inputs is measured with
// it, and math/rand/v2's generators would take twice as long.
type rng struct{ state uint64 }

// below draws from [0, n). The bias of the one multiplication is below n/2^64.
func (r *rng) below(n uint64) uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	hi, _ := bits.Mul64(z^z>>31, n)
	return hi
}

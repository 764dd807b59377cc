package layout

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// XXH64 as specified at https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md (Yann Collet).
//
// It is written out here, since a cell's sum runs over four words that do not lie together in memory and
// then a body: a library would want them copied into one buffer, or a digest kept as state.

const (
	prime1 = 0x9E3779B185EBCA87
	prime2 = 0xC2B2AE3D27D4EB4F
	prime3 = 0x165667B19E3779F9
	prime4 = 0x85EBCA77C2B2AE63
	prime5 = 0x27D4EB2F165667C5

	word = 1<<64 - 1 // to cut a constant expression to 64 bits

	// The lanes at the start, for seed 0.
	lane1 uint64 = (prime1 + prime2) & word
	lane2 uint64 = prime2
	lane3 uint64 = 0
	lane4 uint64 = (1<<64 - prime1) & word

	stripe = 32
)

// Sum64 returns the XXH64 of b with seed 0.
func Sum64(b []byte) uint64 { return xxh64(0, b) }

// cellSum is the sum of a cell: XXH64, seed 0, of address, version without pending, writer, the word of the
// lengths and kind, and the body. The body is the padded key and the padded value, a multiple of 8 bytes.
func cellSum(addr Addr, v Version, writer, lens uint64, body []byte) uint64 {
	return framedSum(uint64(addr), uint64(v&^Pending), writer, lens, body)
}

// framedSum is XXH64, seed 0, of the four words followed by body, whose length must be a multiple of 8. The
// words are exactly the first stripe.
func framedSum(w1, w2, w3, w4 uint64, body []byte) uint64 {
	a, b, c, d := round(lane1, w1), round(lane2, w2), round(lane3, w3), round(lane4, w4)
	p, n, i := unsafe.Pointer(unsafe.SliceData(body)), len(body)&^7, 0 // bounds are seen to here, word by word they would cost as much as the sum
	for ; i <= n-stripe; i += stripe {
		a, b = round(a, wordAt(p, i)), round(b, wordAt(p, i+8))
		c, d = round(c, wordAt(p, i+16)), round(d, wordAt(p, i+24))
	}
	h := mergeLane(mix(a, b, c, d), a)
	h = mergeLane(h, b)
	h = mergeLane(h, c)
	h = mergeLane(h, d) + uint64(len(body)) + stripe
	for ; i < n; i += 8 {
		h = tail8(h, wordAt(p, i))
	}
	return avalanche(h)
}

func wordAt(p unsafe.Pointer, i int) uint64 {
	return binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(p, i))[:])
}

// lineSum is cellSum of a cell that fills a line, as it stands in memory.
func lineSum(line *[CellAlign]byte, addr Addr) uint64 {
	a, b := round(lane1, uint64(addr)), round(lane2, binary.LittleEndian.Uint64(line[OffVersion:])&^uint64(Pending))
	c, d := round(lane3, binary.LittleEndian.Uint64(line[OffWriter:])), round(lane4, binary.LittleEndian.Uint64(line[OffValueLen:]))
	h := mergeLane(mix(a, b, c, d), a)
	h = mergeLane(h, b)
	h = mergeLane(h, c)
	h = mergeLane(h, d) + stripe + (CellAlign - HeaderSize)
	h = tail8(h, binary.LittleEndian.Uint64(line[HeaderSize:]))
	h = tail8(h, binary.LittleEndian.Uint64(line[HeaderSize+8:]))
	h = tail8(h, binary.LittleEndian.Uint64(line[HeaderSize+16:]))
	return avalanche(h)
}

// xxh64 is XXH64 of b.
func xxh64(seed uint64, b []byte) uint64 {
	n := uint64(len(b))
	h := seed + prime5
	if len(b) >= stripe {
		v1, v2, v3, v4 := seed+lane1, seed+lane2, seed+lane3, seed+lane4
		for len(b) >= stripe {
			v1 = round(v1, binary.LittleEndian.Uint64(b[0:8:len(b)]))
			v2 = round(v2, binary.LittleEndian.Uint64(b[8:16:len(b)]))
			v3 = round(v3, binary.LittleEndian.Uint64(b[16:24:len(b)]))
			v4 = round(v4, binary.LittleEndian.Uint64(b[24:32:len(b)]))
			b = b[stripe:len(b):len(b)]
		}
		h = mergeLane(mix(v1, v2, v3, v4), v1)
		h = mergeLane(h, v2)
		h = mergeLane(h, v3)
		h = mergeLane(h, v4)
	}
	h += n
	for len(b) >= 8 {
		h = tail8(h, binary.LittleEndian.Uint64(b[0:8:len(b)]))
		b = b[8:len(b):len(b)]
	}
	if len(b) >= 4 {
		h ^= uint64(binary.LittleEndian.Uint32(b[0:4:len(b)])) * prime1
		h = bits.RotateLeft64(h, 23)*prime2 + prime3
		b = b[4:len(b):len(b)]
	}
	for _, x := range b {
		h ^= uint64(x) * prime5
		h = bits.RotateLeft64(h, 11) * prime1
	}
	return avalanche(h)
}

func round(acc, w uint64) uint64 {
	return bits.RotateLeft64(acc+w*prime2, 31) * prime1
}

// mix begins the merge of the lanes; mergeLane goes on with each. One function for all were not inlined.
func mix(v1, v2, v3, v4 uint64) uint64 {
	return bits.RotateLeft64(v1, 1) + bits.RotateLeft64(v2, 7) + bits.RotateLeft64(v3, 12) + bits.RotateLeft64(v4, 18)
}

func mergeLane(h, v uint64) uint64 { return (h^round(0, v))*prime1 + prime4 }

func tail8(h, w uint64) uint64 {
	return bits.RotateLeft64(h^round(0, w), 27)*prime1 + prime4
}

func avalanche(h uint64) uint64 {
	h ^= h >> 33
	h *= prime2
	h ^= h >> 29
	h *= prime3
	return h ^ h>>32
}

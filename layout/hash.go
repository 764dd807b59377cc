package layout

import "encoding/binary"

// HashKey returns the hash of a table's key. It chooses the key's shard and bucket, so it is part of the
// format: XXH64 of the key, seeded with the table's id times the first prime of XXH64, modulo 2^64. The seed
// keeps keys that collide in one table from colliding in all. All 64 bits are well mixed: shard and bucket
// may be taken from any of them.
func HashKey(table uint32, key []byte) uint64 {
	if len(key) == 8 { // most are one word
		return HashWord(table, binary.LittleEndian.Uint64(key))
	}
	return xxh64(uint64(table)*prime1, key)
}

// HashWord is HashKey of a key of 8 bytes, given as a little-endian number.
func HashWord(table uint32, key uint64) uint64 {
	return avalanche(tail8(uint64(table)*prime1+prime5+8, key))
}

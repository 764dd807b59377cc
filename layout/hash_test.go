package layout

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"testing"
)

func TestHashKeyIsSeededXXH64(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for n := range 80 {
		key := randomBytes(rng, n)
		for _, table := range []uint32{0, 1, 2, 1 << 31, 1<<32 - 1} {
			seed := uint64(table) * prime1
			if got, want := HashKey(table, key), seeded(seed, key); got != want {
				t.Fatalf("table %d, key of %d bytes: %#x, want %#x", table, n, got, want)
			}
		}
	}
}

// Sequential keys are the common case, and shard and bucket may be taken from any bits: every bit must be
// set for about half of them, and flip for about half of the neighbours.
func TestHashKeyMixesSequentialKeys(t *testing.T) {
	const n = 1 << 14
	var set, flipped [64]int
	var key [8]byte
	last := HashKey(1, key[:])
	for i := range uint64(n) {
		binary.LittleEndian.PutUint64(key[:], i+1)
		h := HashKey(1, key[:])
		for b := range 64 {
			set[b] += int(h >> b & 1)
			flipped[b] += int((h ^ last) >> b & 1)
		}
		last = h
	}
	for b := range 64 {
		if lo, hi := n*47/100, n*53/100; set[b] < lo || set[b] > hi || flipped[b] < lo || flipped[b] > hi {
			t.Errorf("bit %d is set in %d of %d, flips in %d", b, set[b], n, flipped[b])
		}
	}
}

func TestHashKeyDependsOnTheTable(t *testing.T) {
	key := []byte("accounts")
	for table := range uint32(1000) {
		if d := bits.OnesCount64(HashKey(table, key) ^ HashKey(table+1, key)); d < 10 {
			t.Errorf("tables %d and %d differ in %d bits", table, table+1, d)
		}
	}
}

func TestHashKeyAllocatesNothing(t *testing.T) {
	var sink uint64
	noAllocs(t, "HashKey", func() {
		var key [8]byte
		var long [40]byte
		sink += HashKey(1, key[:]) + HashKey(1, long[:])
	})
}

func BenchmarkHashKey8(b *testing.B) {
	var key [8]byte
	var x uint64
	for b.Loop() {
		binary.LittleEndian.PutUint64(key[:], x)
		x = HashKey(1, key[:])
	}
}

func BenchmarkHashKey24(b *testing.B) {
	var key [24]byte
	var x uint64
	for b.Loop() {
		binary.LittleEndian.PutUint64(key[:], x)
		x = HashKey(1, key[:])
	}
}

func noAllocs(t *testing.T, name string, f func()) {
	t.Helper()
	if n := testing.AllocsPerRun(100, f); n != 0 {
		t.Errorf("%s allocates %v times", name, n)
	}
}

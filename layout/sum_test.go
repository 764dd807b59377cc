package layout

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cespare/xxhash/v2"
)

func TestSum64IsXXH64(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	lengths := []int{511, 512, 513, 4095, 4096, 4097, 100_000}
	for n := range 301 {
		lengths = append(lengths, n)
	}
	for range 100 {
		lengths = append(lengths, rng.IntN(10_000))
	}
	for _, n := range lengths {
		b := randomBytes(rng, n)
		if got, want := Sum64(b), xxhash.Sum64(b); got != want {
			t.Fatalf("Sum64 of %d bytes is %#x, XXH64 is %#x", n, got, want)
		}
		seed := rng.Uint64()
		if got, want := xxh64(seed, b), seeded(seed, b); got != want {
			t.Fatalf("xxh64 of %d bytes with seed %#x is %#x, XXH64 is %#x", n, seed, got, want)
		}
	}
}

func TestCellSumIsXXH64OfTheConcatenation(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for n := 0; n < 1024; n += 8 {
		addr, v, writer, lens := Addr(rng.Uint64()), Version(rng.Uint64()), rng.Uint64(), rng.Uint64()
		body := randomBytes(rng, n)
		var b []byte
		b = binary.LittleEndian.AppendUint64(b, uint64(addr))
		b = binary.LittleEndian.AppendUint64(b, uint64(v.WithoutPending()))
		b = binary.LittleEndian.AppendUint64(b, writer)
		b = binary.LittleEndian.AppendUint64(b, lens)
		b = append(b, body...)
		want := xxhash.Sum64(b)
		for _, w := range []Version{v &^ Pending, v | Pending} {
			if got := cellSum(addr, w, writer, lens, body); got != want {
				t.Fatalf("cellSum of a body of %d bytes is %#x, XXH64 is %#x", n, got, want)
			}
			if n != 24 {
				continue
			}
			var line [CellAlign]byte
			binary.LittleEndian.PutUint64(line[OffVersion:], uint64(w))
			binary.LittleEndian.PutUint64(line[OffWriter:], writer)
			binary.LittleEndian.PutUint64(line[OffValueLen:], lens)
			copy(line[HeaderSize:], body)
			if got := lineSum(&line, addr); got != want {
				t.Fatalf("lineSum is %#x, XXH64 is %#x", got, want)
			}
		}
	}
}

func FuzzSum64(f *testing.F) {
	f.Add(uint64(0), []byte("fjord"))
	f.Add(uint64(1), make([]byte, 71))
	f.Fuzz(func(t *testing.T, seed uint64, b []byte) {
		if got, want := xxh64(seed, b), seeded(seed, b); got != want {
			t.Fatalf("got %#x, want %#x", got, want)
		}
		if got, want := Sum64(b), xxhash.Sum64(b); got != want {
			t.Fatalf("got %#x, want %#x", got, want)
		}
	})
}

func BenchmarkSum64(b *testing.B) {
	for _, n := range []int{8, 32, 64, 256, 4096} {
		buf := make([]byte, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				Sum64(buf)
			}
		})
	}
}

func seeded(seed uint64, b []byte) uint64 {
	d := xxhash.NewWithSeed(seed)
	d.Write(b)
	return d.Sum64()
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

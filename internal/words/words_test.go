package words_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"fjord/internal/words"
)

// aligned returns n bytes that begin at a multiple of 64.
func aligned(n int) []byte {
	b := make([]byte, n+64)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & 63)
	return b[skip : skip+n : skip+n]
}

func ptr(b []byte, off int) unsafe.Pointer { return unsafe.Pointer(&b[off]) }

// TestCopies holds Load and Store, for every alignment of both sides and many
// lengths, against copy: the bytes of the range arrive, and no others change.
func TestCopies(t *testing.T) {
	lengths := []int{63, 64, 65, 127, 128, 129, 255, 256, 257, 4095, 4096, 4097}
	for n := range 42 {
		lengths = append(lengths, n)
	}
	const base, size = 64, 4400
	from, to, want := aligned(size), aligned(size), make([]byte, size)
	rng := rand.New(rand.NewPCG(1, 2))
	for name, f := range map[string]func(dst, src unsafe.Pointer, n int){"Load": words.Load, "Store": words.Store} {
		for _, n := range lengths {
			for so := range 16 {
				for do := range 16 {
					if n > 500 && (so+do)%(3*scale) != 0 {
						continue
					}
					for i := range from {
						from[i] = byte(rng.Uint32())
						if i > n+2*base {
							break
						}
					}
					for i := range to {
						to[i] = 0x5a
					}
					copy(want, to)
					copy(want[base+do:base+do+n], from[base+so:base+so+n])
					before := bytes.Clone(from)
					f(ptr(to, base+do), ptr(from, base+so), n)
					if !bytes.Equal(to, want) {
						t.Fatalf("%s of %d bytes, source at %d, destination at %d (mod 16) differs from copy", name, n, so, do)
					}
					if !bytes.Equal(from, before) {
						t.Fatalf("%s of %d bytes changed its source", name, n)
					}
				}
			}
		}
	}
}

func TestNothingIsCopiedFromNowhere(*testing.T) {
	words.Load(nil, nil, 0)
	words.Store(nil, nil, 0)
}

// TestWholeAllocations: private memory may end where its allocation ends.
func TestWholeAllocations(t *testing.T) {
	shared := aligned(64)
	for n := 1; n <= 33; n++ {
		for off := range 9 {
			src, dst := make([]byte, n), make([]byte, n)
			for i := range src {
				src[i] = byte(i + n)
			}
			words.Store(ptr(shared, off), ptr(src, 0), n)
			words.Load(ptr(dst, 0), ptr(shared, off), n)
			if !bytes.Equal(src, dst) {
				t.Fatalf("%d bytes at %d: %x became %x", n, off, src, dst)
			}
		}
	}
}

// TestNeighboursInOneWord: writers of different bytes of one word do not undo
// each other.
func TestNeighboursInOneWord(t *testing.T) {
	shared := aligned(64)
	rounds := rounds() / 3
	var wg sync.WaitGroup
	for _, r := range [][2]int{{0, 1}, {1, 3}, {3, 8}, {8, 13}, {13, 19}, {19, 24}} { // [from, to)
		wg.Add(1)
		go func() {
			defer wg.Done()
			n := r[1] - r[0]
			mine, got := make([]byte, n), make([]byte, n)
			for i := range rounds {
				for k := range mine {
					mine[k] = byte(i)
				}
				words.Store(ptr(shared, r[0]), ptr(mine, 0), n)
				words.Load(ptr(got, 0), ptr(shared, r[0]), n)
				if !bytes.Equal(got, mine) {
					t.Errorf("bytes %d to %d: stored %x, loaded %x", r[0], r[1], mine, got)
					return
				}
				if i%1024 == 0 {
					runtime.Gosched()
				}
			}
		}()
	}
	wg.Wait()
	if got := shared[24:]; !bytes.Equal(got, make([]byte, len(got))) {
		t.Errorf("bytes of nobody changed: %x", got)
	}
}

// reads runs write(i) for i = 1, 2, ... beside look, which is called until the
// writer has ended.
func reads(rounds int, write func(i uint64), look func() error) (err error) {
	var done atomic.Bool
	go func() {
		defer done.Store(true)
		for i := range uint64(rounds) {
			write(i + 1)
			if i%4096 == 0 {
				runtime.Gosched()
			}
		}
	}()
	for last, n := false, 0; !last; n++ {
		last = done.Load()
		if err == nil {
			err = look()
		}
		if err != nil || n%1024 == 0 {
			runtime.Gosched()
		}
	}
	return err
}

func rounds() int {
	if testing.Short() {
		return 20_000 / scale
	}
	return 300_000 / scale
}

// TestWordsAreNeverTorn: whatever the alignment of the private side, a word of
// the shared side is written and read in one piece.
func TestWordsAreNeverTorn(t *testing.T) {
	for off := range 8 {
		shared, from, to := aligned(128), aligned(128), aligned(128)
		err := reads(rounds()/8, func(i uint64) {
			for k := range 64 {
				from[off+k] = byte(i)
			}
			words.Store(ptr(shared, 64), ptr(from, off), 64)
		}, func() error {
			words.Load(ptr(to, off), ptr(shared, 64), 64)
			for w := range 8 {
				b := to[off+8*w : off+8*w+8]
				for _, c := range b {
					if c != b[0] {
						return fmt.Errorf("private memory at %d (mod 8): word %d is torn: %x", off, w, b)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func word(b []byte, off int) *uint64 { return (*uint64)(ptr(b, off)) }

func TestStoreAscends(t *testing.T) {
	shared, from, to := aligned(256), aligned(256), aligned(16)
	err := reads(rounds(), func(i uint64) {
		for w := range 32 {
			*word(from, 8*w) = i
		}
		words.Store(ptr(shared, 0), ptr(from, 0), 256)
	}, func() error {
		words.Load(ptr(to, 0), ptr(shared, 248), 8)
		words.Load(ptr(to, 8), ptr(shared, 0), 8)
		if last, first := *word(to, 0), *word(to, 8); first < last {
			return fmt.Errorf("the last word was %d when the first was still %d", last, first)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestLoadAscends(t *testing.T) {
	shared, from, to := aligned(256), aligned(8), aligned(256)
	err := reads(rounds(), func(i uint64) {
		*word(from, 0) = i
		words.Store(ptr(shared, 248), ptr(from, 0), 8)
		words.Store(ptr(shared, 0), ptr(from, 0), 8)
	}, func() error {
		words.Load(ptr(to, 0), ptr(shared, 0), 256)
		if first, last := *word(to, 0), *word(to, 248); last < first {
			return fmt.Errorf("the first word is %d, the last, stored before it, %d", first, last)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestCopiesAllocateNothing(t *testing.T) {
	a, b := aligned(128), aligned(128)
	if n := testing.AllocsPerRun(100, func() {
		words.Load(ptr(a, 0), ptr(b, 0), 64)
		words.Store(ptr(a, 3), ptr(b, 5), 61)
		words.Load(ptr(a, 3), ptr(b, 5), 61)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkStore(b *testing.B) {
	from, to := aligned(4200), aligned(4200)
	for _, n := range []int{8, 64, 1024, 4096} {
		for _, off := range []int{0, 3} {
			b.Run(fmt.Sprintf("%d+%d", n, off), func(b *testing.B) {
				b.SetBytes(int64(n))
				for b.Loop() {
					words.Store(ptr(to, 0), ptr(from, off), n)
				}
			})
		}
	}
}

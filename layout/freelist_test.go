package layout

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

var _ = [1]struct{}{}[FreeListSize-968]

func TestFreeListCellFillsOneKiB(t *testing.T) {
	if n := SlotSize(8, FreeListSize); n != 1024 {
		t.Error(n)
	}
}

func freeList(t testing.TB, ranges ...Range) *FreeList {
	t.Helper()
	var f FreeList
	for _, r := range ranges {
		if err := f.Free(r.Off, r.Len); err != nil {
			t.Fatal(err)
		}
	}
	return &f
}

func TestFreeMergesNeighbours(t *testing.T) {
	f := freeList(t, Range{100, 10}, Range{200, 10}, Range{300, 10})
	for _, c := range []struct {
		free Range
		want []Range
	}{
		{Range{110, 5}, []Range{{100, 15}, {200, 10}, {300, 10}}},
		{Range{195, 5}, []Range{{100, 15}, {195, 15}, {300, 10}}},
		{Range{115, 80}, []Range{{100, 110}, {300, 10}}},
		{Range{0, 1}, []Range{{0, 1}, {100, 110}, {300, 10}}},
		{Range{400, 1}, []Range{{0, 1}, {100, 110}, {300, 10}, {400, 1}}},
	} {
		if err := f.Free(c.free.Off, c.free.Len); err != nil || !slices.Equal(f.Ranges(), c.want) {
			t.Errorf("free %v: %v, %v, want %v", c.free, f.Ranges(), err, c.want)
		}
	}
	if f.Total() != 1+110+10+1 {
		t.Error(f.Total())
	}
}

func TestFreeRefusesWhatIsFree(t *testing.T) {
	f := freeList(t, Range{100, 10}, Range{200, 10})
	want := slices.Clone(f.Ranges())
	for _, r := range []Range{
		{100, 10}, {100, 1}, {109, 1}, {105, 2}, {99, 2}, {109, 2}, {90, 200}, {209, 1}, {195, 6}, {0, 1000},
		{50, 0}, {math.MaxUint64, 2}, {0, math.MaxUint64},
	} {
		if err := f.Free(r.Off, r.Len); !errors.Is(err, ErrFreeOverlap) {
			t.Errorf("free %v: %v", r, err)
		}
	}
	if !slices.Equal(f.Ranges(), want) {
		t.Errorf("a refused free changed the list: %v", f.Ranges())
	}
}

func TestFreeListFull(t *testing.T) {
	var f FreeList
	for i := range uint64(FreeListCap) {
		if err := f.Free(1000+i*100, 64); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Free(0, 1); !errors.Is(err, ErrFreeListFull) {
		t.Errorf("one range more: %v", err)
	}
	if err := f.Free(1064, 36); err != nil { // joins two
		t.Errorf("a range that joins two: %v", err)
	}
	if err := f.Free(0, 1); err != nil {
		t.Errorf("after that: %v", err)
	}
	// Full again. Taking the middle of a range would need one more, so the next range that is not cut serves.
	if len(f.Ranges()) != FreeListCap {
		t.Fatal(len(f.Ranges()))
	}
	if off, ok := f.Alloc(10, 7); !ok || off%7 != 0 {
		t.Error(off, ok)
	}
	f = FreeList{}
	for i := range uint64(FreeListCap) {
		if err := f.Free(1+i*128, 100); err != nil {
			t.Fatal(err)
		}
	}
	if off, ok := f.Alloc(10, 64); ok {
		t.Errorf("cut a range in two at %d, in a full list", off)
	}
	if off, ok := f.Alloc(10, 1); !ok || off != 1 {
		t.Error(off, ok)
	}
}

func TestAllocFirstFit(t *testing.T) {
	f := freeList(t, Range{8, 64}, Range{128, 64}, Range{256, 1024})
	for _, c := range []struct {
		size, align, off uint64
		ok               bool
	}{
		{0, 64, 0, false},
		{2000, 1, 0, false},
		{65, 64, 256, true},
		{64, 64, 128, true},
		{8, 64, 64, true}, // the end of the first
		{8, 0, 8, true},
		{1, 1 << 63, 0, false},
		{math.MaxUint64, 1, 0, false},
	} {
		if off, ok := f.Alloc(c.size, c.align); off != c.off || ok != c.ok {
			t.Errorf("Alloc(%d, %d) = %d, %v, want %d, %v", c.size, c.align, off, ok, c.off, c.ok)
		}
	}
	if want := []Range{{16, 48}, {321, 959}}; !slices.Equal(f.Ranges(), want) {
		t.Errorf("%v, want %v", f.Ranges(), want)
	}
}

// The list against a plain twin: one bool per byte.
func TestFreeListAgainstBitmap(t *testing.T) {
	const space = 512
	rng := rand.New(rand.NewPCG(29, 30))
	for range 50 {
		var f FreeList
		var free [space]bool
		for range 500 {
			if rng.IntN(2) == 0 {
				size, align := uint64(1+rng.IntN(20)), uint64(1+rng.IntN(9))
				full := len(f.Ranges()) == FreeListCap
				off, ok := f.Alloc(size, align)
				fits := func(at uint64) bool {
					return at%align == 0 && at+size <= space && !slices.Contains(free[at:at+size], false)
				}
				want := uint64(0)
				for want < space && !fits(want) {
					want++
				}
				switch {
				case ok && (!full && off != want || !fits(off)):
					t.Fatalf("Alloc(%d, %d) = %d, want %d", size, align, off, want)
				case !ok && !full && want < space:
					t.Fatalf("Alloc(%d, %d) failed, free are %v", size, align, f.Ranges())
				case ok:
					for i := off; i < off+size; i++ {
						free[i] = false
					}
				}
			} else {
				off, length := uint64(rng.IntN(space)), uint64(1+rng.IntN(20))
				end := min(off+length, space)
				err := f.Free(off, end-off)
				overlaps := slices.Contains(free[off:end], true)
				switch {
				case errors.Is(err, ErrFreeOverlap) != overlaps:
					t.Fatalf("Free(%d, %d): %v, free are %v", off, end-off, err, f.Ranges())
				case errors.Is(err, ErrFreeListFull) && len(f.Ranges()) < FreeListCap:
					t.Fatal(err)
				case err == nil:
					for i := off; i < end; i++ {
						free[i] = true
					}
				}
			}
			checkFreeList(t, &f, free[:])
		}
	}
}

func checkFreeList(t *testing.T, f *FreeList, free []bool) {
	t.Helper()
	var want []Range
	for i, x := range free {
		switch {
		case !x:
		case i > 0 && free[i-1]:
			want[len(want)-1].Len++
		default:
			want = append(want, Range{uint64(i), 1})
		}
	}
	if !slices.Equal(f.Ranges(), want) {
		t.Fatalf("free are %v, want %v", f.Ranges(), want)
	}
	b := make([]byte, FreeListSize)
	f.Encode(b)
	var g FreeList
	if err := g.Decode(b); err != nil || g != *f {
		t.Fatalf("decoded %v, %v, want %v", g.Ranges(), err, f.Ranges())
	}
}

func TestFreeListDecodeErrors(t *testing.T) {
	valid := make([]byte, FreeListSize)
	freeList(t, Range{64, 64}, Range{256, 64}).Encode(valid)
	put := func(off int, v uint64) []byte {
		b := slices.Clone(valid)
		binary.LittleEndian.PutUint64(b[off:], v)
		return b
	}
	for name, b := range map[string][]byte{
		"short":        valid[:FreeListSize-1],
		"long":         append(slices.Clone(valid), 0),
		"empty":        nil,
		"many ranges":  put(0, FreeListCap+1),
		"huge count":   put(0, math.MaxUint64),
		"dirt behind":  put(0, 1),
		"empty range":  put(16, 0),
		"wraps":        put(32, math.MaxUint64),
		"touching":     put(24, 128),
		"overlapping":  put(24, 100),
		"out of order": put(24, 0),
	} {
		f := *freeList(t, Range{1, 1})
		if err := f.Decode(b); !errors.Is(err, ErrBadCatalog) || len(f.Ranges()) != 0 {
			t.Errorf("%s: %v, %v", name, err, f.Ranges())
		}
	}
}

func TestFreeListAllocatesNothing(t *testing.T) {
	var b [FreeListSize]byte
	var f FreeList
	noAllocs(t, "FreeList", func() {
		f = FreeList{}
		if err := f.Free(0, 1<<20); err != nil {
			t.Fatal(err)
		}
		f.Alloc(64, 64)
		f.Encode(b[:])
		if err := f.Decode(b[:]); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzFreeList(f *testing.F) {
	b := make([]byte, FreeListSize)
	freeList(f, Range{64, 64}, Range{256, 640}).Encode(b)
	f.Add(b, uint64(64), uint64(64))
	f.Add(b, uint64(100), uint64(7))
	f.Fuzz(func(t *testing.T, b []byte, size, align uint64) {
		var l FreeList
		if err := l.Decode(b); err != nil {
			return
		}
		again := make([]byte, FreeListSize)
		l.Encode(again)
		if string(again) != string(b) {
			t.Fatalf("encoded again: %x\nwas: %x", again, b)
		}
		total := l.Total()
		off, ok := l.Alloc(size, align)
		if !ok {
			return
		}
		if off%max(align, 1) != 0 || l.Total() != total-size {
			t.Fatalf("Alloc(%d, %d) = %d, total from %d to %d", size, align, off, total, l.Total())
		}
		if err := l.Free(off, size); err != nil {
			t.Fatal(err)
		}
		l.Encode(again)
		if string(again) != string(b) {
			t.Fatalf("after Alloc and Free: %x\nwas: %x", again, b)
		}
	})
}

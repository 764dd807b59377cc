package coord

import (
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// Chunks are handed out in runs that do not overlap, lie within the memory, and
// can all be had again once given back.
func TestChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const n = 40
		mem := make([]byte, n*chunkSize)
		var c chunks
		c.init(mem)
		type run struct{ first, len int }
		where := func(b []byte) run {
			off := uintptr(unsafe.Pointer(unsafe.SliceData(b))) - uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
			if off%chunkSize != 0 || len(b)%chunkSize != 0 || len(b) != cap(b) || int(off)+len(b) > len(mem) {
				t.Fatalf("got %d bytes at %d", len(b), off)
			}
			return run{int(off) / chunkSize, len(b) / chunkSize}
		}
		var used [n]bool
		live := make(map[int][]byte)
		next := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(live) > 0 && rapid.Bool().Draw(t, "give") {
				keys := make([]int, 0, len(live))
				for i := range next {
					if live[i] != nil {
						keys = append(keys, i)
					}
				}
				k := rapid.SampledFrom(keys).Draw(t, "which")
				r := where(live[k])
				for i := range r.len {
					used[r.first+i] = false
				}
				c.give(live[k])
				delete(live, k)
				continue
			}
			size := rapid.IntRange(1, 12*chunkSize).Draw(t, "size")
			want := (size + chunkSize - 1) / chunkSize
			b := c.take(size)
			longest, run := 0, 0
			for _, u := range used {
				if run++; u {
					run = 0
				}
				longest = max(longest, run)
			}
			if b == nil {
				if longest >= want {
					t.Fatalf("no %d chunks to be had, %d in a row are free", want, longest)
				}
				continue
			}
			r := where(b)
			if r.len != want {
				t.Fatalf("%d chunks for %d bytes", r.len, size)
			}
			for i := range r.len {
				if used[r.first+i] {
					t.Fatalf("chunk %d is handed out twice", r.first+i)
				}
				used[r.first+i] = true
			}
			live[next] = b
			next++
		}
		for i := range next {
			if live[i] != nil {
				c.give(live[i])
			}
		}
		if b := c.take(n * chunkSize); b == nil {
			t.Fatal("with everything given back, not everything can be had")
		}
	})
}

// An arena's buffers are aligned, do not overlap, keep what is written to them
// until the reset, and after it none of the memory but the first chunk is kept.
func TestArena(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const n = 24
		mem := make([]byte, n*chunkSize)
		var c chunks
		c.init(mem)
		var arenas [2]arena
		for i := range arenas {
			if !arenas[i].init(&c) {
				t.Fatal("no first chunk")
			}
		}
		type piece struct {
			b    Buf
			mark byte
		}
		var live [2][]piece
		mark := byte(0)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			i := rapid.IntRange(0, 1).Draw(t, "arena")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				arenas[i].reset(8 * rapid.IntRange(0, 2).Draw(t, "keep"))
				live[i] = nil
			default:
				size := rapid.SampledFrom([]int{0, 1, 8, 24, 100, 4096, 30_000, chunkSize - 8, chunkSize + 1, 3 * chunkSize}).Draw(t, "size")
				b, ok := arenas[i].alloc(size)
				if !ok {
					if size < chunkSize/8 && len(arenas[i].more)+len(arenas[1-i].more) < 8 {
						t.Fatalf("no %d bytes to be had", size)
					}
					continue
				}
				if b.Len() != size || len(b.B()) != size || b.Addr()%8 != 0 || b.Nil() {
					t.Fatalf("asked for %d bytes, got %d at %#x", size, b.Len(), b.Addr())
				}
				mark++
				for j := range b.B() {
					b.B()[j] = mark
				}
				live[i] = append(live[i], piece{b, mark})
			}
			for _, ps := range live {
				for _, p := range ps {
					if n := p.b.Len(); n > 0 && (p.b.B()[0] != p.mark || p.b.B()[n-1] != p.mark) {
						t.Fatalf("a buffer of %d bytes was handed out again", n)
					}
				}
			}
		}
		arenas[0].free()
		arenas[1].free()
		if b := c.take(n * chunkSize); b == nil {
			t.Fatal("an arena that was freed has kept memory")
		}
	})
}

// A part of a buffer lies within it; what does not is a fault of the program.
func TestBufSlice(t *testing.T) {
	mem := make([]byte, chunkSize)
	var c chunks
	c.init(mem)
	var a arena
	a.init(&c)
	b, _ := a.alloc(32)
	for i := range b.B() {
		b.B()[i] = byte(i)
	}
	p := b.Slice(8, 24)
	if p.Len() != 16 || p.Addr() != b.Addr()+8 || p.B()[0] != 8 || len(p.B()) != 16 {
		t.Errorf("part is %d bytes at +%d", p.Len(), p.Addr()-b.Addr())
	}
	for _, r := range [][2]int{{-1, 4}, {0, 33}, {9, 8}, {33, 33}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a part from %d to %d of 32 bytes", r[0], r[1])
				}
			}()
			b.Slice(r[0], r[1])
		}()
	}
	if !(Buf{}).Nil() || b.Nil() {
		t.Error("Nil tells it wrong")
	}
}

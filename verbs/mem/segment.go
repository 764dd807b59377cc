package mem

import (
	"unsafe"

	"fjord/internal/words"
)

// segment is a piece of local memory whose protection has been checked.
type segment struct {
	p unsafe.Pointer
	n int
}

// cut removes n bytes, at most those of its first segment, from the front of the
// list. No pointer is left behind that points past the end of its memory.
func cut(segs []segment, n int) []segment {
	if n == segs[0].n {
		return segs[1:]
	}
	segs[0].p, segs[0].n = unsafe.Add(segs[0].p, n), segs[0].n-n
	return segs
}

// take moves up to len(b) bytes from the front of the list to b, and returns the
// rest of the list and how many there were.
func take(segs []segment, b []byte) ([]segment, int) {
	n := 0
	for n < len(b) && len(segs) > 0 {
		part := copy(b[n:], unsafe.Slice((*byte)(segs[0].p), segs[0].n))
		segs, n = cut(segs, part), n+part
	}
	return segs, n
}

// give moves all of b to the front of the list, and returns the rest of the list.
func give(segs []segment, b []byte) []segment {
	for len(b) > 0 {
		part := copy(unsafe.Slice((*byte)(segs[0].p), segs[0].n), b)
		segs, b = cut(segs, part), b[part:]
	}
	return segs
}

// inner is how many bytes of the first segment belong to words of the shared
// memory at p that no later segment has a share in.
func inner(segs []segment, p unsafe.Pointer) int {
	n := segs[0].n
	if len(segs) > 1 {
		n -= min(n, int((uintptr(p)+uintptr(n))&7))
	}
	return n
}

// collect writes the segments, which it uses up, to shared memory at dst. A word
// that is put together of several segments is written in one piece as well.
func collect(dst unsafe.Pointer, segs []segment) {
	for len(segs) > 0 {
		n := inner(segs, dst)
		if n > 0 {
			words.Store(dst, segs[0].p, n)
			segs = cut(segs, n)
		} else {
			var w [8]byte
			segs, n = take(segs, w[uintptr(dst)&7:])
			words.Store(dst, unsafe.Pointer(&w[uintptr(dst)&7]), n)
		}
		if len(segs) > 0 {
			dst = unsafe.Add(dst, n)
		}
	}
}

// scatter reads shared memory at src into the segments, which it uses up, each
// word in one piece.
func scatter(segs []segment, src unsafe.Pointer) {
	for len(segs) > 0 {
		n := inner(segs, src)
		if n > 0 {
			words.Load(segs[0].p, src, n)
			segs = cut(segs, n)
		} else {
			var w [8]byte
			for i := 0; i < len(segs) && n < 8; i++ {
				n += segs[i].n
			}
			n = min(n, 8-int(uintptr(src)&7))
			words.Load(unsafe.Pointer(&w), src, n)
			segs = give(segs, w[:n])
		}
		if len(segs) > 0 {
			src = unsafe.Add(src, n)
		}
	}
}

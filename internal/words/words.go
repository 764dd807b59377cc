package words

import (
	"sync/atomic"
	"unsafe"
)

// Load copies n bytes from shared memory at src to private memory at dst.
func Load(dst, src unsafe.Pointer, n int) {
	if (uintptr(src)|uintptr(dst)|uintptr(n))&7 == 0 {
		loadWords(dst, src, n>>3)
		return
	}
	loadUneven(dst, src, n)
}

// Store copies n bytes from private memory at src to shared memory at dst.
func Store(dst, src unsafe.Pointer, n int) {
	if (uintptr(src)|uintptr(dst)|uintptr(n))&7 == 0 {
		storeWords(dst, src, n>>3)
		return
	}
	storeUneven(dst, src, n)
}

// loadUneven reads each word that the range touches once, and takes from it the
// bytes that belong to the range.
func loadUneven(dst, src unsafe.Pointer, n int) {
	for n > 0 {
		skip := int(uintptr(src) & 7)
		part := min(8-skip, n)
		w := atomic.LoadUint64((*uint64)(unsafe.Add(src, -skip)))
		copy(unsafe.Slice((*byte)(dst), part), (*[8]byte)(unsafe.Pointer(&w))[skip:skip+part])
		if part == n {
			return // checkptr minds a pointer to behind the last byte
		}
		dst, src, n = unsafe.Add(dst, part), unsafe.Add(src, part), n-part
	}
}

// storeUneven writes whole words at once, and merges the bytes of a word that
// the range covers in part without disturbing its other bytes.
func storeUneven(dst, src unsafe.Pointer, n int) {
	for n > 0 {
		skip := int(uintptr(dst) & 7)
		part := min(8-skip, n)
		p := (*uint64)(unsafe.Add(dst, -skip))
		for {
			old := atomic.LoadUint64(p)
			w := old
			copy((*[8]byte)(unsafe.Pointer(&w))[skip:skip+part], unsafe.Slice((*byte)(src), part))
			if part == 8 {
				atomic.StoreUint64(p, w)
				break
			}
			if atomic.CompareAndSwapUint64(p, old, w) {
				break
			}
		}
		if part == n {
			return // checkptr minds a pointer to behind the last byte
		}
		dst, src, n = unsafe.Add(dst, part), unsafe.Add(src, part), n-part
	}
}

// LoadWords is Load for aligned addresses, n words long.
func LoadWords(dst, src unsafe.Pointer, n int) { loadWords(dst, src, n) }

// StoreWords is Store for aligned addresses, n words long.
func StoreWords(dst, src unsafe.Pointer, n int) { storeWords(dst, src, n) }

// CAS is compare and swap; it returns the word that it found.
func CAS(p *uint64, expect, with uint64) uint64 {
	for !atomic.CompareAndSwapUint64(p, expect, with) {
		if old := atomic.LoadUint64(p); old != expect {
			return old
		}
	}
	return expect
}

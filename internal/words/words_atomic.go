//go:build !amd64 || race

package words

import (
	"sync/atomic"
	"unsafe"
)

func loadWords(dst, src unsafe.Pointer, n int) {
	for i := range n {
		*(*uint64)(unsafe.Add(dst, i<<3)) = atomic.LoadUint64((*uint64)(unsafe.Add(src, i<<3)))
	}
}

func storeWords(dst, src unsafe.Pointer, n int) {
	for i := range n {
		atomic.StoreUint64((*uint64)(unsafe.Add(dst, i<<3)), *(*uint64)(unsafe.Add(src, i<<3)))
	}
}

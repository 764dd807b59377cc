//go:build race || !linux

package verbs

import (
	"errors"
	"unsafe"
)

// mapMemory takes the memory from the Go heap, where the race detector sees it.
func mapMemory(size uint64, huge HugePages) (*Memory, error) {
	const page = 4096
	b := make([]byte, size+page)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (page - 1)
	m := &Memory{buf: b[skip : uint64(skip)+size : uint64(skip)+size]}
	if huge == Huge2M || huge == Huge1G {
		m.Fallback = errors.New("verbs: " + huge.String() + " pages are not available in this build (race detector, or not Linux); ordinary pages are used")
	}
	return m, nil
}

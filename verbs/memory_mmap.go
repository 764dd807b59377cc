//go:build linux && !race

package verbs

import (
	"fmt"
	"syscall"
	"unsafe"
)

const (
	mapHuge2M = 21 << 26 // MAP_HUGE_2MB: log2 of the page size above bit 26
	mapHuge1G = 30 << 26
	size2M    = 2 << 20
	size1G    = 1 << 30
)

func mapMemory(size uint64, huge HugePages) (*Memory, error) {
	const prot = syscall.PROT_READ | syscall.PROT_WRITE
	const flags = syscall.MAP_PRIVATE | syscall.MAP_ANONYMOUS | syscall.MAP_NORESERVE
	var fallback error
	if huge == Huge2M || huge == Huge1G {
		page, bits := uint64(size2M), mapHuge2M
		if huge == Huge1G {
			page, bits = size1G, mapHuge1G
		}
		whole := (size + page - 1) &^ (page - 1)
		b, err := syscall.Mmap(-1, 0, int(whole), prot, syscall.MAP_PRIVATE|syscall.MAP_ANONYMOUS|syscall.MAP_HUGETLB|bits)
		if err == nil {
			return &Memory{buf: b[:size:size], unmap: func() error { return syscall.Munmap(b) }}, nil
		}
		fallback = fmt.Errorf("verbs: %d bytes in %v pages: %w (reserve %d of them in /sys/kernel/mm/hugepages); ordinary pages are used",
			size, huge, err, whole/page)
	}
	// Aligned to 2 MiB, so that the kernel may use huge pages from the start.
	b, err := syscall.Mmap(-1, 0, int(size+size2M), prot, flags)
	if err != nil {
		return nil, fmt.Errorf("verbs: map %d bytes: %w", size, err)
	}
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (size2M - 1)
	buf := b[skip : uint64(skip)+size : uint64(skip)+size]
	advice := syscall.MADV_HUGEPAGE
	if huge == HugeNever {
		advice = syscall.MADV_NOHUGEPAGE
	}
	_ = syscall.Madvise(buf, advice) // advice only: kernels without huge pages serve small ones
	return &Memory{buf: buf, unmap: func() error { return syscall.Munmap(b) }, Fallback: fallback}, nil
}

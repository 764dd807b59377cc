package words

import "unsafe"

// Prefetch asks for the line at an address without waiting for it. There need be
// no memory.
//
//go:noescape
func Prefetch(p unsafe.Pointer)

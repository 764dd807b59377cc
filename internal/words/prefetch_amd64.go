package words

import "unsafe"

// Prefetch asks for the line at p without waiting for it. p may be anything.
//
//go:noescape
func Prefetch(p unsafe.Pointer)

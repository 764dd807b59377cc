//go:build !amd64

package words

import "unsafe"

// Prefetch asks for the line at an address without waiting for it, where the port
// can.
func Prefetch(unsafe.Pointer) {}

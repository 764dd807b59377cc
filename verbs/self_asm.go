//go:build amd64 || arm64

package verbs

// self returns the address of the running goroutine's descriptor: unique among
// the living ones, and three instructions instead of a stack dump.
func self() uint64

//go:build !amd64 || race

package words

import "sync/atomic"

// Release stores v at p after everything before it.
func Release(p *uint64, v uint64) { atomic.StoreUint64(p, v) }

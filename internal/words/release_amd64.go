//go:build amd64 && !race

package words

// Release stores v at p after everything before it: what sync/atomic's Store
// does, without ordering later loads before it. On amd64 that is a plain move
// where Store is a locked exchange. Readers use sync/atomic.
//
//go:noescape
func Release(p *uint64, v uint64)

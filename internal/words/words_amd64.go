//go:build amd64 && !race

package words

import "unsafe"

// copyWords moves n 8-byte words in ascending order, each with one load and one
// store. Both addresses are aligned.
//
//go:noescape
func copyWords(dst, src unsafe.Pointer, n int)

func loadWords(dst, src unsafe.Pointer, n int)  { copyWords(dst, src, n) }
func storeWords(dst, src unsafe.Pointer, n int) { copyWords(dst, src, n) }

//go:build !amd64 && !arm64

package verbs

import (
	"bytes"
	"runtime"
	"strconv"
)

// self returns the goroutine's number, read from its stack dump: slow, but
// right on every port.
func self() uint64 {
	var buf [64]byte
	b := bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	n, _, _ := bytes.Cut(b, []byte(" "))
	id, err := strconv.ParseUint(string(n), 10, 64)
	if err != nil {
		panic("verbs: cannot read the goroutine number from " + strconv.Quote(string(b)))
	}
	return id
}

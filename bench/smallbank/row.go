package main

import (
	"encoding/binary"
	"fmt"
)

const (
	keySize = 8  // account number, big-endian
	rowSize = 16 // cents, updates, both little-endian
)

// row is the value of one account in one table.
type row struct {
	cents   int64
	updates uint64 // committed writes: finds lost updates that happen to balance out
}

func putKey(b []byte, account uint64) { binary.BigEndian.PutUint64(b, account) }

func (r row) put(b []byte) {
	binary.LittleEndian.PutUint64(b, uint64(r.cents))
	binary.LittleEndian.PutUint64(b[8:], r.updates)
}

func rowOf(b []byte) (row, error) {
	if len(b) != rowSize {
		return row{}, fmt.Errorf("smallbank: a value of %d bytes, it should have %d", len(b), rowSize)
	}
	return row{int64(binary.LittleEndian.Uint64(b)), binary.LittleEndian.Uint64(b[8:])}, nil
}

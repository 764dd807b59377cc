package layout

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// FreeListCap is the most ranges that a FreeList holds: as many as let the cell, with a key of up to 8
// bytes, end within 1024.
const FreeListCap = 60

// FreeListSize is the bytes of a FreeList's value, however many ranges it holds:
//
//	0  number of ranges, u64
//	8  per range: offset u64, length u64; zero behind the last
const FreeListSize = 8 + FreeListCap*rangeSize

const rangeSize = 16

var (
	// ErrFreeOverlap: what was freed is free already, in whole or in part, or is no range. The caller freed
	// twice, or what it does not own; don't retry.
	ErrFreeOverlap = errors.New("layout: freed range is free already or impossible")
	// ErrFreeListFull: the freed range touches no other and there is no room for one more. It may succeed
	// after a neighbour was freed.
	ErrFreeListFull = errors.New("layout: free list is full")
)

// Range is a range of bytes within an extent.
type Range struct {
	Off uint64
	Len uint64
}

// FreeList is the value of an allocation cursor: the free ranges of an extent, by ascending offset, none
// empty, none touching the next. The zero FreeList is empty. Free gives it its first range.
type FreeList struct {
	n int
	r [FreeListCap]Range
}

// Ranges returns the free ranges, as a view that the next Alloc or Free changes.
func (f *FreeList) Ranges() []Range { return f.r[:f.n:f.n] }

// Total returns the free bytes.
func (f *FreeList) Total() uint64 {
	var sum uint64
	for _, r := range f.Ranges() {
		sum += r.Len
	}
	return sum
}

// Alloc takes size bytes from the first range that has them at a multiple of align (0 is 1), and returns
// their offset. It is not ok if size is 0, or no range has them, or only such as would have to be cut in two
// when the list is full.
func (f *FreeList) Alloc(size, align uint64) (off uint64, ok bool) {
	if size == 0 {
		return 0, false
	}
	align = max(align, 1)
	for i := range f.n {
		r := f.r[i]
		skip := (align - r.Off%align) % align
		if skip > r.Len || size > r.Len-skip {
			continue
		}
		off = r.Off + skip
		before := Range{Off: r.Off, Len: skip}
		behind := Range{Off: off + size, Len: r.Len - skip - size}
		switch {
		case before.Len == 0 && behind.Len == 0:
			f.remove(i)
		case before.Len == 0:
			f.r[i] = behind
		case behind.Len == 0:
			f.r[i] = before
		case f.n == FreeListCap:
			continue
		default:
			f.r[i] = before
			f.insert(i+1, behind)
		}
		return off, true
	}
	return 0, false
}

// Free gives length bytes at off back, merging them with their neighbours. It returns ErrFreeOverlap or
// ErrFreeListFull, wrapped with the ranges in question, and then changes nothing.
func (f *FreeList) Free(off, length uint64) error {
	end := off + length
	if length == 0 || end < off {
		return fmt.Errorf("%w: %d bytes at %#x", ErrFreeOverlap, length, off)
	}
	i := 0 // the first range behind off
	for i < f.n && f.r[i].Off <= off {
		i++
	}
	if i > 0 && f.r[i-1].end() > off {
		return fmt.Errorf("%w: %d bytes at %#x, free are %d at %#x", ErrFreeOverlap, length, off, f.r[i-1].Len, f.r[i-1].Off)
	}
	if i < f.n && f.r[i].Off < end {
		return fmt.Errorf("%w: %d bytes at %#x, free are %d at %#x", ErrFreeOverlap, length, off, f.r[i].Len, f.r[i].Off)
	}
	before := i > 0 && f.r[i-1].end() == off
	behind := i < f.n && f.r[i].Off == end
	switch {
	case before && behind:
		f.r[i-1].Len += length + f.r[i].Len
		f.remove(i)
	case before:
		f.r[i-1].Len += length
	case behind:
		f.r[i].Off = off
		f.r[i].Len += length
	case f.n == FreeListCap:
		return fmt.Errorf("%w: %d ranges, and %d bytes at %#x touch none", ErrFreeListFull, f.n, length, off)
	default:
		f.insert(i, Range{Off: off, Len: length})
	}
	return nil
}

// Encode writes the value, FreeListSize bytes, to dst.
func (f *FreeList) Encode(dst []byte) {
	b := dst[:FreeListSize:len(dst)]
	clear(b)
	binary.LittleEndian.PutUint64(b, uint64(f.n))
	for i, r := range f.Ranges() {
		e := b[8+i*rangeSize:][:rangeSize]
		binary.LittleEndian.PutUint64(e[0:], r.Off)
		binary.LittleEndian.PutUint64(e[8:], r.Len)
	}
}

// Decode reads a value of FreeListSize bytes into f. On an error, which wraps ErrBadCatalog, f is empty.
func (f *FreeList) Decode(b []byte) error {
	*f = FreeList{}
	if len(b) != FreeListSize {
		return badCatalog("free list of %d bytes, want %d", len(b), FreeListSize)
	}
	n := binary.LittleEndian.Uint64(b)
	if n > FreeListCap {
		return badCatalog("free list of %d ranges, want %d at most", n, FreeListCap)
	}
	if !allZero(b[8+int(n)*rangeSize:]) {
		return badCatalog("free list is not zero behind its %d ranges", n)
	}
	for i := range int(n) {
		e := b[8+i*rangeSize:][:rangeSize]
		r := Range{Off: binary.LittleEndian.Uint64(e[0:]), Len: binary.LittleEndian.Uint64(e[8:])}
		if r.Len == 0 || r.end() < r.Off {
			*f = FreeList{}
			return badCatalog("free range %d is %d bytes at %#x", i, r.Len, r.Off)
		}
		if i > 0 && f.r[i-1].end() >= r.Off {
			*f = FreeList{}
			return badCatalog("free range %d at %#x does not lie behind the one before", i, r.Off)
		}
		f.r[i] = r
		f.n++
	}
	return nil
}

func (r Range) end() uint64 { return r.Off + r.Len }

func (f *FreeList) insert(i int, r Range) {
	copy(f.r[i+1:], f.r[i:f.n])
	f.r[i] = r
	f.n++
}

func (f *FreeList) remove(i int) {
	copy(f.r[i:], f.r[i+1:f.n])
	f.n--
	f.r[f.n] = Range{}
}

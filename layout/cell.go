package layout

import (
	"encoding/binary"
	"fmt"
)

// Offsets of a cell's fields from its start, and its sizes, in bytes.
const (
	OffLock     = 0  // u64: 0 free, else the holder's token
	OffVersion  = 8  // u64: Version
	OffWriter   = 16 // u64: token of the transaction that wrote the image
	OffSum      = 24 // u64: see sum.go
	OffValueLen = 32 // u32
	OffKeyLen   = 36 // u16
	OffKind     = 38 // u16: Kind

	// HeaderSize is the size of the fields above. The key follows, padded with zeros to a multiple of 8,
	// then the value, padded likewise.
	HeaderSize = 40
	// CellAlign is the alignment of a slot and of its size: one line, within which a NIC accesses words in
	// ascending order.
	CellAlign = 64

	// MaxKeySize is the longest key: the largest multiple of 8 that the 16-bit length holds.
	MaxKeySize = 1<<16 - 8
	// MaxValueSize is the longest value. It keeps an image, a log entry with a few of them, and the length
	// of one RDMA message (2 GiB at most) within 31 bits.
	MaxValueSize = 1 << 30
)

// Kind says what a cell is for. The engine treats all alike; recovery tools and assertions tell them apart.
type Kind uint16

// The kinds. 0 is left to virgin cells, so that a written cell never looks like one.
const (
	KindRecord  Kind = 1 + iota // a row of a table
	KindBucket                  // header of a hash bucket
	KindCursor                  // allocation cursor: FreeList or OverflowCursor
	KindCatalog                 // a table's TableMeta, under its name
	KindNode                    // node of an ordered table's tree
	KindOutcome                 // what became of a transaction
	KindStripe                  // one stripe of a striped record
)

// String returns the name of the kind.
func (k Kind) String() string {
	switch k {
	case KindRecord:
		return "record"
	case KindBucket:
		return "bucket"
	case KindCursor:
		return "cursor"
	case KindCatalog:
		return "catalog"
	case KindNode:
		return "node"
	case KindOutcome:
		return "outcome"
	case KindStripe:
		return "stripe"
	}
	return fmt.Sprintf("Kind(%d)", uint16(k))
}

// Status is the verdict of Verify.
type Status uint8

const (
	// Torn: the sum does not hold, or the lengths do not fit. The image was read while being written (read
	// it again), or the memory is rotten.
	Torn Status = iota
	// Valid: the image is one that a writer sealed for this address.
	Valid
	// Virgin: the memory was never written. The cell is absent and its version is 0.
	Virgin
)

// String returns the name of the status.
func (s Status) String() string {
	switch s {
	case Torn:
		return "torn"
	case Valid:
		return "valid"
	case Virgin:
		return "virgin"
	}
	return fmt.Sprintf("Status(%d)", uint8(s))
}

// Header is the fixed part of a cell.
type Header struct {
	Lock     uint64
	Version  Version
	Writer   uint64
	Sum      uint64
	ValueLen uint32
	KeyLen   uint16
	Kind     Kind
}

// ReadHeader reads the header of a cell; b must hold HeaderSize bytes. Nothing is verified.
func ReadHeader(b []byte) Header {
	b = b[:HeaderSize:len(b)]
	return Header{
		Lock:     binary.LittleEndian.Uint64(b[OffLock:]),
		Version:  Version(binary.LittleEndian.Uint64(b[OffVersion:])),
		Writer:   binary.LittleEndian.Uint64(b[OffWriter:]),
		Sum:      binary.LittleEndian.Uint64(b[OffSum:]),
		ValueLen: binary.LittleEndian.Uint32(b[OffValueLen:]),
		KeyLen:   binary.LittleEndian.Uint16(b[OffKeyLen:]),
		Kind:     Kind(binary.LittleEndian.Uint16(b[OffKind:])),
	}
}

// Lock returns the lock word of a cell; b must hold 8 bytes.
func Lock(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// CellVersion returns the version word of a cell; b must hold 16 bytes.
func CellVersion(b []byte) Version { return Version(binary.LittleEndian.Uint64(b[OffVersion:])) }

// Writer returns the token of the cell's writer; b must hold 24 bytes.
func Writer(b []byte) uint64 { return binary.LittleEndian.Uint64(b[OffWriter:]) }

// ValueLen returns the length of the cell's value without padding; b must hold HeaderSize bytes.
func ValueLen(b []byte) int { return int(binary.LittleEndian.Uint32(b[OffValueLen:])) }

// KeyLen returns the length of the cell's key without padding; b must hold HeaderSize bytes.
func KeyLen(b []byte) int { return int(binary.LittleEndian.Uint16(b[OffKeyLen:])) }

// CellKind returns the kind of a cell; b must hold HeaderSize bytes.
func CellKind(b []byte) Kind { return Kind(binary.LittleEndian.Uint16(b[OffKind:])) }

// Key returns the key of a verified cell, as a view of b.
func Key(b []byte) []byte {
	end := HeaderSize + KeyLen(b)
	return b[HeaderSize:end:end]
}

// Value returns the value of a verified cell, as a view of b.
func Value(b []byte) []byte {
	start := HeaderSize + pad8(KeyLen(b))
	end := start + ValueLen(b)
	return b[start:end:end]
}

// ImageSize returns the bytes that a cell of these lengths uses, from its offset 0: a multiple of 8.
func ImageSize(keyLen, valueLen int) int { return HeaderSize + pad8(keyLen) + pad8(valueLen) }

// ImageLen returns the ImageSize of a cell; b must hold HeaderSize bytes.
func ImageLen(b []byte) int { return ImageSize(KeyLen(b), ValueLen(b)) }

// SlotSize returns the bytes of a slot for cells of up to these lengths: a multiple of CellAlign.
func SlotSize(keySize, valueSize int) int {
	return (ImageSize(keySize, valueSize) + CellAlign - 1) &^ (CellAlign - 1)
}

// EncodeCell writes an unlocked cell to the start of dst and returns its ImageSize. The version is written
// as given, pending or not; the sum is the same for both. key and value may already lie at their places in
// dst. It panics if dst is shorter than the image, or key or value longer than MaxKeySize or MaxValueSize.
func EncodeCell(dst []byte, addr Addr, v Version, writer uint64, kind Kind, key, value []byte) int {
	start := HeaderSize + pad8(len(key))
	n := start + pad8(len(value))
	dst = dst[:n:len(dst)] // by length, not capacity: nothing behind the caller's slice is touched
	if len(key) == 8 {     // most keys are a word, and cost less than a call of memmove
		binary.LittleEndian.PutUint64(dst[HeaderSize:], binary.LittleEndian.Uint64(key))
	} else {
		copy(dst[HeaderSize:start], key)
	}
	copy(dst[start:], value)
	return SealCell(dst, addr, v, writer, kind, len(key), len(value))
}

// The word of the lengths and kind: of the cell that just fills its line, and where the kind stands in it.
const (
	lineLens = 16 | 8<<32
	kindBits = 0xffff << 48
)

// SealCell is EncodeCell for a key and a value that are in place in dst already. It writes the header and
// the padding, and returns the ImageSize.
func SealCell(dst []byte, addr Addr, v Version, writer uint64, kind Kind, keyLen, valueLen int) int {
	if uint(keyLen) > MaxKeySize || uint(valueLen) > MaxValueSize {
		panic("layout: key or value too long for a cell")
	}
	if keyLen == 8 && valueLen == 16 && len(dst) >= CellAlign {
		sealLine((*[CellAlign]byte)(dst), addr, v, writer, kind)
		return CellAlign
	}
	start := HeaderSize + pad8(keyLen)
	n := start + pad8(valueLen)
	dst = dst[:n:len(dst)]
	// Padding is cleared behind the data, not before it, since the data may be in place.
	if r := keyLen & 7; r != 0 {
		clearTail(dst[start-8:], r)
	}
	if r := valueLen & 7; r != 0 {
		clearTail(dst[n-8:], r)
	}
	lens := uint64(valueLen) | uint64(keyLen)<<32 | uint64(kind)<<48
	h := dst[:HeaderSize]
	binary.LittleEndian.PutUint64(h[OffLock:], 0)
	binary.LittleEndian.PutUint64(h[OffVersion:], uint64(v))
	binary.LittleEndian.PutUint64(h[OffWriter:], writer)
	binary.LittleEndian.PutUint64(h[OffValueLen:], lens) // value length, key length and kind in one word
	binary.LittleEndian.PutUint64(h[OffSum:], cellSum(addr, v, writer, lens, dst[HeaderSize:]))
	return n
}

// sealLine is SealCell for a key of 8 bytes and a value of 16, the cell that just fills its line. It is the
// commonest.
func sealLine(dst *[CellAlign]byte, addr Addr, v Version, writer uint64, kind Kind) {
	binary.LittleEndian.PutUint64(dst[OffLock:], 0)
	binary.LittleEndian.PutUint64(dst[OffVersion:], uint64(v))
	binary.LittleEndian.PutUint64(dst[OffWriter:], writer)
	binary.LittleEndian.PutUint64(dst[OffValueLen:], lineLens|uint64(kind)<<48)
	binary.LittleEndian.PutUint64(dst[OffSum:], lineSum(dst, addr))
}

// Verify says what b, read from addr, holds. slot is the size of the cell's slot. b may be shorter than the
// slot, if the whole image lies in it: a reader that guessed the length too short gets Torn, as does one
// with less than HeaderSize bytes. The lock word is not looked at. Verify never panics.
//
// A cell whose first write is under way may be called Virgin while bytes behind its header are no longer
// zero: of a virgin cell nothing but its version, 0, may be used.
func Verify(b []byte, addr Addr, slot int) Status {
	if len(b) < HeaderSize {
		return Torn
	}
	h := b[:HeaderSize:len(b)]
	v := Version(binary.LittleEndian.Uint64(h[OffVersion:]))
	writer := binary.LittleEndian.Uint64(h[OffWriter:])
	sum := binary.LittleEndian.Uint64(h[OffSum:])
	lens := binary.LittleEndian.Uint64(h[OffValueLen:])
	if lens&^kindBits == lineLens && len(b) >= CellAlign && slot >= CellAlign { // the commonest first, see sealLine
		if lineSum((*[CellAlign]byte)(b), addr) != sum {
			return Torn
		}
		return Valid
	}
	if uint64(v)|writer|sum|lens == 0 {
		return Virgin
	}
	// In 64 bits: lengths of a torn header may exceed an int of 32.
	n := HeaderSize + int64(lens>>32&0xffff+7)&^7 + int64(lens&0xffffffff+7)&^7
	if n > int64(slot) || n > int64(len(b)) {
		return Torn
	}
	if cellSum(addr, v, writer, lens, b[HeaderSize:n]) != sum {
		return Torn
	}
	return Valid
}

// Match tells whether b, read from addr, is Valid, present and not pending, with a key of keyLen bytes of which
// first is the beginning: its first 8 bytes as a little-endian number, fewer padded with zeros. It returns the
// version. b is a whole slot. This is Verify and the looks at version and key that follow it, for the path that
// every transaction takes; what does not match is looked at again, for the reason.
func Match(b []byte, addr Addr, first uint64, keyLen int) (Version, bool) {
	if len(b) < CellAlign {
		return 0, false
	}
	h := b[:CellAlign:len(b)]
	v := Version(binary.LittleEndian.Uint64(h[OffVersion:]))
	lens := binary.LittleEndian.Uint64(h[OffValueLen:])
	if v&(Pending|Absent) != 0 || binary.LittleEndian.Uint64(h[HeaderSize:]) != first || int(lens>>32&0xffff) != keyLen {
		return 0, false
	}
	sum := binary.LittleEndian.Uint64(h[OffSum:])
	if lens&^kindBits == lineLens {
		return v, lineSum((*[CellAlign]byte)(h), addr) == sum
	}
	n := HeaderSize + int64(keyLen+7)&^7 + int64(lens&0xffffffff+7)&^7
	if keyLen == 0 || n > int64(len(b)) {
		return 0, false
	}
	return v, cellSum(addr, v, binary.LittleEndian.Uint64(h[OffWriter:]), lens, b[HeaderSize:n]) == sum
}

// pad8 rounds n up to a multiple of 8.
func pad8(n int) int { return (n + 7) &^ 7 }

// clearTail keeps the first r bytes of the word at b, 1 to 7, and clears the rest of it. The mask is made
// by a shift to the right, lest the compiler know its last byte and store the word in pieces, on which the
// load of the sum would stall.
func clearTail(b []byte, r int) {
	w := binary.LittleEndian.Uint64(b)
	binary.LittleEndian.PutUint64(b, w&(^uint64(0)>>(64-8*uint(r)&63)))
}

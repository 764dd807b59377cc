package layout

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Tuple keys: fields appended one after the other, such that bytes.Compare of two encodings is the order of
// the tuples, field by field, a shorter tuple before the longer ones it is a prefix of. Both tuples must
// have the same types in the same places; the encoding carries none.
//
// Integers are big-endian, signed ones with the sign bit flipped. Strings are escaped as in FoundationDB's
// tuple layer, 0x00 becoming 0x00 0xFF, and end with 0x00 0x01. FoundationDB ends them with a bare 0x00,
// which needs a type byte below 0xFF to follow; here an integer may follow that begins with 0xFF. The second
// byte is not 0x00, so that zeros, the padding of keys, end nothing.

const (
	keyEscape     = 0x00
	keyEscapedNul = 0xFF
	keyTerminator = 0x01

	signBit = 1 << 63
)

// ErrBadKey: the bytes are no encoding of the field asked for. It is wrapped with the reason.
var ErrBadKey = errors.New("layout: bad key")

// AppendUint32 appends a field of 4 bytes to a key.
func AppendUint32(dst []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(dst, v) }

// AppendUint64 appends a field of 8 bytes to a key.
func AppendUint64(dst []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(dst, v) }

// AppendInt64 appends a field of 8 bytes to a key.
func AppendInt64(dst []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(v)^signBit)
}

// AppendString appends a field to a key: the string, one byte more for each of its zero bytes, and two.
func AppendString(dst []byte, s string) []byte { return appendEscaped(dst, s) }

// AppendBytes appends a field to a key, encoded as by AppendString.
func AppendBytes(dst, s []byte) []byte { return appendEscaped(dst, s) }

func appendEscaped[T string | []byte](dst []byte, s T) []byte {
	for i := range len(s) {
		dst = append(dst, s[i])
		if s[i] == keyEscape {
			dst = append(dst, keyEscapedNul)
		}
	}
	return append(dst, keyEscape, keyTerminator)
}

// DecodeUint32 takes the first field off a key, and returns it and the rest.
func DecodeUint32(b []byte) (v uint32, rest []byte, err error) {
	if len(b) < 4 {
		return 0, b, shortKey("uint32", 4, b)
	}
	return binary.BigEndian.Uint32(b), b[4:], nil
}

// DecodeUint64 takes the first field off a key, and returns it and the rest.
func DecodeUint64(b []byte) (v uint64, rest []byte, err error) {
	if len(b) < 8 {
		return 0, b, shortKey("uint64", 8, b)
	}
	return binary.BigEndian.Uint64(b), b[8:], nil
}

// DecodeInt64 takes the first field off a key, and returns it and the rest.
func DecodeInt64(b []byte) (v int64, rest []byte, err error) {
	if len(b) < 8 {
		return 0, b, shortKey("int64", 8, b)
	}
	return int64(binary.BigEndian.Uint64(b) ^ signBit), b[8:], nil
}

// DecodeString takes the first field off a key, and returns it and the rest.
func DecodeString(b []byte) (s string, rest []byte, err error) {
	v, rest, err := DecodeBytes(nil, b)
	return string(v), rest, err
}

// DecodeBytes takes the first field off a key, appends it to dst, and returns that and the rest of the key.
// On an error both are returned as they were.
func DecodeBytes(dst, b []byte) (v, rest []byte, err error) {
	v = dst
	for i := 0; i < len(b); i++ {
		if b[i] != keyEscape {
			v = append(v, b[i])
			continue
		}
		i++
		if i == len(b) {
			break
		}
		switch b[i] {
		case keyEscapedNul:
			v = append(v, 0)
		case keyTerminator:
			return v, b[i+1:], nil
		default:
			return dst, b, fmt.Errorf("%w: byte %#02x behind a zero at %d of a string, want 0xff (a zero) or 0x01 (the end)", ErrBadKey, b[i], i-1)
		}
	}
	return dst, b, fmt.Errorf("%w: string of %d bytes has no end", ErrBadKey, len(b))
}

func shortKey(field string, want int, b []byte) error {
	return fmt.Errorf("%w: %d bytes left, a %s has %d", ErrBadKey, len(b), field, want)
}

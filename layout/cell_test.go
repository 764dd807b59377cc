package layout

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// The fields of a header fill it without gap or overlap, and the sizes are those of the design.
var (
	_ = [1]struct{}{}[OffLock]
	_ = [1]struct{}{}[OffVersion-OffLock-8]
	_ = [1]struct{}{}[OffWriter-OffVersion-8]
	_ = [1]struct{}{}[OffSum-OffWriter-8]
	_ = [1]struct{}{}[OffValueLen-OffSum-8]
	_ = [1]struct{}{}[OffKeyLen-OffValueLen-4]
	_ = [1]struct{}{}[OffKind-OffKeyLen-2]
	_ = [1]struct{}{}[HeaderSize-OffKind-2]
	_ = [1]struct{}{}[HeaderSize-40]
	_ = [1]struct{}{}[CellAlign-64]
	_ = [1]struct{}{}[MaxKeySize%8]
	_ = [math.MaxUint16 - MaxKeySize]struct{}{}
	_ = [1]struct{}{}[BucketHeaderImage-56]
	_ = [BucketHeaderSize - BucketHeaderImage]struct{}{}
)

const testAddr = Addr(3<<48 | 0x1f40)

func TestSizes(t *testing.T) {
	for _, c := range []struct{ key, value, image, slot int }{
		{0, 0, 40, 64},
		{8, 16, 64, 64},
		{1, 1, 56, 64},
		{8, 17, 72, 128},
		{9, 16, 72, 128},
		{0, 24, 64, 64},
		{MaxKeySize, MaxValueSize, 40 + MaxKeySize + MaxValueSize, 1<<30 + 1<<16 + 64},
	} {
		if i, s := ImageSize(c.key, c.value), SlotSize(c.key, c.value); i != c.image || s != c.slot {
			t.Errorf("key %d, value %d: image %d, slot %d, want %d, %d", c.key, c.value, i, s, c.image, c.slot)
		}
	}
}

func TestCellRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for keyLen := range 40 {
		for valueLen := range 80 {
			key, value := randomBytes(rng, keyLen), randomBytes(rng, valueLen)
			slot := SlotSize(keyLen, valueLen)
			b := randomBytes(rng, slot)
			tail := bytes.Clone(b[ImageSize(keyLen, valueLen):])
			v := Version(rng.Uint64())
			n := EncodeCell(b, testAddr, v, 99, KindRecord, key, value)
			if n != ImageSize(keyLen, valueLen) || n%8 != 0 {
				t.Fatalf("image of %d bytes", n)
			}
			if !bytes.Equal(b[n:], tail) {
				t.Fatal("bytes behind the image changed")
			}
			if s := Verify(b, testAddr, slot); s != Valid {
				t.Fatalf("key %d, value %d: %v", keyLen, valueLen, s)
			}
			want := Header{Version: v, Writer: 99, Sum: binary.LittleEndian.Uint64(b[24:]), ValueLen: uint32(valueLen), KeyLen: uint16(keyLen), Kind: KindRecord}
			if h := ReadHeader(b); h != want {
				t.Fatalf("header %+v, want %+v", h, want)
			}
			if Lock(b) != 0 || CellVersion(b) != v || Writer(b) != 99 || KeyLen(b) != keyLen || ValueLen(b) != valueLen || CellKind(b) != KindRecord {
				t.Fatal("an accessor differs from ReadHeader")
			}
			if k, v := Key(b), Value(b); !bytes.Equal(k, key) || !bytes.Equal(v, value) || cap(k) != keyLen || cap(v) != valueLen {
				t.Fatalf("key %x (cap %d), value %x (cap %d), want %x, %x", k, cap(k), v, cap(v), key, value)
			}
			pad := append(bytes.Clone(b[HeaderSize+keyLen:HeaderSize+pad8(keyLen)]), b[n-pad8(valueLen)+valueLen:n]...)
			if !allZero(pad) {
				t.Fatalf("padding %x", pad)
			}
		}
	}
}

func TestEncodeCellOverItsOwnKeyAndValue(t *testing.T) {
	for _, c := range []struct{ key, value string }{
		{"a key", "a value of some length"},
		{"an8bytes", "a value of 16 by"},
		{"an8bytes", "a value of some length"},
		{"", ""},
	} {
		want := make([]byte, 128)
		EncodeCell(want, testAddr, 5, 6, KindRecord, []byte(c.key), []byte(c.value))

		dirty := func(b []byte) {
			if r := len(c.key) % 8; r != 0 {
				b[HeaderSize+pad8(len(c.key))-1] = 0xee
			}
			if r := len(c.value) % 8; r != 0 {
				b[ImageSize(len(c.key), len(c.value))-1] = 0xee
			}
		}
		got := make([]byte, 128)
		EncodeCell(got, testAddr, 1, 2, KindBucket, []byte(c.key), []byte(c.value))
		dirty(got)
		EncodeCell(got, testAddr, 5, 6, KindRecord, Key(got), Value(got))
		if !bytes.Equal(got, want) {
			t.Errorf("got  %x\nwant %x", got, want)
		}

		copy(got, bytes.Repeat([]byte{0xee}, HeaderSize))
		dirty(got)
		SealCell(got, testAddr, 5, 6, KindRecord, len(c.key), len(c.value))
		if !bytes.Equal(got, want) {
			t.Errorf("sealed %x\nwant   %x", got, want)
		}
	}
}

func TestEncodeCellPanicsRatherThanWriteBehindItsBuffer(t *testing.T) {
	backing := make([]byte, 128)
	mustPanic(t, func() { EncodeCell(backing[:63], testAddr, 1, 1, KindRecord, make([]byte, 8), make([]byte, 16)) })
	mustPanic(t, func() { SealCell(backing[:63], testAddr, 1, 1, KindRecord, 8, 16) })
	mustPanic(t, func() { EncodeBucketHeader(backing[:BucketHeaderImage-1], testAddr, 1, 1, 0, 1) })
	if !allZero(backing) {
		t.Error("something was written")
	}
	mustPanic(t, func() { SealCell(make([]byte, 1<<17), testAddr, 1, 1, KindRecord, MaxKeySize+1, 0) })
	mustPanic(t, func() { SealCell(backing, testAddr, 1, 1, KindRecord, 0, MaxValueSize+1) })
	mustPanic(t, func() { SealCell(backing, testAddr, 1, 1, KindRecord, -8, 0) })
}

func TestVerifyHoldsWithAndWithoutPendingAndWhoeverLocks(t *testing.T) {
	b := make([]byte, 64)
	EncodeCell(b, testAddr, 5|Pending, 6, KindRecord, make([]byte, 8), make([]byte, 16))
	binary.LittleEndian.PutUint64(b[OffLock:], 0xdead)
	if s := Verify(b, testAddr, 64); s != Valid {
		t.Error(s)
	}
	binary.LittleEndian.PutUint64(b[OffVersion:], 5)
	if s := Verify(b, testAddr, 64); s != Valid {
		t.Error(s)
	}
}

func TestVerifyFindsEveryFlippedBit(t *testing.T) {
	b := make([]byte, 128)
	n := EncodeCell(b, testAddr, 5, 6, KindRecord, []byte("a key"), []byte("a value of some length"))
	for bit := OffVersion * 8; bit < n*8; bit++ {
		if bit == OffVersion*8+63 { // pending
			continue
		}
		b[bit/8] ^= 1 << (bit % 8)
		if s := Verify(b, testAddr, 128); s != Torn {
			t.Errorf("bit %d flipped: %v", bit, s)
		}
		b[bit/8] ^= 1 << (bit % 8)
	}
	for bit := range 64 {
		if s := Verify(b, testAddr^1<<bit, 128); s != Torn {
			t.Errorf("read from an address that differs in bit %d: %v", bit, s)
		}
	}
}

func TestVerifyShortBuffers(t *testing.T) {
	b := make([]byte, 128)
	n := EncodeCell(b, testAddr, 5, 6, KindRecord, make([]byte, 8), make([]byte, 20))
	for l := range b {
		want := Torn
		if l >= n {
			want = Valid // the image is whole, whatever the slot
		}
		if s := Verify(b[:l:l], testAddr, 128); s != want {
			t.Errorf("%d bytes of an image of %d: %v", l, n, s)
		}
	}
	for _, slot := range []int{n - 8, 64, 0, -1, math.MinInt} {
		if s := Verify(b, testAddr, slot); s != Torn {
			t.Errorf("image of %d bytes in a slot of %d: %v", n, slot, s)
		}
	}
}

func TestVerifyVirgin(t *testing.T) {
	b := make([]byte, 128)
	for _, l := range []int{HeaderSize, 64, 128} {
		if s := Verify(b[:l], testAddr, 128); s != Virgin {
			t.Errorf("%d zeros: %v", l, s)
		}
	}
	if s := Verify(b[:HeaderSize-1], testAddr, 128); s != Torn {
		t.Errorf("%d zeros: %v", HeaderSize-1, s)
	}
	binary.LittleEndian.PutUint64(b, 77)
	if s := Verify(b, testAddr, 128); s != Virgin {
		t.Errorf("a virgin cell that somebody locked: %v", s)
	}
	if CellVersion(b) != 0 || len(Key(b)) != 0 || len(Value(b)) != 0 || CellKind(b) != 0 {
		t.Error("a virgin cell has content")
	}
	for off := OffVersion; off < HeaderSize; off += 8 {
		b[off] = 1
		if s := Verify(b, testAddr, 128); s != Torn {
			t.Errorf("only the word at %d written: %v", off, s)
		}
		b[off] = 0
	}
}

func TestVerifyLengthsBeyondAnything(t *testing.T) {
	b := bytes.Repeat([]byte{0xff}, 256)
	for _, slot := range []int{64, 256, math.MaxInt} {
		if s := Verify(b, testAddr, slot); s != Torn {
			t.Errorf("slot %d: %v", slot, s)
		}
	}
}

// A WRITE and a READ of one slot at the same time: every line is read at some word boundary of the write,
// lines in any order. Whatever the mixture, what Verify calls valid is the old image or the new one.
func TestVerifyAcceptsNoMixture(t *testing.T) {
	const slot = 192
	type image struct {
		name string
		b    []byte
	}
	var images []image
	add := func(name string, v Version, key, value string) {
		b := make([]byte, slot)
		if v != 0 {
			EncodeCell(b, testAddr, v, uint64(v), KindRecord, []byte(key), []byte(value))
		}
		images = append(images, image{name, b})
	}
	long := "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
	add("virgin", 0, "", "")
	add("short", 1, "key", "value")
	add("long", 2, "key", long)
	add("long, one byte other", 3, "key", long[:99]+"x")
	add("absent", 4|Absent, "key", "")
	add("empty", 5, "", "")
	for _, old := range images {
		for _, new := range images {
			newLen := ImageSize(KeyLen(new.b), ValueLen(new.b))
			after := bytes.Clone(old.b)
			copy(after[OffVersion:newLen], new.b[OffVersion:newLen])
			for cut := range 9 * 9 * 9 {
				got := bytes.Clone(after)
				for line, c := 0, cut; line < 3; line, c = line+1, c/9 {
					// The first c%9 words were read before the write, the rest after it; and the reverse,
					// a write cut off there, with old and new changed about.
					copy(got[line*64:], old.b[line*64:line*64+c%9*8])
				}
				s := Verify(got, testAddr, slot)
				same := func(x []byte) bool {
					n := ImageSize(KeyLen(x), ValueLen(x))
					return bytes.Equal(got[OffVersion:n], x[OffVersion:n])
				}
				switch {
				case s == Torn:
				case s == Valid && (same(old.b) || same(after)):
				case s == Virgin && (CellVersion(old.b) == 0 || CellVersion(after) == 0):
				default:
					t.Fatalf("%s over %s, cut %d: %v %x", new.name, old.name, cut, s, got)
				}
			}
		}
	}
}

func TestEnumStrings(t *testing.T) {
	for _, c := range []struct {
		got  fmt.Stringer
		want string
	}{
		{KindRecord, "record"}, {KindBucket, "bucket"}, {KindCursor, "cursor"}, {KindCatalog, "catalog"},
		{KindNode, "node"}, {KindOutcome, "outcome"}, {KindStripe, "stripe"}, {Kind(0), "Kind(0)"},
		{Torn, "torn"}, {Valid, "valid"}, {Virgin, "virgin"}, {Status(9), "Status(9)"},
		{LogOpen, "open"}, {LogCommitted, "committed"}, {LogAborted, "aborted"}, {LogState(0), "LogState(0)"},
		{TableHash, "hash"}, {TableOrdered, "ordered"}, {TableKind(0), "TableKind(0)"},
		{TableLive, "live"}, {TableDropping, "dropping"}, {TableState(0), "TableState(0)"},
	} {
		if c.got.String() != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
	if KindRecord != 1 || KindStripe != 7 || LogOpen != 1 || LogAborted != 3 || TableHash != 1 || TableOrdered != 2 || TableLive != 1 || TableDropping != 2 {
		t.Error("numbers of the format changed")
	}
}

func TestCellPathAllocatesNothing(t *testing.T) {
	var sink int
	noAllocs(t, "EncodeCell", func() {
		var b [128]byte
		var key [8]byte
		var value [20]byte
		sink += EncodeCell(b[:], testAddr, 1, 2, KindRecord, key[:], value[:])
	})
	noAllocs(t, "SealCell", func() {
		var b [128]byte
		sink += SealCell(b[:], testAddr, 1, 2, KindRecord, 8, 20)
	})
	noAllocs(t, "Verify", func() {
		var b [128]byte
		sink += int(Verify(b[:], testAddr, 128)) + int(ReadHeader(b[:]).KeyLen) + len(Key(b[:])) + len(Value(b[:]))
	})
	noAllocs(t, "EncodeBucketHeader", func() {
		var b [64]byte
		sink += EncodeBucketHeader(b[:], testAddr, 1, 2, 0, 3)
		sink += int(BucketTable(b[:])) + int(BucketNext(b[:]))
	})
}

func FuzzVerify(f *testing.F) {
	b := make([]byte, 128)
	f.Add(b[:64], uint64(testAddr), 64)
	n := EncodeCell(b, testAddr, 5|Pending, 6, KindRecord, []byte("a key"), []byte("a value of some length"))
	f.Add(b, uint64(testAddr), 128)
	f.Add(b[:n], uint64(testAddr), 128)
	f.Add(b[:n-1], uint64(testAddr), 128)
	f.Add(bytes.Repeat([]byte{0xff}, 64), uint64(0), math.MaxInt)
	f.Fuzz(func(t *testing.T, b []byte, addr uint64, slot int) {
		before := bytes.Clone(b)
		s := Verify(b, Addr(addr), slot)
		if !bytes.Equal(b, before) {
			t.Fatal("Verify wrote")
		}
		switch s {
		case Torn:
		case Virgin:
			if !allZero(b[OffVersion:HeaderSize]) {
				t.Fatal("virgin with a header")
			}
		case Valid:
			h := ReadHeader(b)
			again := make([]byte, len(b))
			n := EncodeCell(again, Addr(addr), h.Version, h.Writer, h.Kind, Key(b), Value(b))
			if n > slot || !bytes.Equal(again[OffVersion:n], b[OffVersion:n]) {
				t.Fatalf("encoded again: %x\nwas: %x", again[:n], b)
			}
			if short := Verify(b[:n], Addr(addr), n); short != Valid {
				t.Fatalf("the image alone: %v", short)
			}
		default:
			t.Fatal(s)
		}
	})
}

func FuzzCell(f *testing.F) {
	f.Add(uint64(testAddr), uint64(7), uint64(8), uint16(1), []byte("key"), []byte("value"), uint(99))
	f.Fuzz(func(t *testing.T, addr, v, writer uint64, kind uint16, key, value []byte, flip uint) {
		if len(key) > MaxKeySize || uint64(kind) == 0 {
			return
		}
		slot := SlotSize(len(key), len(value))
		b := make([]byte, slot)
		n := EncodeCell(b, Addr(addr), Version(v), writer, Kind(kind), key, value)
		if s := Verify(b, Addr(addr), slot); s != Valid {
			t.Fatal(s)
		}
		if !bytes.Equal(Key(b), key) || !bytes.Equal(Value(b), value) {
			t.Fatal("key or value differ")
		}
		bit := OffVersion*8 + flip%uint((n-OffVersion)*8)
		if bit == OffVersion*8+63 {
			return
		}
		b[bit/8] ^= 1 << (bit % 8)
		if s := Verify(b, Addr(addr), slot); s != Torn {
			t.Fatalf("bit %d flipped: %v", bit, s)
		}
	})
}

func BenchmarkEncodeCell(b *testing.B) {
	for _, size := range []struct{ key, value int }{{8, 16}, {8, 64}, {8, 672}, {24, 100}} {
		b.Run(fmt.Sprintf("image=%d", ImageSize(size.key, size.value)), func(b *testing.B) {
			buf := make([]byte, SlotSize(size.key, size.value))
			key, value := make([]byte, size.key), make([]byte, size.value)
			v := Version(0)
			for b.Loop() {
				v++
				EncodeCell(buf, testAddr, v, 42, KindRecord, key, value)
			}
		})
	}
}

func BenchmarkVerify(b *testing.B) {
	for _, size := range []struct{ key, value int }{{8, 16}, {8, 64}, {8, 672}, {24, 100}} {
		b.Run(fmt.Sprintf("image=%d", ImageSize(size.key, size.value)), func(b *testing.B) {
			slot := SlotSize(size.key, size.value)
			buf := make([]byte, slot)
			EncodeCell(buf, testAddr, 1, 42, KindRecord, make([]byte, size.key), make([]byte, size.value))
			for b.Loop() {
				if Verify(buf, testAddr, slot) != Valid {
					b.Fatal("torn")
				}
			}
		})
	}
}

package layout

import (
	"encoding/binary"
	"testing"
)

func TestBucketGeometry(t *testing.T) {
	for _, c := range []struct{ key, value, slots, slot, size int }{
		{8, 16, 8, 64, 576},
		{8, 64, 8, 128, 1088},
		{8, 400, 8, 448, 3648},
		{8, 464, 7, 512, 3648}, // eight would be 4160
		{8, 592, 6, 640, 3904},
		{8, 1000, 3, 1088, 64 + 3*1088},
		{8, 1900, 2, 1984, 64 + 2*1984},
		{8, 4000, 2, 4096, 64 + 2*4096}, // more than 4 KiB
	} {
		g := NewBucketGeometry(c.key, c.value)
		if g.Slots != c.slots || g.SlotSize != c.slot || g.BucketSize() != c.size {
			t.Errorf("key %d, value %d: %+v of %d bytes, want %d slots of %d, %d bytes", c.key, c.value, g, g.BucketSize(), c.slots, c.slot, c.size)
		}
	}
	for value := range 10_000 {
		g := NewBucketGeometry(8, value)
		if g.Slots < 2 || g.Slots > 8 || g.SlotSize%64 != 0 || g.BucketSize()%64 != 0 || (g.BucketSize() > 4096 && g.Slots > 2) {
			t.Fatalf("value %d: %+v", value, g)
		}
		if g.Slots < 8 && g.BucketSize()+g.SlotSize <= 4096 {
			t.Fatalf("value %d: %+v, one more would fit", value, g)
		}
	}
}

func TestSlotOf(t *testing.T) {
	g := BucketGeometry{Slots: 3, SlotSize: 128}
	starts := map[uint64]int{}
	for i := range g.Slots {
		starts[uint64(g.SlotOffset(i))] = i
	}
	for off := range uint64(g.BucketSize() + 256) {
		want, wantOK := starts[off]
		if i, ok := g.SlotOf(off); i != want || ok != wantOK {
			t.Errorf("SlotOf(%d) = %d, %v", off, i, ok)
		}
	}
	if _, ok := g.SlotOf(1<<64 - 64); ok {
		t.Error("a slot at the end of the world")
	}
	if _, ok := (BucketGeometry{}).SlotOf(64); ok {
		t.Error("a slot of no size")
	}
}

func TestBucketHeader(t *testing.T) {
	b := make([]byte, BucketHeaderSize)
	next := MakeAddr(3, 0x8000)
	if n := EncodeBucketHeader(b, testAddr, 9, 8, next, 5); n != BucketHeaderImage {
		t.Errorf("image of %d bytes", n)
	}
	if s := Verify(b, testAddr, BucketHeaderSize); s != Valid {
		t.Fatal(s)
	}
	if BucketNext(b) != next || BucketTable(b) != 5 || CellKind(b) != KindBucket || KeyLen(b) != 0 || len(Value(b)) != 16 {
		t.Errorf("next %v, table %d, kind %v", BucketNext(b), BucketTable(b), CellKind(b))
	}
}

// The first write of a header races with a READ of its line, which takes the header's words before it and
// the value's after it.
func TestVirginBucketHeaderLeadsNowhere(t *testing.T) {
	b := make([]byte, BucketHeaderSize)
	binary.LittleEndian.PutUint64(b[40:], uint64(testAddr))
	binary.LittleEndian.PutUint64(b[48:], 5)
	if s := Verify(b, testAddr, BucketHeaderSize); s != Virgin {
		t.Fatal(s)
	}
	if BucketNext(b) != 0 || BucketTable(b) != 0 {
		t.Errorf("next %v, table %d", BucketNext(b), BucketTable(b))
	}
}

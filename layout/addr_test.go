package layout

import (
	"math"
	"testing"
)

func TestAddrParts(t *testing.T) {
	for _, c := range []struct {
		shard uint16
		off   uint64
		word  uint64
		text  string
	}{
		{0, 0, 0, "none"},
		{0, 64, 64, "0:0x40"},
		{3, 0x1f40, 3<<48 | 0x1f40, "3:0x1f40"},
		{7, 0, 7 << 48, "7:0x0"},
		{math.MaxUint16, MaxOffset, math.MaxUint64, "65535:0xffffffffffff"},
	} {
		a := MakeAddr(c.shard, c.off)
		if uint64(a) != c.word || a.Shard() != c.shard || a.Offset() != c.off || a.String() != c.text {
			t.Errorf("MakeAddr(%d, %#x) = %#x, shard %d, offset %#x, %q", c.shard, c.off, uint64(a), a.Shard(), a.Offset(), a)
		}
	}
}

func TestMakeAddrRefusesAnOffsetThatWouldSpillIntoTheShard(t *testing.T) {
	mustPanic(t, func() { MakeAddr(1, MaxOffset+1) })
}

func mustPanic(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Helper()
			t.Error("no panic")
		}
	}()
	f()
}

package layout

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

var (
	_ = [1]struct{}{}[len(RegionMagic)-8]
	_ = [1]struct{}{}[offRegSum+8-regionUsed]
	_ = [RegionHeaderSize - regionUsed]struct{}{}
)

func sampleRegion() RegionHeader {
	return RegionHeader{
		ClusterID:       0x1122334455667788,
		NodeID:          2,
		Nodes:           3,
		Replicas:        3,
		Shards:          8,
		Epoch:           9,
		RegionSize:      1 << 30,
		ExtentOffset:    32 << 20,
		ExtentSize:      64 << 20,
		Extents:         8,
		LogOffset:       8192,
		LogSlotSize:     16384,
		LogSlots:        2,
		Sessions:        16,
		Coordinators:    32,
		HeartbeatOffset: 4096,
		HeartbeatSize:   4096,
	}
}

func TestRegionHeaderRoundTrip(t *testing.T) {
	want := sampleRegion()
	b := randomBytes(rand.New(rand.NewPCG(23, 24)), RegionHeaderSize+8)
	last := [8]byte(b[RegionHeaderSize:])
	want.Encode(b)
	if [8]byte(b[RegionHeaderSize:]) != last || !allZero(b[regionUsed:RegionHeaderSize]) {
		t.Error("the page is not cleared, or more than it")
	}
	got, err := DecodeRegionHeader(b)
	if err != nil || got != want {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	mustPanic(t, func() { want.Encode(b[:RegionHeaderSize-1]) })
}

func TestRegionOffsets(t *testing.T) {
	h := sampleRegion()
	if got := h.LogBytes(); got != 32*16*2*16384 {
		t.Error(got)
	}
	next := h.LogOffset
	for c := range int(h.Coordinators) {
		for s := range int(h.Sessions) {
			for l := range int(h.LogSlots) {
				if got := h.LogSlotAt(c, s, l); got != next {
					t.Fatalf("slot %d of session %d of coordinator %d at %#x, want %#x", l, s, c, got, next)
				}
				next += h.LogSlotSize
			}
		}
	}
	if next != h.LogOffset+h.LogBytes() {
		t.Error("the slots do not fill the log area")
	}
	if h.ExtentAt(0) != 32<<20 || h.ExtentAt(7) != 32<<20+7*64<<20 {
		t.Error(h.ExtentAt(0), h.ExtentAt(7))
	}
}

func TestRegionHeaderErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		mutate func(h *RegionHeader)
		field  string
		says   []string
	}{
		{"no nodes", func(h *RegionHeader) { h.Nodes = 0 }, "nodes", []string{"0", "1 or more"}},
		{"no replicas", func(h *RegionHeader) { h.Replicas = 0 }, "replicas", []string{"1 to 3"}},
		{"more replicas than nodes", func(h *RegionHeader) { h.Replicas = 4 }, "replicas", []string{"4", "1 to 3"}},
		{"no shards", func(h *RegionHeader) { h.Shards = 0 }, "shards", nil},
		{"more extents than shards", func(h *RegionHeader) { h.Extents = 9 }, "extents", []string{"9", "8 at most"}},
		{"extent of no size", func(h *RegionHeader) { h.ExtentSize = 0 }, "extent size", nil},
		{"unaligned extent", func(h *RegionHeader) { h.ExtentSize++ }, "extent size", []string{"67108865", "multiple of 64"}},
		{"extent beyond an address", func(h *RegionHeader) { h.ExtentSize = 1<<48 + 64 }, "extent size", nil},
		{"log slot without a header", func(h *RegionHeader) { h.LogSlotSize = 0 }, "log slot size", nil},
		{"unaligned log slot", func(h *RegionHeader) { h.LogSlotSize = 1000 }, "log slot size", []string{"1000"}},
		{"giant log slot", func(h *RegionHeader) { h.LogSlotSize = 1 << 32 }, "log slot size", nil},
		{"no log slots", func(h *RegionHeader) { h.LogSlots = 0 }, "log slots per session", nil},
		{"no sessions", func(h *RegionHeader) { h.Sessions = 0 }, "sessions per coordinator", nil},
		{"no coordinators", func(h *RegionHeader) { h.Coordinators = 0 }, "coordinators", nil},
		{"log in the header", func(h *RegionHeader) { h.LogOffset = 64 }, "log offset", []string{"0x40", "header area"}},
		{"unaligned log", func(h *RegionHeader) { h.LogOffset++ }, "log offset", nil},
		{"log beyond the end", func(h *RegionHeader) { h.LogOffset = 1 << 30 }, "log area", []string{"0x40000000"}},
		{"log that wraps", func(h *RegionHeader) {
			h.LogSlotSize = 1 << 31
			h.LogSlots, h.Sessions, h.Coordinators = 1<<15, 1<<15, 8
		}, "log area", nil},
		{"offset that wraps", func(h *RegionHeader) { h.ExtentOffset = 1<<64 - 64 }, "extent area", nil},
		{"extents in the log", func(h *RegionHeader) { h.ExtentOffset = 1 << 20 }, "extent offset", []string{"0x100000", "log area"}},
		{"extents beyond the end", func(h *RegionHeader) { h.RegionSize = 1 << 29 }, "extent area", []string{"0x20000000"}},
		{"heartbeats in the log", func(h *RegionHeader) { h.HeartbeatSize += 64 }, "heartbeat offset", nil},
		{"region smaller than its header", func(h *RegionHeader) { h.RegionSize = 100 }, "header area", nil},
	} {
		h := sampleRegion()
		c.mutate(&h)
		b := make([]byte, RegionHeaderSize)
		h.Encode(b)
		_, err := DecodeRegionHeader(b)
		checkRegionError(t, c.name, err, c.field, c.says)
	}
	h := sampleRegion()
	h.HeartbeatOffset, h.HeartbeatSize = 0, 0
	if err := h.Validate(); err != nil {
		t.Errorf("no heartbeats: %v", err)
	}
	h.Extents = 0
	if err := h.Validate(); err != nil {
		t.Errorf("a node without extents: %v", err)
	}
}

func TestRegionHeaderDamage(t *testing.T) {
	h := sampleRegion()
	for _, c := range []struct {
		name   string
		mutate func(b []byte)
		field  string
		says   []string
	}{
		{"other magic", func(b []byte) { copy(b, "RIFF") }, "magic", []string{`"RIFFD\x00\x00\x01"`, `"FJORD\x00\x00\x01"`}},
		{"other version", func(b []byte) { b[8] = 9 }, "layout version", []string{"9", "want 1"}},
		{"bad sum", func(b []byte) { b[offRegSum] ^= 1 }, "sum", []string{"damaged"}},
		{"bad field", func(b []byte) { b[offRegEpoch] ^= 1 }, "sum", nil},
		{"reserved", func(b []byte) {
			b[offRegReserved2] = 1
			binary.LittleEndian.PutUint64(b[offRegSum:], Sum64(b[:offRegSum]))
		}, "reserved", nil},
	} {
		b := make([]byte, RegionHeaderSize)
		h.Encode(b)
		c.mutate(b)
		_, err := DecodeRegionHeader(b)
		checkRegionError(t, c.name, err, c.field, c.says)
	}
	_, err := DecodeRegionHeader(make([]byte, 100))
	checkRegionError(t, "short buffer", err, "buffer", []string{"100 bytes", "112"})
	if _, err := DecodeRegionHeader(make([]byte, RegionHeaderSize)); !errors.Is(err, ErrRegionUnformatted) {
		t.Errorf("zeros: %v", err)
	}
}

func checkRegionError(t *testing.T, name string, err error, field string, says []string) {
	t.Helper()
	var re *RegionError
	if !errors.As(err, &re) || re.Field != field {
		t.Errorf("%s: %v, want an error of field %q", name, err, field)
		return
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%s: %v, does not say %q", name, err, s)
		}
	}
}

func FuzzDecodeRegionHeader(f *testing.F) {
	h := sampleRegion()
	b := make([]byte, RegionHeaderSize)
	h.Encode(b)
	f.Add(b[:regionUsed], false)
	f.Add(b[:regionUsed], true)
	f.Add(make([]byte, regionUsed), true)
	f.Fuzz(func(t *testing.T, b []byte, reseal bool) {
		if reseal && len(b) >= regionUsed {
			copy(b, RegionMagic)
			binary.LittleEndian.PutUint32(b[offRegLayout:], LayoutVersion)
			binary.LittleEndian.PutUint64(b[offRegSum:], Sum64(b[:offRegSum]))
		}
		h, err := DecodeRegionHeader(b)
		if err != nil {
			return
		}
		again := make([]byte, RegionHeaderSize)
		h.Encode(again)
		if string(again[:regionUsed]) != string(b[:regionUsed]) {
			t.Fatalf("encoded again: %x\nwas: %x", again[:regionUsed], b)
		}
		if end := h.LogOffset + h.LogBytes(); end > h.RegionSize || end < h.LogOffset {
			t.Fatalf("log area ends at %#x of %#x", end, h.RegionSize)
		}
		if end := h.ExtentAt(int(h.Extents)); end > h.RegionSize || end < h.ExtentOffset {
			t.Fatalf("extents end at %#x of %#x", end, h.RegionSize)
		}
	})
}

package layout

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew; a change of one is a new LayoutVersion")

// golden compares b with testdata/name.hex and returns what stands there: 16 bytes a line, behind their
// offset; lines that begin with # are comments.
func golden(t *testing.T, name, comment string, b []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", name+".hex")
	if *update {
		var s strings.Builder
		fmt.Fprintf(&s, "# %s\n", comment)
		for off := 0; off < len(b); off += 16 {
			fmt.Fprintf(&s, "%04x  % x\n", off, b[off:min(off+16, len(b))])
		}
		if err := os.WriteFile(path, []byte(s.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var want []byte
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		x, err := hex.DecodeString(strings.Join(fields[1:], ""))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		want = append(want, x...)
	}
	if !bytes.Equal(b, want) {
		t.Errorf("%s: the format has changed\ngot:\n%swant:\n%s", path, hex.Dump(b), hex.Dump(want))
	}
	return want
}

func TestGoldenCells(t *testing.T) {
	for _, c := range []struct {
		name, comment string
		v             Version
		kind          Kind
		key, value    string
	}{
		{"cell_record", "record at 3:0x1f40, version 7, writer 0x0001000200000003, key 8 bytes, value 16", 7, KindRecord, "accounts", "0123456789abcdef"},
		{"cell_pending", "the same, pending: only the version word differs", 7 | Pending, KindRecord, "accounts", "0123456789abcdef"},
		{"cell_absent", "deleted record, version 8 with absent", 8 | Absent, KindRecord, "accounts", ""},
		{"cell_padded", "outcome with an odd key and an odd value", 9, KindOutcome, "k", "a value of twenty-six bytes"[:26]},
	} {
		slot := SlotSize(len(c.key), len(c.value))
		b := make([]byte, slot)
		n := EncodeCell(b, testAddr, c.v, 0x0001000200000003, c.kind, []byte(c.key), []byte(c.value))
		want := golden(t, c.name, c.comment, b[:n])
		if s := Verify(want, testAddr, slot); s != Valid {
			t.Errorf("%s: %v", c.name, s)
		} else if CellVersion(want) != c.v || CellKind(want) != c.kind || string(Key(want)) != c.key || string(Value(want)) != c.value {
			t.Errorf("%s: %+v, %q, %q", c.name, ReadHeader(want), Key(want), Value(want))
		}
	}
}

func TestGoldenBucketHeader(t *testing.T) {
	b := make([]byte, BucketHeaderSize)
	next := MakeAddr(3, 0x8000)
	n := EncodeBucketHeader(b, testAddr, 7, 0x0001000200000003, next, 5)
	b = golden(t, "bucket_header", "bucket header at 3:0x1f40, version 7, next 3:0x8000, table 5", b[:n])
	if Verify(b, testAddr, BucketHeaderSize) != Valid || BucketNext(b) != next || BucketTable(b) != 5 {
		t.Errorf("next %v, table %d", BucketNext(b), BucketTable(b))
	}
}

func TestGoldenLog(t *testing.T) {
	image := make([]byte, 64)
	EncodeCell(image, testAddr, 7, 0x0001000200000003, KindRecord, []byte("accounts"), []byte("0123456789abcdef"))
	virgin := make([]byte, HeaderSize)
	cells := []LogCell{{testAddr, 7, 9}, {MakeAddr(4, 0x40), 8, 9 | Absent}, {MakeAddr(5, 0x80), 0, 9}}
	images := []testImage{{0, image}, {2, virgin}}
	b := buildLog(t, make([]byte, 1024), 0x0001000200000004, 5, cells, images)
	b = golden(t, "log_entry", "open entry of token 0x0001000200000004, epoch 5: three cells, images of the first and the last (virgin)", b)
	e, err := DecodeLog(b)
	if err != nil {
		t.Fatal(err)
	}
	checkLog(t, &e, 0x0001000200000004, 5, cells, images)
}

func TestGoldenRegionHeader(t *testing.T) {
	h := sampleRegion()
	b := make([]byte, RegionHeaderSize)
	h.Encode(b)
	b = golden(t, "region_header", "region header; the rest of the page is zero", b[:regionUsed])
	if got, err := DecodeRegionHeader(b); err != nil || got != h {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestGoldenTableMeta(t *testing.T) {
	m := sampleTable()
	b := make([]byte, TableMetaSize(len(m.Extents)))
	if _, err := m.Encode(b); err != nil {
		t.Fatal(err)
	}
	b = golden(t, "table_meta", "hash table 7 with extents in two shards", b)
	if got, err := DecodeTableMeta(b); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestGoldenCursors(t *testing.T) {
	f := freeList(t, Range{4096, 8192}, Range{1 << 20, 1 << 30})
	b := make([]byte, FreeListSize)
	f.Encode(b)
	b = golden(t, "free_list", "free list of two ranges", b)
	var got FreeList
	if err := got.Decode(b); err != nil || got != *f {
		t.Errorf("%v, %v", got.Ranges(), err)
	}

	c := OverflowCursor{NextFresh: 5, Limit: 10, FreeHead: testAddr, FreeCount: 2}
	b = make([]byte, OverflowCursorSize)
	c.Encode(b)
	b = golden(t, "overflow_cursor", "5 of 10 overflow buckets used, 2 given back, the first at 3:0x1f40", b)
	if got, err := DecodeOverflowCursor(b); err != nil || got != c {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestGoldenKey(t *testing.T) {
	x := tuple{A: 1, S: "a\x00b", I: -2, B: []byte{0xff}, C: 3}
	b := golden(t, "key_tuple", `uint64 1, string "a\x00b", int64 -2, bytes ff, uint32 3`, x.encode())
	if y, rest, err := decodeTuple(b); err != nil || len(rest) != 0 || x.compare(y) != 0 {
		t.Errorf("%+v, %x, %v", y, rest, err)
	}
}

func TestGoldenHashes(t *testing.T) {
	var b []byte
	for _, h := range []uint64{
		HashKey(0, nil), HashKey(1, nil), HashKey(1, []byte("accounts")), HashKey(1<<32-1, []byte("accounts")),
		HashKey(1, []byte("a key that is longer than one stripe of 32 bytes")),
	} {
		b = AppendUint64(b, h)
	}
	golden(t, "hash_key", "HashKey, big-endian: (0, empty) (1, empty) (1, accounts) (2^32-1, accounts) (1, a long key)", b)
}

package layout

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func sampleTable() TableMeta {
	return TableMeta{
		ID: 7, KeySize: 8, ValueSize: 16, Capacity: 1 << 20,
		Kind: TableHash, State: TableLive,
		Slots: 8, SlotSize: 64, Buckets: 1 << 15, OverflowBuckets: 1 << 12,
		Extents: []Extent{{Shard: 0, Off: 4096, Len: 1 << 24}, {Shard: 1, Off: 8192, Len: 1 << 24}},
	}
}

func TestTableMetaRoundTrip(t *testing.T) {
	for n := range 5 {
		want := sampleTable()
		want.Extents = nil
		for i := range n {
			want.Extents = append(want.Extents, Extent{Shard: uint16(i), Off: uint64(i) << 20, Len: 1 << 20})
		}
		b := bytes.Repeat([]byte{0xee}, 200)
		size, err := want.Encode(b)
		if err != nil || size != TableMetaSize(n) || b[size] != 0xee {
			t.Fatalf("%d bytes, %v", size, err)
		}
		got, err := DecodeTableMeta(b[:size])
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, %v\nwant %+v", got, err, want)
		}
		if _, err := DecodeTableMeta(append(bytes.Clone(b[:size]), make([]byte, 100)...)); err != nil {
			t.Errorf("in a larger value: %v", err)
		}
		if _, err := DecodeTableMeta(b[:size+1]); !errors.Is(err, ErrBadCatalog) {
			t.Errorf("with dirt behind it: %v", err)
		}
		for l := range size {
			if _, err := DecodeTableMeta(b[:l]); !errors.Is(err, ErrBadCatalog) {
				t.Errorf("%d of %d bytes: %v", l, size, err)
			}
			if _, err := want.Encode(make([]byte, l)); !errors.Is(err, ErrBadCatalog) {
				t.Errorf("into %d of %d bytes: %v", l, size, err)
			}
		}
	}
	table := sampleTable()
	if g := table.Geometry(); g != NewBucketGeometry(8, 16) {
		t.Error(g)
	}
}

func TestTableMetaErrors(t *testing.T) {
	for _, c := range []struct {
		says   string
		mutate func(m *TableMeta)
	}{
		{"table kind is 3", func(m *TableMeta) { m.Kind = 3 }},
		{"table state is 0", func(m *TableMeta) { m.State = 0 }},
		{"key size is 65529", func(m *TableMeta) { m.KeySize = MaxKeySize + 1 }},
		{"value size is 1073741825", func(m *TableMeta) { m.ValueSize = MaxValueSize + 1 }},
		{"slot size is 65", func(m *TableMeta) { m.SlotSize = 65 }},
		{"extent 1", func(m *TableMeta) { m.Extents[1].Off = 1 }},
		{"extent 1", func(m *TableMeta) { m.Extents[1].Len = 1 }},
		{"extent 1", func(m *TableMeta) { m.Extents[1].Off = 1 << 48 }},
		{"extent 1", func(m *TableMeta) { m.Extents[1].Len = 1 << 48 }},
		{"65536 extents", func(m *TableMeta) { m.Extents = make([]Extent, 65536) }},
	} {
		m := sampleTable()
		c.mutate(&m)
		if _, err := m.Encode(make([]byte, 1<<21)); !errors.Is(err, ErrBadCatalog) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("want an error that says %q, got %v", c.says, err)
		}
	}
	m := sampleTable()
	b := make([]byte, TableMetaSize(2))
	if _, err := m.Encode(b); err != nil {
		t.Fatal(err)
	}
	for _, off := range []int{12, 13, 48, 63, 66, 95} {
		bad := bytes.Clone(b)
		bad[off] = 0xee
		if _, err := DecodeTableMeta(bad); !errors.Is(err, ErrBadCatalog) {
			t.Errorf("0xee at %d: %v", off, err)
		}
	}
}

func FuzzCatalog(f *testing.F) {
	m := sampleTable()
	b := make([]byte, TableMetaSize(2))
	if _, err := m.Encode(b); err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:tableMetaHeader])
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeTableMeta(b)
		if err != nil {
			if !errors.Is(err, ErrBadCatalog) {
				t.Fatal(err)
			}
			return
		}
		again := make([]byte, len(b))
		if _, err := m.Encode(again); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("encoded again: %x, %v\nwas: %x", again, err, b)
		}
	})
}

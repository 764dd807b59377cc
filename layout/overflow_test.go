package layout

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

func TestOverflowCursorRoundTrip(t *testing.T) {
	for _, want := range []OverflowCursor{
		{},
		{Limit: 10},
		{NextFresh: 10, Limit: 10},
		{NextFresh: 5, Limit: 10, FreeHead: testAddr, FreeCount: 5},
	} {
		b := bytes.Repeat([]byte{0xee}, OverflowCursorSize)
		want.Encode(b)
		if got, err := DecodeOverflowCursor(b); err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
}

func TestOverflowCursorErrors(t *testing.T) {
	for _, c := range []OverflowCursor{
		{NextFresh: 11, Limit: 10},
		{NextFresh: 5, Limit: 10, FreeHead: testAddr},
		{NextFresh: 5, Limit: 10, FreeCount: 1},
		{NextFresh: 5, Limit: 10, FreeHead: testAddr, FreeCount: 6},
	} {
		b := make([]byte, OverflowCursorSize)
		c.Encode(b)
		if _, err := DecodeOverflowCursor(b); !errors.Is(err, ErrBadCatalog) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, n := range []int{0, 31, 33} {
		if _, err := DecodeOverflowCursor(make([]byte, n)); !errors.Is(err, ErrBadCatalog) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func FuzzOverflowCursor(f *testing.F) {
	b := make([]byte, OverflowCursorSize)
	binary.LittleEndian.PutUint64(b[8:], 10)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := DecodeOverflowCursor(b)
		if err != nil {
			return
		}
		again := make([]byte, OverflowCursorSize)
		c.Encode(again)
		if !bytes.Equal(again, b) {
			t.Fatalf("encoded again: %x\nwas: %x", again, b)
		}
	})
}

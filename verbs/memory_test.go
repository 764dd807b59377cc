package verbs_test

import (
	"errors"
	"strings"
	"testing"
	"unsafe"

	"fjord/verbs"
)

func TestMapMemory(t *testing.T) {
	for _, huge := range []verbs.HugePages{verbs.HugeTransparent, verbs.HugeNever, verbs.Huge2M, verbs.Huge1G} {
		for _, size := range []uint64{1, 4095, 4096, 4097, 2<<20 - 1, 2 << 20, 5<<20 + 3} {
			m, err := verbs.MapMemory(size, huge)
			if err != nil {
				t.Fatalf("%d bytes in %v pages: %v", size, huge, err)
			}
			b := m.Bytes()
			if uint64(len(b)) != size || uint64(cap(b)) != size {
				t.Fatalf("%d bytes in %v pages: len %d, cap %d", size, huge, len(b), cap(b))
			}
			if a := uintptr(unsafe.Pointer(&b[0])); a%4096 != 0 {
				t.Errorf("%d bytes in %v pages begin at %#x", size, huge, a)
			}
			for i := range b {
				if b[i] != 0 {
					t.Fatalf("byte %d is %d", i, b[i])
				}
			}
			for _, i := range []uint64{0, size / 2, size - 1} {
				b[i] = 0xff
			}
			if m.Fallback != nil {
				if huge != verbs.Huge2M && huge != verbs.Huge1G {
					t.Errorf("%v pages are no request that can fail: %v", huge, m.Fallback)
				}
				if s := m.Fallback.Error(); !strings.Contains(s, huge.String()) || !strings.Contains(s, "ordinary pages") {
					t.Errorf("the fallback does not say from what to what: %v", s)
				}
			}
			for range 2 {
				if err := m.Free(); err != nil {
					t.Fatal(err)
				}
				if m.Bytes() != nil {
					t.Fatal("freed memory still shows its bytes")
				}
			}
		}
	}
}

func TestMapMemoryRefusesNonsense(t *testing.T) {
	for _, size := range []uint64{0, 1<<46 + 1, 1 << 63, 1<<64 - 1} {
		if _, err := verbs.MapMemory(size, verbs.HugeTransparent); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if _, err := verbs.MapMemory(4096, verbs.Huge1G+1); !errors.Is(err, verbs.ErrInvalid) || !strings.Contains(err.Error(), "4") {
		t.Errorf("page size that does not exist: %v", err)
	}
}

func TestMappingsAreApart(t *testing.T) {
	var ms []*verbs.Memory
	for i := range 20 {
		m, err := verbs.MapMemory(10_000, verbs.HugeTransparent)
		if err != nil {
			t.Fatal(err)
		}
		for j := range m.Bytes() {
			m.Bytes()[j] = byte(i)
		}
		ms = append(ms, m)
	}
	for i, m := range ms {
		for j, c := range m.Bytes() {
			if c != byte(i) {
				t.Fatalf("byte %d of mapping %d is %d", j, i, c)
			}
		}
		if err := m.Free(); err != nil {
			t.Fatal(err)
		}
	}
}

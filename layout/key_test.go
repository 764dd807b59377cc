package layout

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/quick"
)

type tuple struct {
	A uint64
	S string
	I int64
	B []byte
	C uint32
}

func (x tuple) encode() []byte {
	b := AppendUint64(nil, x.A)
	b = AppendString(b, x.S)
	b = AppendInt64(b, x.I)
	b = AppendBytes(b, x.B)
	return AppendUint32(b, x.C)
}

func (x tuple) compare(y tuple) int {
	return cmp.Or(cmp.Compare(x.A, y.A), strings.Compare(x.S, y.S), cmp.Compare(x.I, y.I), bytes.Compare(x.B, y.B), cmp.Compare(x.C, y.C))
}

func decodeTuple(b []byte) (x tuple, rest []byte, err error) {
	if x.A, b, err = DecodeUint64(b); err != nil {
		return x, b, err
	}
	if x.S, b, err = DecodeString(b); err != nil {
		return x, b, err
	}
	if x.I, b, err = DecodeInt64(b); err != nil {
		return x, b, err
	}
	if x.B, b, err = DecodeBytes(nil, b); err != nil {
		return x, b, err
	}
	x.C, b, err = DecodeUint32(b)
	return x, b, err
}

func randomTuple(rng *rand.Rand) tuple {
	// Few values each, at the edges, so that fields are often equal and the later ones decide.
	uints := []uint64{0, 1, 255, 256, math.MaxInt64, 1 << 63, math.MaxUint64 - 1, math.MaxUint64}
	str := func() string {
		b := make([]byte, rng.IntN(4))
		for i := range b {
			b[i] = []byte{0, 1, 2, 'a', 0xfe, 0xff}[rng.IntN(6)]
		}
		return string(b)
	}
	return tuple{
		A: uints[rng.IntN(3)],
		S: str(),
		I: int64(uints[rng.IntN(len(uints))]),
		B: []byte(str()),
		C: uint32(uints[rng.IntN(len(uints))]),
	}
}

func TestKeyOrderIsTupleOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(25, 26))
	for range 200_000 {
		x, y := randomTuple(rng), randomTuple(rng)
		if got, want := bytes.Compare(x.encode(), y.encode()), x.compare(y); got != want {
			t.Fatalf("%+v and %+v compare %d, their keys %x and %x %d", x, y, want, x.encode(), y.encode(), got)
		}
	}
	if err := quick.Check(func(x, y tuple) bool { return bytes.Compare(x.encode(), y.encode()) == x.compare(y) }, nil); err != nil {
		t.Error(err)
	}
}

func TestKeyRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(27, 28))
	for range 10_000 {
		x := randomTuple(rng)
		y, rest, err := decodeTuple(append(x.encode(), "rest"...))
		if err != nil || x.compare(y) != 0 || string(rest) != "rest" {
			t.Fatalf("%+v became %+v, %q, %v", x, y, rest, err)
		}
	}
}

// A shorter tuple comes before every tuple it is a prefix of, and those lie together.
func TestKeyPrefixOrder(t *testing.T) {
	ordered := [][]byte{
		AppendUint64(AppendString(nil, ""), math.MaxUint64),
		AppendString(nil, "\x00"),
		AppendString(nil, "a"),
		AppendUint64(AppendString(nil, "a"), 0),
		AppendUint64(AppendString(nil, "a"), math.MaxUint64), // 0xff behind the end of the string
		AppendString(nil, "a\x00"),
		AppendString(nil, "a\x00\x00"),
		AppendString(nil, "a\x01"),
		AppendString(nil, "ab"),
		AppendString(nil, "a\xff"),
		AppendString(nil, "b"),
	}
	for i := 1; i < len(ordered); i++ {
		if bytes.Compare(ordered[i-1], ordered[i]) >= 0 {
			t.Errorf("%x is not before %x", ordered[i-1], ordered[i])
		}
	}
}

func TestKeyDecodeErrors(t *testing.T) {
	for n := range 8 {
		b := make([]byte, n)
		if _, rest, err := DecodeUint64(b); !errors.Is(err, ErrBadKey) || len(rest) != n {
			t.Errorf("uint64 of %d bytes: %v", n, err)
		}
		if _, rest, err := DecodeInt64(b); !errors.Is(err, ErrBadKey) || len(rest) != n {
			t.Errorf("int64 of %d bytes: %v", n, err)
		}
		if _, rest, err := DecodeUint32(b); errors.Is(err, ErrBadKey) != (n < 4) || err == nil && len(rest) != n-4 {
			t.Errorf("uint32 of %d bytes: %v", n, err)
		}
	}
	for _, s := range []string{"", "abc", "abc\x00", "abc\x00\xff", "abc\x00\x00", "abc\x00\x02\x00\x01"} {
		dst := []byte("dst")
		v, rest, err := DecodeBytes(dst, []byte(s))
		if !errors.Is(err, ErrBadKey) || string(v) != "dst" || string(rest) != s {
			t.Errorf("%q: %q, %q, %v", s, v, rest, err)
		}
	}
}

func TestKeyAllocatesNothing(t *testing.T) {
	buf := make([]byte, 0, 128)
	name := []byte("a\x00name")
	noAllocs(t, "Append", func() {
		b := AppendUint32(AppendInt64(AppendUint64(buf, 1), -1), 2)
		b = AppendBytes(AppendString(b, "name"), name)
		if len(b) > cap(buf) {
			t.Fatal("too long")
		}
	})
	out := make([]byte, 0, 128)
	key := AppendBytes(nil, name)
	noAllocs(t, "DecodeBytes", func() {
		if _, _, err := DecodeBytes(out, key); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzKeyOrder(f *testing.F) {
	f.Add(uint64(1), "a", int64(-1), []byte("b"), uint32(2), uint64(1), "a\x00", int64(1), []byte(nil), uint32(3))
	f.Fuzz(func(t *testing.T, a1 uint64, s1 string, i1 int64, b1 []byte, c1 uint32, a2 uint64, s2 string, i2 int64, b2 []byte, c2 uint32) {
		x, y := tuple{a1, s1, i1, b1, c1}, tuple{a2, s2, i2, b2, c2}
		if got, want := bytes.Compare(x.encode(), y.encode()), x.compare(y); got != want {
			t.Fatalf("%+v and %+v compare %d, their keys %d", x, y, want, got)
		}
		if z, rest, err := decodeTuple(x.encode()); err != nil || x.compare(z) != 0 || len(rest) != 0 {
			t.Fatalf("%+v became %+v, %x, %v", x, z, rest, err)
		}
	})
}

func FuzzKeyDecode(f *testing.F) {
	f.Add(tuple{1, "a\x00b", -1, []byte{0xff, 0}, 7}.encode())
	f.Add([]byte{0, 0xff, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if x, rest, err := decodeTuple(b); err == nil {
			if again := append(x.encode(), rest...); !bytes.Equal(again, b) {
				t.Fatalf("encoded again: %x\nwas: %x", again, b)
			}
		}
		if v, rest, err := DecodeBytes(nil, b); err == nil {
			if again := append(AppendBytes(nil, v), rest...); !bytes.Equal(again, b) {
				t.Fatalf("encoded again: %x\nwas: %x", again, b)
			}
		}
	})
}

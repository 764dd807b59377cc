package lock_test

import (
	"testing"

	"pgregory.net/rapid"

	"fjord/lock"
)

// Every token gives back the parts it was made of, and tokens of different parts
// differ.
func TestTokenParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type parts struct {
			coordinator, session uint16
			seq                  uint32
		}
		draw := func(name string) (parts, lock.Token) {
			p := parts{rapid.Uint16().Draw(t, name+" coordinator"), rapid.Uint16().Draw(t, name+" session"), rapid.Uint32().Draw(t, name+" sequence")}
			return p, lock.MakeToken(p.coordinator, p.session, p.seq)
		}
		p, a := draw("a")
		if got := (parts{a.Coordinator(), a.Session(), a.Sequence()}); got != p {
			t.Fatalf("token of %+v has parts %+v", p, got)
		}
		q, b := draw("b")
		if (a == b) != (p == q) {
			t.Fatalf("tokens of %+v and %+v are %v and %v", p, q, a, b)
		}
	})
}

// The layout of the word is a format: recovery and tools read it.
func TestTokenBits(t *testing.T) {
	for _, c := range []struct {
		coordinator, session uint16
		seq                  uint32
		want                 uint64
		text                 string
	}{
		{0, 0, 0, 0, "0.0.0"},
		{1, 0, 0, 1 << 48, "1.0.0"},
		{0, 1, 0, 1 << 32, "0.1.0"},
		{0, 0, 1, 1, "0.0.1"},
		{0x1234, 0x5678, 0x9abcdef0, 0x1234_5678_9abc_def0, "4660.22136.2596069104"},
		{65535, lock.LeaseSession, 1<<32 - 1, 1<<64 - 1, "65535.65535.4294967295"},
	} {
		token := lock.MakeToken(c.coordinator, c.session, c.seq)
		if uint64(token) != c.want || token.String() != c.text {
			t.Errorf("token of %d, %d, %d is %#x %q, want %#x %q", c.coordinator, c.session, c.seq, uint64(token), token, c.want, c.text)
		}
	}
}

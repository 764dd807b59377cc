package sim_test

import (
	"encoding/binary"
	"testing"

	"fjord/verbs"
	"fjord/verbs/sim"
)

// link is a client on host c and a memory node on host m, joined.
type link struct {
	t    testing.TB
	w    *sim.World
	c, m *sim.Host
	a, b *end
}

func newLink(t testing.TB, o sim.Options, turn ...func(c *verbs.ConnAttr)) *link {
	t.Helper()
	l := &link{t: t, w: newWorld(t, o)}
	l.c, l.m = host(t, l.w, "c"), host(t, l.w, "m")
	l.a, l.b = side(t, l.c, 1<<17), side(t, l.m, 1<<17)
	join(t, l.a, l.b, turn...)
	return l
}

// run runs f as a worker of the client.
func (l *link) run(f func()) {
	l.t.Helper()
	if err := l.w.RunOn(l.c, "client", f); err != nil {
		l.t.Fatal(err)
	}
}

// also adds a host with a client of the same memory.
func (l *link) also(name string) *end {
	l.t.Helper()
	a, b := side(l.t, host(l.t, l.w, name), 1<<17), *l.b
	b.newQP(l.t)
	join(l.t, a, &b)
	return a
}

func (e *end) word(off int) uint64 { return binary.NativeEndian.Uint64(e.mr.Bytes()[off:]) }

func (e *end) setWord(off int, v uint64) { binary.NativeEndian.PutUint64(e.mr.Bytes()[off:], v) }

func unsignaled(wr verbs.SendWR) verbs.SendWR {
	wr.Flags = 0
	return wr
}

// TestOvertaking: what the InfiniBand table leaves open happens, both ways, and what
// it orders does not. The second request changes what the first one reads, or the
// reverse.
func TestOvertaking(t *testing.T) {
	const rounds = 200
	for _, c := range []struct {
		name          string
		first, second verbs.Opcode
		fence         bool
		open          bool
	}{
		{"WRITE behind READ", verbs.OpRead, verbs.OpWrite, false, true},
		{"fenced WRITE behind READ", verbs.OpRead, verbs.OpWrite, true, false},
		{"CAS behind READ", verbs.OpRead, verbs.OpCAS, false, true},
		{"fenced CAS behind READ", verbs.OpRead, verbs.OpCAS, true, false},
		{"WRITE behind CAS", verbs.OpCAS, verbs.OpWrite, false, true},
		{"fenced WRITE behind CAS", verbs.OpCAS, verbs.OpWrite, true, false},
		{"READ behind WRITE", verbs.OpWrite, verbs.OpRead, false, false},
		{"READ behind CAS", verbs.OpCAS, verbs.OpRead, false, false},
		{"CAS behind WRITE", verbs.OpWrite, verbs.OpCAS, false, false},
		{"WRITE behind WRITE", verbs.OpWrite, verbs.OpWrite, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLink(t, sim.Options{Seed: 7})
			overtaken := 0
			l.run(func() {
				for range rounds {
					l.b.setWord(0, 0)
					l.a.setWord(0, 5) // what the first WRITEs, or where it reads to
					l.a.setWord(64, 6)
					one, two := l.a.wr(l.b, c.first, 0, 8, 0), l.a.wr(l.b, c.second, 64, 8, 0)
					one.Flags = 0
					one.Swap = 5       // if it finds 0
					two.CompareAdd = 5 // finds what the first has left
					if c.first == verbs.OpRead {
						two.CompareAdd = 0
					}
					two.Swap = 6
					if c.fence {
						two.Flags |= verbs.FlagFence
					}
					l.a.do(t, 1, one, two)
					var late bool // the second was first
					switch {
					case c.first == verbs.OpRead, c.first == verbs.OpCAS && c.second == verbs.OpWrite:
						late = l.a.word(0) != 0 // the first saw what the second left
					case c.second == verbs.OpWrite:
						late = l.b.word(0) != 6
					default:
						late = l.a.word(64) != 5
					}
					if late {
						overtaken++
					}
				}
			})
			t.Logf("overtaken %d times of %d", overtaken, rounds)
			if !c.open && overtaken > 0 {
				t.Errorf("overtaken %d times, right is never", overtaken)
			}
			if c.open && (overtaken < rounds/20 || overtaken > rounds*19/20) {
				t.Errorf("overtaken %d times of %d, right is now and then", overtaken, rounds)
			}
		})
	}
}

// TestNothingIsOrderedAcrossQPs: of two QPs' WRITEs, posted one behind the other,
// the second sometimes lands first.
func TestNothingIsOrderedAcrossQPs(t *testing.T) {
	l := newLink(t, sim.Options{Seed: 1})
	a2, b2 := *l.a, *l.b
	a2.newQP(t)
	b2.newQP(t)
	join(t, &a2, &b2)
	second := 0
	l.run(func() {
		for range 200 {
			l.a.setWord(0, 1)
			l.a.setWord(64, 2)
			w1, w2 := l.a.wr(l.b, verbs.OpWrite, 0, 8, 0), a2.wr(&b2, verbs.OpWrite, 64, 8, 0)
			w1.Flags, w2.Flags = 0, verbs.FlagSignaled|verbs.FlagInline
			_, err1 := l.a.qp.PostSend([]verbs.SendWR{w1})
			_, err2 := a2.qp.PostSend([]verbs.SendWR{w2})
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			l.w.Sleep(10_000)
			if l.b.word(0) == 1 {
				second++
			}
			l.a.poll(t, 1)
			l.a.do(t, 1, l.a.wr(l.b, verbs.OpWrite, 0, 8, 1024)) // gives the slot back
		}
	})
	if second == 0 || second == 200 {
		t.Errorf("the second WRITE was first %d times of 200", second)
	}
}

// TestTornReads: a READ of three lines, beside a writer of them, sees lines of
// different rounds, and lines cut in two; it never sees a torn word.
func TestTornReads(t *testing.T) {
	l := newLink(t, sim.Options{Seed: 3, Plan: sim.Plan{Faults: []sim.Fault{{Kind: sim.KindSpread, Rate: 1, DelayNS: 2_000}}}})
	obs := l.also("observer")
	const words = 24
	done := false
	l.c.Go(func() {
		for i := uint64(1); i <= 2000; i++ {
			for k := range words {
				l.a.setWord(8*k, i<<32|i)
			}
			l.a.do(t, 1, l.a.wr(l.b, verbs.OpWrite, 0, 8*words, 64))
		}
		done = true
	})
	between, within, backwards := 0, 0, 0
	if err := l.w.RunOn(obs.dev.Host(), "observer", func() {
		for !done {
			obs.do(t, 1, obs.wr(l.b, verbs.OpRead, 0, 8*words, 64))
			for k := range words {
				v := obs.word(8 * k)
				if v>>32 != v&(1<<32-1) {
					t.Fatalf("word %d is torn: %#x", k, v)
				}
				if k == 0 {
					continue
				}
				before := obs.word(8 * (k - 1))
				switch {
				case k%8 == 0 && v > before:
					backwards++ // a later line is newer
				case k%8 == 0 && v != before:
					between++
				case v != before:
					within++
				}
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	t.Logf("lines differ %d times, the later newer %d times, a line is cut %d times", between, backwards, within)
	if between == 0 || within == 0 || backwards == 0 {
		t.Error("each of it must happen")
	}
}

// TestPayloadIsTakenLate: a buffer that is used again before its WRITE has completed
// sends the wrong bytes, unless it is inline.
func TestPayloadIsTakenLate(t *testing.T) {
	l := newLink(t, sim.Options{})
	l.run(func() {
		for i, flags := range []verbs.SendFlags{0, verbs.FlagInline} {
			l.a.setWord(0, 1)
			wr := l.a.wr(l.b, verbs.OpWrite, 0, 8, 64)
			wr.Flags |= flags
			if _, err := l.a.qp.PostSend([]verbs.SendWR{wr}); err != nil {
				t.Fatal(err)
			}
			l.a.setWord(0, 2)
			l.a.poll(t, 1)
			if want := uint64(2 - i); l.b.word(64) != want {
				t.Errorf("flags %v: %d was written, right is %d", flags, l.b.word(64), want)
			}
		}
	})
}

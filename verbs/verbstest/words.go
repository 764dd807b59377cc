package verbstest

import (
	"encoding/binary"

	"fjord/verbs"
)

// uniform returns n bytes of the same value.
func uniform(v byte, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = v
	}
	return b
}

// torn finds an 8-byte word whose bytes differ, in bytes that begin at a word.
func torn(b []byte) string {
	for i := 0; i+8 <= len(b); i += 8 {
		if w := binary.LittleEndian.Uint64(b[i:]); w != uint64(b[i])*0x0101010101010101 {
			return sprintf("the word at byte %d is torn: %x", i, b[i:i+8])
		}
	}
	return ""
}

func wordwise() []spec {
	return []spec{
		{"no word of a line is ever seen half written", func(t *T) {
			a, b := t.pair()
			obs := t.watch(b)
			t.observed(a, obs, b, t.rounds(10000), func(i uint64) []verbs.SendWR {
				a.poke(0, uniform(byte(i), 64))
				return []verbs.SendWR{a.to(b, verbs.OpWrite, 0, 64, 128)}
			}, []verbs.SendWR{obs.to(b, verbs.OpRead, 0, 64, 128)}, func() string { return torn(obs.peek(0, 64)) })
		}},
		{"no word is seen half written from or into memory at odd addresses", func(t *T) {
			a, b := t.pair()
			obs := t.watch(b)
			t.observed(a, obs, b, t.rounds(10000), func(i uint64) []verbs.SendWR {
				off := int(i % 16)
				a.poke(off, uniform(byte(i), 64))
				return []verbs.SendWR{a.to(b, verbs.OpWrite, off, 64, 128)}
			}, []verbs.SendWR{obs.to(b, verbs.OpRead, 3, 64, 128)}, func() string { return torn(obs.peek(3, 64)) })
		}},
		{"no word is seen half written when it is gathered from several pieces", func(t *T) {
			a, b := t.pair()
			if a.sendSGE() < 3 {
				t.Skipf("a request may have only %d pieces", a.sendSGE())
			}
			obs := t.watch(b)
			t.observed(a, obs, b, t.rounds(15000), func(i uint64) []verbs.SendWR {
				a.poke(0, uniform(byte(i), 64))
				wr := a.to(b, verbs.OpWrite, 0, 0, 128)
				wr.SGL = []verbs.SGE{a.sge(0, 13), a.sge(13, 2), a.sge(15, 49)}
				return []verbs.SendWR{wr}
			}, []verbs.SendWR{obs.to(b, verbs.OpRead, 0, 64, 128)}, func() string { return torn(obs.peek(0, 64)) })
		}},
		{"no word is read in halves when it is scattered to several pieces", func(t *T) {
			a, b := t.pair()
			if a.sendSGE() < 3 {
				t.Skipf("a request may have only %d pieces", a.sendSGE())
			}
			obs := t.watch(b)
			look := obs.to(b, verbs.OpRead, 0, 0, 128)
			look.SGL = []verbs.SGE{obs.sge(0, 11), obs.sge(11, 6), obs.sge(17, 47)}
			t.observed(a, obs, b, t.rounds(15000), func(i uint64) []verbs.SendWR {
				a.poke(0, uniform(byte(i), 64))
				return []verbs.SendWR{a.to(b, verbs.OpWrite, 0, 64, 128)}
			}, []verbs.SendWR{look}, func() string { return torn(obs.peek(0, 64)) })
		}},
		{"a READ takes the words of a line in ascending order", func(t *T) {
			a, b := t.pair()
			obs := t.watch(b)
			// The last word is written before the first one, so whoever reads the first
			// one first finds the last one no older.
			t.observed(a, obs, b, t.rounds(15000), func(i uint64) []verbs.SendWR {
				a.setWord(0, i)
				return []verbs.SendWR{a.unsignaled(b, verbs.OpWrite, 0, 8, 128+56), a.to(b, verbs.OpWrite, 0, 8, 128)}
			}, []verbs.SendWR{obs.to(b, verbs.OpRead, 0, 64, 128)}, func() string {
				if first, last := obs.word(0), obs.word(56); last < first {
					return sprintf("the first word is of round %d, the last word, written before it, of round %d", first, last)
				}
				return ""
			})
		}},
		{"a WRITE puts the words of a line in ascending order", func(t *T) {
			a, b := t.pair()
			obs := t.watch(b)
			t.observed(a, obs, b, t.rounds(15000), func(i uint64) []verbs.SendWR {
				for w := range 8 {
					a.setWord(8*w, i)
				}
				return []verbs.SendWR{a.to(b, verbs.OpWrite, 0, 64, 128)}
			}, []verbs.SendWR{obs.to(b, verbs.OpRead, 0, 8, 128+56), obs.to(b, verbs.OpRead, 8, 8, 128)}, func() string {
				if last, first := obs.word(0), obs.word(8); first < last {
					return sprintf("the last word was of round %d, when the first was still of round %d", last, first)
				}
				return ""
			})
		}},
		{"lines come in ascending order where CapInOrderLines says so", func(t *T) {
			if t.a.Attr().Caps&verbs.CapInOrderLines == 0 || t.b.Attr().Caps&verbs.CapInOrderLines == 0 {
				t.Skipf("the lines of one request come in any order (no CapInOrderLines)")
			}
			a, b := t.pair()
			obs := t.watch(b)
			t.observed(a, obs, b, t.rounds(15000), func(i uint64) []verbs.SendWR {
				a.setWord(0, i)
				return []verbs.SendWR{a.unsignaled(b, verbs.OpWrite, 0, 8, 1024), a.to(b, verbs.OpWrite, 0, 8, 128)}
			}, []verbs.SendWR{obs.to(b, verbs.OpRead, 0, 1024, 128)}, func() string {
				if first, last := obs.word(0), obs.word(1024-128); last < first {
					return sprintf("the first line is of round %d, a later one, written before it, of round %d", first, last)
				}
				return ""
			})
		}},
		{"writers of neighbouring bytes do not disturb each other", func(t *T) {
			const n = 4
			var a [n]*side
			first, b := t.pair()
			a[0] = first
			for i := 1; i < n; i++ {
				a[i] = t.watch(b)
			}
			g := t.newGroup()
			for i := range n {
				g.start(func() { // each owns bytes 3i to 3i+2: words are shared by up to three
					s := a[i]
					for v := range t.rounds(1500) {
						var wrs []verbs.SendWR
						var want []byte
						for k := range 16 { // many in a row, so that writers meet
							want = uniform(byte(v*16+k), 3)
							s.poke(64+8*k, want)
							wrs = append(wrs, s.unsignaled(b, verbs.OpWrite, 64+8*k, 3, 128+3*i), s.unsignaled(b, verbs.OpRead, 8, 3, 128+3*i))
						}
						wrs[31].Flags = verbs.FlagSignaled
						s.post(wrs...)
						if wc := s.sent(); wc.Status != verbs.StatusSuccess {
							t.Fatal(show(wc))
						}
						s.holds(sprintf("bytes of writer %d", i), 8, want)
						if v%16 == 0 {
							t.breathe()
						}
					}
				})
			}
			g.wait()
			b.holds("before the writers' bytes", 120, make([]byte, 8))
			b.holds("behind the writers' bytes", 128+3*n, make([]byte, 8))
		}},
	}
}

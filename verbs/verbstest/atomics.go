package verbstest

import (
	"sync/atomic"

	"fjord/verbs"
)

func atomics() []spec {
	return []spec{
		{"concurrent FAAs of many QPs add up, and none gets the same answer", func(t *T) {
			t.needAtomics()
			const n, batch = 4, 16
			first, b := t.pair()
			m := t.rounds(6000)
			seen := make([][]uint64, n)
			g := t.newGroup()
			for i := range n {
				s := first
				if i > 0 {
					s = t.watch(b)
				}
				g.start(func() {
					var wrs []verbs.SendWR
					for k := range batch {
						faa := s.unsignaled(b, verbs.OpFAA, 8*k, 8, 64)
						faa.CompareAdd = 1
						wrs = append(wrs, faa)
					}
					wrs[batch-1].Flags = verbs.FlagSignaled
					for range m {
						s.post(wrs...)
						if wc := s.sent(); wc.Status != verbs.StatusSuccess {
							t.Fatal(show(wc))
						}
						for k := range batch {
							seen[i] = append(seen[i], s.word(8*k))
						}
						t.rt.Yield()
					}
				})
			}
			g.wait()
			total := n * m * batch
			if got := b.word(64); got != uint64(total) {
				t.Fatalf("%d FAAs of 1 left %d", total, got)
			}
			all := make([]bool, total)
			for _, l := range seen {
				before, most := uint64(0), uint64(0)
				for k, v := range l {
					if k%batch == 0 { // atomics of one batch are not ordered, batches are
						before = most
					}
					if v >= uint64(total) || all[v] || k >= batch && v <= before {
						t.Fatalf("answer %d was given twice, or before that of an earlier request", v)
					}
					all[v], most = true, max(most, v)
				}
			}
		}},
		{"a CAS lock excludes: a counter that is READ and WRITTEN under it loses nothing", func(t *T) {
			t.needAtomics()
			const n = 4
			first, b := t.pair()
			m := t.rounds(300)
			g := t.newGroup()
			for i := range n {
				s := first
				if i > 0 {
					s = t.watch(b)
				}
				token := uint64(i) + 1
				g.start(func() {
					for range m {
						lock := s.to(b, verbs.OpCAS, 0, 8, 64)
						lock.CompareAdd, lock.Swap = 0, token
						lock.Flags = 0
						read := s.to(b, verbs.OpRead, 8, 8, 256)
						for {
							s.post(lock, read) // the READ sees what the lock protects
							if wc := s.sent(); wc.Status != verbs.StatusSuccess {
								t.Fatal(show(wc))
							}
							if s.word(0) == 0 {
								break
							}
							t.breathe()
						}
						s.setWord(8, s.word(8)+1)
						s.setWord(16, 0)
						s.post(s.unsignaled(b, verbs.OpWrite, 8, 8, 256), s.to(b, verbs.OpWrite, 16, 8, 64))
						if wc := s.sent(); wc.Status != verbs.StatusSuccess {
							t.Fatal(show(wc))
						}
					}
				})
			}
			g.wait()
			if got := b.word(256); got != uint64(n*m) {
				t.Fatalf("%d × %d increments under the lock left %d", n, m, got)
			}
		}},
		{"atomics exclude those of the processor where Atomics is GLOB", func(t *T) {
			t.needAtomics()
			if t.b.Attr().Atomics != verbs.AtomicGlob {
				t.Skipf("atomics of the device do not exclude those of processors (Atomics is %v)", t.b.Attr().Atomics)
			}
			a, b := t.pair()
			m := t.rounds(3000)
			g := t.newGroup()
			g.start(func() {
				for i := range m {
					atomic.AddUint64(b.pointer(64), 1)
					if i%16 == 0 {
						t.rt.Yield()
					}
				}
			})
			faa := a.to(b, verbs.OpFAA, 0, 8, 64)
			faa.CompareAdd = 1
			for i := range m {
				a.do(faa)
				if i%16 == 0 {
					t.rt.Yield()
				}
			}
			g.wait()
			if got := b.word(64); got != uint64(2*m) {
				t.Fatalf("2 × %d additions left %d", m, got)
			}
		}},
		{"WRITEs of the bytes beside a word do not undo atomics on it", func(t *T) {
			t.needAtomics()
			a, b := t.pair()
			obs := t.watch(b)
			m := t.rounds(1500)
			g := t.newGroup()
			g.start(func() { // writes around the low half of the word that FAA counts in
				for i := range m {
					obs.poke(0, uniform(byte(i), 5))
					write := obs.unsignaled(b, verbs.OpWrite, 0, 3, 69)
					obs.post(write, write, write, write, write, write, write, obs.to(b, verbs.OpWrite, 0, 5, 59))
					if wc := obs.sent(); wc.Status != verbs.StatusSuccess {
						t.Fatal(show(wc))
					}
					if i%16 == 0 {
						t.rt.Yield()
					}
				}
			})
			faa := a.to(b, verbs.OpFAA, 0, 8, 64)
			faa.CompareAdd = 1
			for i := range m {
				a.do(faa)
				if i%16 == 0 {
					t.rt.Yield()
				}
			}
			g.wait()
			if got := b.word(64) & 0xffffffff; got != uint64(m) {
				t.Fatalf("%d FAAs beside WRITEs left %d", m, got)
			}
		}},
	}
}

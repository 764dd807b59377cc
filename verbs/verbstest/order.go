package verbstest

import (
	"sync/atomic"

	"fjord/verbs"
)

// observed runs a writer, whose i-th step is made by write, beside an observer
// that looks at the peer's memory with READs in the order of see, and judges
// what it saw until the writer has ended.
func (t *T) observed(a, obs, b *side, n int, write func(i uint64) []verbs.SendWR, see []verbs.SendWR, judge func() string) {
	t.Helper()
	g := t.newGroup()
	last := uint64(n)
	var ended atomic.Bool
	g.start(func() {
		defer ended.Store(true)
		for i := uint64(1); i <= last; i++ {
			wrs := write(i)
			a.post(wrs...)
			if wc := a.sent(); wc.Status != verbs.StatusSuccess {
				t.Fatal(show(wc))
			}
			if i%8 == 0 {
				t.rt.Yield()
			}
		}
	})
	for i := range see[:len(see)-1] {
		see[i].Flags = 0
	}
	for stop := false; !stop; {
		stop = ended.Load() // one look more after the end
		obs.post(see...)
		if wc := obs.sent(); wc.Status != verbs.StatusSuccess {
			t.Fatal(show(wc))
		}
		if wrong := judge(); wrong != "" {
			t.Fatalf("%s", wrong)
		}
		t.breathe()
	}
	g.wait()
}

// watch makes an observer: another connection to b, with memory of its own.
func (t *T) watch(b *side) *side {
	t.Helper()
	obs, end := t.pair()
	qp, err := b.pd.CreateQP(verbs.QPInit{SendCQ: end.send, RecvCQ: end.recv, MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1})
	if err != nil {
		t.Fatal(err)
	}
	end.qp, end.mr = qp, b.mr
	t.reconnect(obs, end)
	return obs
}

func ordering() []spec {
	return []spec{
		{"a READ behind a CAS sees the swap", func(t *T) {
			t.needAtomics()
			a, b := t.pair()
			for i := range uint64(t.rounds(200)) {
				cas := a.unsignaled(b, verbs.OpCAS, 0, 8, 64)
				cas.CompareAdd, cas.Swap = i, i+1
				a.post(cas, a.to(b, verbs.OpRead, 8, 16, 64))
				if wc := a.sent(); wc.Status != verbs.StatusSuccess {
					t.Fatal(show(wc))
				}
				if a.word(0) != i || a.word(8) != i+1 {
					t.Fatalf("round %d: CAS returned %d, READ saw %d", i, a.word(0), a.word(8))
				}
			}
		}},
		{"a READ behind a WRITE sees the bytes", func(t *T) {
			a, b := t.pair()
			for i := range uint64(t.rounds(200)) {
				a.setWord(0, i+1)
				a.post(a.unsignaled(b, verbs.OpWrite, 0, 8, 64), a.to(b, verbs.OpRead, 8, 8, 64))
				if wc := a.sent(); wc.Status != verbs.StatusSuccess || a.word(8) != i+1 {
					t.Fatalf("READ saw %d, written was %d; %v", a.word(8), i+1, show(wc))
				}
			}
		}},
		{"the later of two WRITEs to the same bytes stays", func(t *T) {
			a, b := t.pair()
			for i := range t.rounds(200) {
				a.poke(0, fill(byte(i), 256))
				a.poke(256, fill(byte(i+100), 256))
				a.post(a.unsignaled(b, verbs.OpWrite, 0, 256, 3), a.to(b, verbs.OpWrite, 256, 256, 3))
				if wc := a.sent(); wc.Status != verbs.StatusSuccess {
					t.Fatal(show(wc))
				}
				b.holds("written twice", 3, fill(byte(i+100), 256))
			}
		}},
		{"an atomic behind a WRITE works on what was written", func(t *T) {
			t.needAtomics()
			a, b := t.pair()
			for i := range uint64(t.rounds(200)) {
				a.setWord(0, 1000*i)
				faa := a.to(b, verbs.OpFAA, 8, 8, 64)
				faa.CompareAdd = 7
				a.post(a.unsignaled(b, verbs.OpWrite, 0, 8, 64), faa)
				if wc := a.sent(); wc.Status != verbs.StatusSuccess || a.word(8) != 1000*i || b.word(64) != 1000*i+7 {
					t.Fatalf("FAA found %d and left %d after a WRITE of %d", a.word(8), b.word(64), 1000*i)
				}
			}
		}},
		{"fenced atomics execute in the order of posting", func(t *T) {
			t.needAtomics()
			a, b := t.pair()
			for range t.rounds(50) {
				b.setWord(64, 0)
				var wrs []verbs.SendWR
				for i := range uint64(8) {
					wr := a.unsignaled(b, verbs.OpCAS, int(8*i), 8, 64)
					wr.CompareAdd, wr.Swap = i, i+1
					wr.Flags = verbs.FlagFence
					wrs = append(wrs, wr)
				}
				wrs[7].Flags |= verbs.FlagSignaled
				a.post(wrs...)
				a.sent()
				if b.word(64) != 8 {
					t.Fatalf("8 CAS in a row left %d", b.word(64))
				}
			}
		}},
		{"more READs and atomics than may be in flight wait for their turn", func(t *T) {
			a, b := t.pair(func(c *conf) { c.conn.RdAtomic = 1 })
			for i := range 32 {
				b.setWord(8*i, uint64(i)+100)
			}
			var wrs []verbs.SendWR
			for i := range 32 {
				wr := a.to(b, verbs.OpRead, 8*i, 8, 8*i)
				if t.hasAtomics() && i%3 == 2 {
					wr.Opcode = verbs.OpFAA
				}
				wrs = append(wrs, wr)
			}
			a.post(wrs...)
			for i, wr := range wrs {
				if wc := a.sent(); wc.Status != verbs.StatusSuccess || wc.ID != wr.ID || a.word(8*i) != uint64(i)+100 {
					t.Fatalf("%v number %d returned %d; %v", wr.Opcode, i, a.word(8*i), show(wc))
				}
			}
		}},
		{"completions of one QP come in the order of posting", func(t *T) {
			a, b := t.pair()
			ops := t.everyOp()
			for round := range t.rounds(40) {
				var wrs []verbs.SendWR
				for i := range 16 {
					op := ops[(i*7+round)%len(ops)]
					n := 8
					if op == verbs.OpRead || op == verbs.OpWrite {
						n = 1 + (i*977+round*31)%8000 // long before short
					}
					if op == verbs.OpSend || op == verbs.OpSendImm || op == verbs.OpWriteImm {
						b.receive(0, 8)
					}
					wrs = append(wrs, a.to(b, op, 0, n, 8192))
				}
				a.post(wrs...)
				for _, wr := range wrs {
					if wc := a.sent(); wc.ID != wr.ID || wc.Status != verbs.StatusSuccess || wc.Opcode != wr.Opcode.Completion() {
						t.Fatalf("%v with ID %d: %v", wr.Opcode, wr.ID, show(wc))
					}
				}
				for wc := make([]verbs.WC, 16); b.recv.Poll(wc) > 0; {
				}
			}
		}},
		{"an observer sees the WRITEs of one QP in the order of posting", func(t *T) {
			a, b := t.pair()
			obs := t.watch(b)
			// First x then y is written; first y then x is read.
			t.observed(a, obs, b, t.rounds(4000), func(i uint64) []verbs.SendWR {
				a.setWord(0, i)
				return []verbs.SendWR{a.unsignaled(b, verbs.OpWrite, 0, 8, 0), a.to(b, verbs.OpWrite, 0, 8, 4096)}
			}, []verbs.SendWR{obs.to(b, verbs.OpRead, 0, 8, 4096), obs.to(b, verbs.OpRead, 8, 8, 0)}, func() string {
				if y, x := obs.word(0), obs.word(8); x < y {
					return sprintf("the second WRITE's %d was seen before the first one's: that was %d", y, x)
				}
				return ""
			})
		}},
		{"an observer sees an atomic no earlier than the WRITE before it", func(t *T) {
			t.needAtomics()
			a, b := t.pair()
			obs := t.watch(b)
			t.observed(a, obs, b, t.rounds(4000), func(i uint64) []verbs.SendWR {
				a.setWord(0, i)
				faa := a.to(b, verbs.OpFAA, 8, 8, 4096)
				faa.CompareAdd = 1
				return []verbs.SendWR{a.unsignaled(b, verbs.OpWrite, 0, 8, 0), faa}
			}, []verbs.SendWR{obs.to(b, verbs.OpRead, 0, 8, 4096), obs.to(b, verbs.OpRead, 8, 8, 0)}, func() string {
				if y, x := obs.word(0), obs.word(8); x < y {
					return sprintf("FAA number %d was seen, the WRITE before it was not: %d", y, x)
				}
				return ""
			})
		}},
		{"a receive completes no earlier than the WRITEs before its SEND are seen", func(t *T) {
			a, b := t.pair()
			for i := range uint64(t.rounds(300)) {
				a.setWord(0, i+1)
				b.receive(64, 8)
				a.post(a.unsignaled(b, verbs.OpWrite, 0, 8, 4096), a.to(b, verbs.OpSend, 0, 8, 0))
				b.arrived()
				if got := b.word(4096); got != i+1 {
					t.Fatalf("round %d: the SEND arrived, but the WRITE before it left %d", i, got)
				}
				a.sent()
			}
		}},
		{"a fenced WRITE behind a READ of the same bytes leaves the READ the old ones", func(t *T) {
			a, b := t.pair(sized(1 << 17))
			const n = 32 << 10
			for i := range t.rounds(50) {
				b.poke(0, fill(byte(i), n))
				a.poke(n, fill(byte(i+1), n))
				write := a.to(b, verbs.OpWrite, n, n, 0)
				write.Flags |= verbs.FlagFence
				a.post(a.unsignaled(b, verbs.OpRead, 0, n, 0), write)
				if wc := a.sent(); wc.Status != verbs.StatusSuccess {
					t.Fatal(show(wc))
				}
				a.holds("read before the fenced WRITE", 0, fill(byte(i), n))
				b.holds("written", 0, fill(byte(i+1), n))
			}
		}},
		{"a fenced SEND may carry what a READ before it has fetched", func(t *T) {
			a, b := t.pair()
			for i := range t.rounds(100) {
				b.poke(0, fill(byte(i), 4096))
				b.receive(8192, 4096)
				send := a.to(b, verbs.OpSend, 0, 4096, 0)
				send.Flags |= verbs.FlagFence
				a.post(a.unsignaled(b, verbs.OpRead, 0, 4096, 0), send)
				if wc := a.sent(); wc.Status != verbs.StatusSuccess {
					t.Fatal(show(wc))
				}
				b.arrived()
				b.holds("sent back", 8192, fill(byte(i), 4096))
			}
		}},
	}
}

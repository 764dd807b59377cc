package verbstest

import (
	"errors"
	"sync/atomic"

	"fjord/verbs"
)

func concurrency() []spec {
	return []spec{
		{"several workers may post on one QP", func(t *T) {
			a, b := t.pair(narrow(64, 64), sized(1<<18))
			const n = 4
			m := t.rounds(6000)
			for w := range n {
				a.setWord(64*w, uint64(w)+1)
			}
			wrote := t.newGroup()
			ids := make([]atomic.Uint32, n*m)
			for w := range n {
				wrote.start(func() {
					for i := range m {
						wr := verbs.SendWR{ID: uint64(w*m + i), Opcode: verbs.OpWrite, Flags: verbs.FlagSignaled, SGL: a.sgl(64*w, 8),
							RemoteAddr: b.mr.Addr() + uint64(8*(w*m+i)), RKey: b.mr.RKey()}
						for {
							k, err := a.qp.PostSend([]verbs.SendWR{wr})
							if err == nil {
								break
							}
							if k != 0 || !errors.Is(err, verbs.ErrQueueFull) {
								t.Fatal(k, err)
							}
							t.breathe()
						}
					}
				})
			}
			for range n * m {
				wc := a.sent()
				if wc.Status != verbs.StatusSuccess {
					t.Fatal(show(wc))
				}
				if ids[wc.ID].Add(1) != 1 {
					t.Fatalf("request %d completed twice", wc.ID)
				}
			}
			wrote.wait()
			t.quiet()
			t.none(a.send, "after all requests have completed")
			for i := range n * m {
				if got := b.word(8 * i); got != uint64(i/m)+1 {
					t.Fatalf("word %d is %d, written by worker %d", i, got, i/m)
				}
			}
		}},
		{"several workers may poll one CQ, and each completion goes to one of them", func(t *T) {
			a, b := t.pair()
			const n = 3
			m := t.rounds(2000)
			ids := make([]atomic.Uint32, m)
			var polled atomic.Int64
			g := t.newGroup()
			for range n {
				g.start(func() {
					w := verbs.NewWaiter(t.rt)
					wcs := make([]verbs.WC, 4)
					for polled.Load() < int64(m) {
						k, err := w.Poll(a.send, wcs, t.rt.Now()+1_000_000)
						if err != nil && !errors.Is(err, verbs.ErrTimeout) {
							t.Fatal(err)
						}
						for _, wc := range wcs[:k] {
							if wc.Status != verbs.StatusSuccess || ids[wc.ID].Add(1) != 1 {
								t.Fatalf("polled a second time, or failed: %v", show(wc))
							}
						}
						polled.Add(int64(k))
					}
				})
			}
			end := t.deadline()
			for i := range m {
				wr := a.to(b, verbs.OpWrite, 0, 8, 0)
				wr.ID = uint64(i)
				for {
					_, err := a.qp.PostSend([]verbs.SendWR{wr})
					if err == nil {
						break
					}
					if !errors.Is(err, verbs.ErrQueueFull) || t.rt.Now() > end {
						t.Fatal(err)
					}
					t.breathe()
				}
			}
			g.wait()
		}},
		{"many QPs between two devices work side by side", func(t *T) {
			g := t.newGroup()
			for i := range 8 {
				a, b := t.pair()
				g.start(func() {
					for k := range t.rounds(100) {
						n := 1 + (k*379)%3000
						a.poke(0, fill(byte(k+i), n))
						a.do(a.to(b, verbs.OpWrite, 0, n, 64))
						a.do(a.to(b, verbs.OpRead, 8192, n, 64))
						a.holds("read back", 8192, fill(byte(k+i), n))
						b.receive(16384, 3000)
						a.do(a.to(b, verbs.OpSend, 0, n, 0))
						b.arrived()
						b.holds("received", 16384, fill(byte(k+i), n))
					}
				})
			}
			g.wait()
		}},
		{"receives may be posted and consumed at once", func(t *T) {
			a, b := t.pair(narrow(16, 4))
			m := t.rounds(6000)
			g := t.newGroup()
			g.start(func() {
				for i := range m {
					a.setWord(0, uint64(i))
					a.do(a.to(b, verbs.OpSend, 0, 8, 0))
				}
			})
			g.start(func() {
				for i := range m {
					b.receive(8*(i%64), 8)
					if wc := b.arrived(); wc.Status != verbs.StatusSuccess {
						t.Fatal(show(wc))
					}
					if got := b.word(8 * (i % 64)); got != uint64(i) {
						t.Fatalf("message %d holds %d", i, got)
					}
				}
			})
			g.wait()
		}},
		{"objects may be made and closed while others work", func(t *T) {
			a, b := t.pair()
			var ended atomic.Bool
			g := t.newGroup()
			g.start(func() {
				defer ended.Store(true)
				for range t.rounds(300) {
					a.do(a.to(b, verbs.OpWrite, 0, 64, 0))
					t.breathe()
				}
			})
			for !ended.Load() {
				pd := t.newPD(t.b)
				cq := t.newCQ(t.b, 16)
				mem, err := verbs.MapMemory(4096, verbs.HugeNever)
				if err != nil {
					t.Fatal(err)
				}
				mr, err := pd.RegisterMR(mem, verbs.AccessAll)
				if err != nil {
					t.Fatal(err)
				}
				qp, err := pd.CreateQP(verbs.QPInit{SendCQ: cq, RecvCQ: cq, MaxSendWR: 1, MaxSendSGE: 1})
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range []func() error{qp.Close, mr.Close, cq.Close, pd.Close, mem.Free} {
					if err := c(); err != nil {
						t.Fatal(err)
					}
				}
				t.breathe()
			}
			g.wait()
		}},
	}
}

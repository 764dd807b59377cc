package verbstest

import (
	"errors"

	"fjord/verbs"
)

// needEvents skips a test of parking on devices that cannot wake anybody.
func (t *T) needEvents() {
	if t.a.Attr().Caps&verbs.CapEventWait == 0 || t.b.Attr().Caps&verbs.CapEventWait == 0 {
		t.Skipf("the device cannot wake a parked waiter (no CapEventWait)")
	}
}

// parked waits for a completion without ever spinning, as the slowest of all
// waiters: Poll, Arm, Poll, Park.
func (t *T) parked(p verbs.Parker, cq verbs.CQ) verbs.WC {
	t.Helper()
	var wc [1]verbs.WC
	end := t.deadline()
	for {
		if cq.Poll(wc[:]) == 1 {
			return wc[0]
		}
		cq.Arm(p)
		if cq.Poll(wc[:]) == 1 {
			return wc[0]
		}
		p.Park(end)
		if t.rt.Now() >= end {
			if cq.Poll(wc[:]) == 1 {
				t.Fatalf("a completion had arrived, but nobody was woken: %v", show(wc[0]))
			}
			t.Fatalf("no completion")
		}
	}
}

func waiting() []spec {
	return []spec{
		{"a parked waiter is woken by a send completion, a receive, an error and a flush", func(t *T) {
			t.needEvents()
			wake := []struct {
				name string
				recv bool
				do   func(a, b *side)
			}{
				{"its own WRITE", false, func(a, b *side) { a.post(a.to(b, verbs.OpWrite, 0, 8, 0)) }},
				{"a SEND of the peer", true, func(a, b *side) { b.post(b.to(a, verbs.OpSend, 0, 8, 0)) }},
				{"a WRITE_WITH_IMM of the peer", true, func(a, b *side) { b.post(b.to(a, verbs.OpWriteImm, 0, 8, 0)) }},
				{"a local error", false, func(a, b *side) {
					wr := a.to(b, verbs.OpWrite, 0, 8, 0)
					wr.SGL[0].LKey = ^wr.SGL[0].LKey
					a.post(wr)
				}},
				{"a flushed receive", true, func(a, _ *side) { a.toErr() }},
				{"a request refused by the other side", true, func(a, b *side) {
					wr := b.to(a, verbs.OpRead, 0, 8, 0)
					wr.RKey = ^wr.RKey
					b.post(wr)
				}},
			}
			for _, w := range wake {
				a, b := t.pair()
				a.receive(64, 64)
				g, done := t.newGroup(), false
				g.start(func() {
					cq := a.send
					if w.recv {
						cq = a.recv
					}
					t.parked(t.rt.NewParker(), cq)
					done = true
				})
				t.quiet()
				w.do(a, b)
				g.wait()
				if !done {
					t.Fatalf("%s did not wake", w.name)
				}
			}
		}},
		{"a parked waiter is woken when a SEND has waited too long for a receive", func(t *T) {
			t.needEvents()
			a, b := t.pair(unready(1, rnrLong))
			a.post(a.to(b, verbs.OpSend, 0, 8, 0))
			if wc := t.parked(t.rt.NewParker(), a.send); wc.Status != verbs.StatusRNRRetryExcErr {
				t.Fatal(show(wc))
			}
		}},
		{"a parked waiter is woken when the receiver of its waiting SEND leaves", func(t *T) {
			t.needEvents()
			a, b := t.pair(impatient, unready(7, rnrShort))
			a.post(a.to(b, verbs.OpSend, 0, 8, 0))
			g := t.newGroup()
			g.start(func() {
				if wc := t.parked(t.rt.NewParker(), a.send); wc.Status != verbs.StatusRetryExcErr {
					t.Fatal(show(wc))
				}
			})
			t.quiet()
			if err := b.qp.Close(); err != nil {
				t.Fatal(err)
			}
			g.wait()
		}},
		{"a completion between Poll and Arm is not missed", func(t *T) {
			t.needEvents()
			// Two workers toss a message to and fro; each parks at once, so a wake-up
			// that gets lost is a hang.
			a, b := t.pair()
			n := t.rounds(1500)
			g := t.newGroup()
			for _, s := range []*side{a, b} {
				s.receive(64, 8)
				peer := b
				if s == b {
					peer = a
				}
				g.start(func() {
					p := t.rt.NewParker()
					for i := range n {
						if s == a || i > 0 {
							s.post(s.to(peer, verbs.OpSend, 0, 8, 0))
							if wc := t.parked(p, s.send); wc.Status != verbs.StatusSuccess {
								t.Fatal(show(wc))
							}
						}
						if wc := t.parked(p, s.recv); wc.Status != verbs.StatusSuccess {
							t.Fatal(show(wc))
						}
						s.receive(64, 8)
					}
					if s == b {
						s.post(s.to(peer, verbs.OpSend, 0, 8, 0))
					}
				})
			}
			g.wait()
		}},
		{"a completion that is there before Arm is found by the Poll after it", func(t *T) {
			t.needEvents()
			a, b := t.pair()
			p := t.rt.NewParker()
			for range 10 {
				a.post(a.to(b, verbs.OpWrite, 0, 8, 0))
				t.quiet()
				t.parked(p, a.send)
			}
		}},
		{"several waiters on one CQ are all woken", func(t *T) {
			t.needEvents()
			a, b := t.pair()
			const n = 3
			g := t.newGroup()
			for range n {
				g.start(func() {
					if wc := t.parked(t.rt.NewParker(), a.send); wc.Status != verbs.StatusSuccess {
						t.Fatal(show(wc))
					}
				})
			}
			for range n {
				t.quiet()
				a.post(a.to(b, verbs.OpWrite, 0, 8, 0))
			}
			g.wait()
		}},
		{"one waiter serves two CQs", func(t *T) {
			t.needEvents()
			a, b := t.pair()
			p := t.rt.NewParker()
			a.receive(64, 8)
			g := t.newGroup()
			g.start(func() { t.quiet(); b.post(b.to(a, verbs.OpSend, 0, 8, 0)) })
			end := t.deadline()
			for wc := make([]verbs.WC, 1); a.send.Poll(wc)+a.recv.Poll(wc) == 0; {
				a.send.Arm(p)
				a.recv.Arm(p)
				if a.send.Poll(wc)+a.recv.Poll(wc) > 0 {
					break
				}
				p.Park(end)
				if t.rt.Now() >= end {
					t.Fatal("not woken")
				}
			}
			g.wait()
		}},
		{"a wait with a deadline ends at the deadline", func(t *T) {
			a, b := t.pair()
			w := verbs.NewWaiter(t.rt)
			var wc [1]verbs.WC
			start := t.rt.Now()
			n, err := w.Poll(a.send, wc[:], start+5_000_000)
			if !errors.Is(err, verbs.ErrTimeout) || n != 0 {
				t.Fatalf("%d, %v", n, err)
			}
			if d := t.rt.Now() - start; d < 5_000_000 {
				t.Fatalf("the wait of 5000 µs ended after %d µs", d/1000)
			}
			a.do(a.to(b, verbs.OpWrite, 0, 8, 0)) // the waiter that gave up does no harm
		}},
		{"a request has executed when PostSend returns, where CapSyncPost says so", func(t *T) {
			if t.a.Attr().Caps&verbs.CapSyncPost == 0 {
				t.Skipf("requests run asynchronously (no CapSyncPost)")
			}
			a, b := t.pair()
			for i := range 50 {
				a.setWord(0, uint64(i))
				a.post(a.to(b, verbs.OpWrite, 0, 8, 0))
				if b.word(0) != uint64(i) {
					t.Fatal("not written")
				}
				var wc [2]verbs.WC
				if n := a.send.Poll(wc[:]); n != 1 {
					t.Fatalf("%d completions", n)
				}
			}
		}},
	}
}

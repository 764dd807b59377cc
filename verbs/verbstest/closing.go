package verbstest

import (
	"bytes"
	"errors"
	"sync/atomic"

	"fjord/verbs"
)

// pester posts requests, without waiting for their completions, until the QP
// refuses them or one fails. It returns the refusal, or the first status that is
// not success.
func (s *side) pester(wrs ...verbs.SendWR) (verbs.Status, error) {
	var wcs [16]verbs.WC
	for !s.t.stop.Load() {
		if _, err := s.qp.PostSend(wrs); err != nil && !errors.Is(err, verbs.ErrQueueFull) {
			return verbs.StatusSuccess, err
		}
		for _, wc := range wcs[:s.send.Poll(wcs[:])] {
			if wc.Status != verbs.StatusSuccess {
				return wc.Status, nil
			}
		}
		s.t.breathe()
	}
	return verbs.StatusSuccess, nil
}

// keepReceiving posts and polls receives as long as the QP is in RTS.
func (s *side) keepReceiving(sgl []verbs.SGE) {
	var wcs [16]verbs.WC
	recvs := []verbs.RecvWR{{SGL: sgl}, {SGL: sgl}, {SGL: sgl}, {SGL: sgl}}
	for s.qp.State() == verbs.StateRTS && !s.t.stop.Load() {
		_, _ = s.qp.PostRecv(recvs)
		s.recv.Poll(wcs[:])
		s.t.breathe()
	}
}

// traffic are one-sided requests against peer's region.
func (s *side) traffic(peer *side, n int) []verbs.SendWR {
	wrs := []verbs.SendWR{s.to(peer, verbs.OpWrite, 0, n, 0), s.to(peer, verbs.OpRead, 0, n, 0)}
	if s.t.hasAtomics() {
		wrs = append(wrs, s.to(peer, verbs.OpFAA, 0, 8, 0))
		wrs[2].CompareAdd = 1
	}
	return wrs
}

// during runs act while a worker pesters the peer of a, and returns how that
// ended.
func (t *T) during(a *side, wrs []verbs.SendWR, act func()) (st verbs.Status, err error) {
	t.Helper()
	g := t.newGroup()
	g.start(func() { st, err = a.pester(wrs...) })
	soon := int64(50_000)
	if t.rt.Virtual() {
		soon = 5_000 // there nobody needs time to get going
	}
	t.rt.Sleep(soon + int64(t.rt.Rand()%uint64(4*soon)))
	act()
	g.wait()
	return st, err
}

func closing() []spec {
	const n = 64 << 10
	// still checks that b's region does not change any more.
	still := func(t *T, b *side, what string) {
		t.Helper()
		was := b.peek(0, n)
		t.rt.Sleep(300_000)
		if now := b.peek(0, n); !bytes.Equal(was, now) {
			t.Fatalf("after %s had returned: %s", what, difference(now, was))
		}
	}
	fenced := func(name string, leave func(b *side) error) spec {
		return spec{name + " returns only when no request of the peer is executing", func(t *T) {
			for range t.rounds(30) {
				a, b := t.pair(sized(n), impatient, func(c *conf) { c.init.MaxSendWR = 8 })
				var wrs []verbs.SendWR
				for i := range 4 { // ever changing bytes
					wrs = append(wrs, a.to(b, verbs.OpWrite, 1024*i, n-4096, 512*i))
				}
				a.poke(0, fill(byte(t.rt.Rand()), n))
				st, err := t.during(a, wrs, func() {
					if err := leave(b); err != nil {
						t.Fatal(err)
					}
					still(t, b, name)
				})
				if err != nil || st != verbs.StatusRetryExcErr && st != verbs.StatusRemOpErr && st != verbs.StatusRemAbortErr {
					t.Fatalf("the peer's requests ended with %v, %v", st, err)
				}
			}
		}}
	}
	return []spec{
		fenced("a move to ERR", func(b *side) error { return b.qp.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState) }),
		fenced("a move to RESET", func(b *side) error { return b.qp.Modify(verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState) }),
		fenced("QP.Close", func(b *side) error { return b.qp.Close() }),
		{"SENDs under way end when their receiver leaves", func(t *T) {
			for range t.rounds(30) {
				a, b := t.pair(sized(n), impatient)
				g := t.newGroup()
				g.start(func() { b.keepReceiving(b.sgl(0, 64)) })
				// The receiver leaves most probably in the midst of a batch.
				st, err := t.during(a, []verbs.SendWR{a.to(b, verbs.OpWrite, 0, n, 0), a.to(b, verbs.OpSend, 0, 64, 0), a.to(b, verbs.OpWrite, 0, n, 0),
					a.to(b, verbs.OpSend, 0, 64, 0)}, b.toErr)
				if err != nil || st != verbs.StatusRetryExcErr && st != verbs.StatusRemOpErr && st != verbs.StatusRemAbortErr {
					t.Fatalf("the requests ended with %v, %v", st, err)
				}
				g.wait()
			}
		}},
		{"a fenced peer's requests do not reach the QP's next connection", func(t *T) {
			// A's are the writes of 1, C's those of 2; B changes from A to C.
			for range t.rounds(30) {
				a, b := t.pair(impatient)
				c, _ := t.pair(idle)
				a.setWord(0, 1)
				c.setWord(0, 2)
				_, _ = t.during(a, []verbs.SendWR{a.to(b, verbs.OpWrite, 0, 8, 64)}, func() {
					b.modify(verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState)
					b.setWord(64, 0)
					t.bringUp(c, b)
					for range 20 {
						if got := b.word(64); got == 1 {
							t.Fatal("a request of the old connection was executed on the new one")
						}
						c.do(c.to(b, verbs.OpWrite, 0, 8, 64))
						t.breathe()
					}
				})
			}
		}},
		{"a refused request of the old connection does not break the QP's next one", func(t *T) {
			for range t.rounds(60) {
				a, b := t.pair()
				c, _ := t.pair(idle)
				bad := a.to(b, verbs.OpWrite, 0, 8, 64)
				bad.RKey = ^bad.RKey
				g := t.newGroup()
				g.start(func() { a.post(bad) })
				if t.rt.Rand()%2 == 0 {
					t.rt.Yield()
				}
				b.modify(verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState)
				t.bringUp(c, b)
				c.do(c.to(b, verbs.OpWrite, 0, 8, 64))
				g.wait()
				c.do(c.to(b, verbs.OpWrite, 0, 8, 64))
			}
		}},
		{"QP.Close under a worker that posts ends its posts with ErrClosed", func(t *T) {
			for range t.rounds(30) {
				a, b := t.pair(sized(n))
				_, err := t.during(a, []verbs.SendWR{a.to(b, verbs.OpWrite, 0, n, 0), a.to(b, verbs.OpRead, 0, n, 0)}, func() {
					if err := a.qp.Close(); err != nil {
						t.Fatal(err)
					}
				})
				if !errors.Is(err, verbs.ErrClosed) {
					t.Fatalf("the posts ended with %v", err)
				}
			}
		}},
		{"QP.Close lets go of the requester's memory", func(t *T) {
			for range t.rounds(30) {
				a, b := t.pair(sized(n), impatient)
				mem, mr := t.loose(a, n)
				read := a.to(b, verbs.OpRead, 0, n, 0)
				read.SGL = []verbs.SGE{{Addr: mr.Addr(), Length: n, LKey: mr.LKey()}}
				_, _ = t.during(a, []verbs.SendWR{read}, func() {
					for _, c := range []func() error{a.qp.Close, mr.Close, mem.Free} {
						if err := c(); err != nil {
							t.Fatal(err)
						}
					}
				})
			}
		}},
		{"after MR.Close a remote region's memory may be freed while peers still write", func(t *T) {
			for range t.rounds(40) {
				a, b := t.pair(sized(n))
				mem, mr := t.loose(b, n)
				wrs := a.traffic(b, n)
				for i := range wrs {
					wrs[i].RemoteAddr, wrs[i].RKey = mr.Addr(), mr.RKey()
				}
				st, err := t.during(a, wrs, func() {
					if err := mr.Close(); err != nil {
						t.Fatal(err)
					}
					if err := mem.Free(); err != nil { // whoever touches it now gets a fault
						t.Fatal(err)
					}
				})
				if err != nil || st != verbs.StatusRemAccessErr {
					t.Fatalf("the peer's requests ended with %v, %v", st, err)
				}
			}
		}},
		{"after MR.Close a local region's memory may be freed while requests still name it", func(t *T) {
			for range t.rounds(40) {
				a, b := t.pair(sized(n))
				mem, mr := t.loose(a, n)
				wrs := a.traffic(b, n)
				for i := range wrs {
					wrs[i].SGL[0].Addr, wrs[i].SGL[0].LKey = mr.Addr(), mr.LKey()
				}
				st, err := t.during(a, wrs, func() {
					if err := mr.Close(); err != nil {
						t.Fatal(err)
					}
					if err := mem.Free(); err != nil {
						t.Fatal(err)
					}
				})
				if err != nil || st != verbs.StatusLocProtErr {
					t.Fatalf("the requests ended with %v, %v", st, err)
				}
			}
		}},
		{"after MR.Close the memory of posted receives may be freed", func(t *T) {
			for range t.rounds(40) {
				a, b := t.pair(sized(n))
				mem, mr := t.loose(b, n)
				g := t.newGroup()
				g.start(func() { b.keepReceiving([]verbs.SGE{{Addr: mr.Addr(), Length: n, LKey: mr.LKey()}}) })
				st, err := t.during(a, []verbs.SendWR{a.to(b, verbs.OpSend, 0, n, 0)}, func() {
					if err := mr.Close(); err != nil {
						t.Fatal(err)
					}
					if err := mem.Free(); err != nil {
						t.Fatal(err)
					}
				})
				if err != nil || st != verbs.StatusRemOpErr {
					t.Fatalf("the sends ended with %v, %v", st, err)
				}
				g.wait()
			}
		}},
		{"the region and the QP may be closed at once", func(t *T) {
			for range t.rounds(40) {
				a, b := t.pair(sized(n), impatient)
				mem, mr := t.loose(b, n)
				wrs := a.traffic(b, n)[:2]
				for i := range wrs {
					wrs[i].RemoteAddr, wrs[i].RKey = mr.Addr(), mr.RKey()
				}
				_, _ = t.during(a, wrs, func() {
					g := t.newGroup()
					g.start(func() {
						if err := b.qp.Close(); err != nil {
							t.Fatal(err)
						}
					})
					if err := mr.Close(); err != nil {
						t.Fatal(err)
					}
					if err := mem.Free(); err != nil {
						t.Fatal(err)
					}
					g.wait()
				})
			}
		}},
		{"Device.Close of the responder fails its peers, and its memory is let go", func(t *T) {
			big := 2 << 20 // takes a while
			if raceEnabled || t.rt.Virtual() {
				big = n
			}
			a, b := t.pair(sized(uint64(big)), impatient)
			mem, mr := t.loose(b, uint64(big))
			wrs := append(a.traffic(b, big)[:2], a.traffic(b, big)[:2]...)
			for i := range wrs {
				wrs[i].RemoteAddr, wrs[i].RKey = mr.Addr(), mr.RKey()
			}
			st, err := t.during(a, wrs, func() {
				if err := b.dev.Close(); err != nil {
					t.Fatal(err)
				}
				if err := mem.Free(); err != nil {
					t.Fatal(err)
				}
			})
			if err != nil || st == verbs.StatusSuccess {
				t.Fatalf("the peer's requests ended with %v, %v", st, err)
			}
		}},
		{"Device.Close of the requester ends its posts, and its memory is let go", func(t *T) {
			big := 2 << 20 // takes a while
			if raceEnabled || t.rt.Virtual() {
				big = n
			}
			a, b := t.pair(sized(uint64(big)), impatient)
			mem, mr := t.loose(a, uint64(big))
			wrs := append(a.traffic(b, big)[:2], a.traffic(b, big)[:2]...)
			for i := range wrs {
				wrs[i].SGL[0].Addr, wrs[i].SGL[0].LKey = mr.Addr(), mr.LKey()
			}
			st, err := t.during(a, wrs, func() {
				if err := a.dev.Close(); err != nil {
					t.Fatal(err)
				}
				if err := mem.Free(); err != nil {
					t.Fatal(err)
				}
				still(t, b, "Device.Close of the requester")
			})
			if err != nil && !errors.Is(err, verbs.ErrClosed) || err == nil && st == verbs.StatusSuccess {
				t.Fatalf("the requests ended with %v, %v", st, err)
			}
		}},
		{"a closed device refuses everything, tells so, and all that was made from it closes in any order", func(t *T) {
			a, b := t.pair()
			a.receive(0, 8)
			if err := a.dev.Close(); err != nil {
				t.Fatal(err)
			}
			if err := a.dev.Close(); err != nil {
				t.Fatalf("closing twice: %v", err)
			}
			t.event(a.dev, func(e verbs.AsyncEvent) bool { return e.Type == verbs.EventDevice })
			_, err := a.dev.AllocPD()
			t.refusal("AllocPD", err, verbs.ErrClosed)
			_, err = a.dev.CreateCQ(8)
			t.refusal("CreateCQ", err, verbs.ErrClosed)
			_, err = a.pd.RegisterMR(t.mapped(4096), verbs.AccessAll)
			t.refusal("RegisterMR", err, verbs.ErrClosed)
			_, err = a.pd.CreateQP(verbs.QPInit{SendCQ: a.send, RecvCQ: a.recv, MaxSendWR: 1})
			t.refusal("CreateQP", err, verbs.ErrClosed)
			if st := a.qp.State(); st != verbs.StateErr {
				t.Fatalf("its QP is in %v", st)
			}
			// A closed device must not come back to life through its QPs.
			if err := a.qp.Modify(verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState); err == nil {
				if err := verbs.BringUp(a.qp, a.endpoint(), b.endpoint(), a.conn); err == nil {
					t.Fatal("a QP of a closed device was brought up")
				}
			}
			for name, c := range map[string]func() error{"PD": a.pd.Close, "CQ": a.recv.Close, "MR": a.mr.Close, "QP": a.qp.Close} {
				if err := c(); err != nil {
					t.Errorf("closing the %s after the device: %v", name, err)
				}
			}
		}},
		{"objects in use refuse to be closed, and say so", func(t *T) {
			a, _ := t.pair()
			t.refusal("PD.Close with QP and MR", a.pd.Close(), verbs.ErrBusy)
			t.refusal("CQ.Close with a QP", a.send.Close(), verbs.ErrBusy)
			if err := a.qp.Close(); err != nil {
				t.Fatal(err)
			}
			t.refusal("PD.Close with an MR", a.pd.Close(), verbs.ErrBusy)
			for _, c := range []func() error{a.send.Close, a.recv.Close, a.mr.Close, a.pd.Close, a.send.Close, a.recv.Close, a.mr.Close, a.pd.Close} {
				if err := c(); err != nil {
					t.Fatal(err)
				}
			}
		}},
		{"QPs may be reset and brought up again under traffic", func(t *T) {
			a, b := t.pair(impatient)
			var stop atomic.Bool
			g := t.newGroup()
			for range 2 {
				g.start(func() {
					for !stop.Load() && !t.stop.Load() {
						_, _ = a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpWrite, Flags: verbs.FlagSignaled, SGL: a.sgl(0, 64), RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()},
							{Opcode: verbs.OpSend, Flags: verbs.FlagSignaled, SGL: a.sgl(0, 64)}})
						_, _ = b.qp.PostRecv([]verbs.RecvWR{{SGL: b.sgl(64, 64)}})
						var wcs [8]verbs.WC
						a.send.Poll(wcs[:])
						b.recv.Poll(wcs[:])
						t.breathe()
					}
				})
			}
			for range t.rounds(100) {
				for _, s := range []*side{b, a} {
					s.modify(verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState)
				}
				// Under traffic a side may fail again at once; then the next round mends it.
				_ = verbs.BringUp(b.qp, b.endpoint(), a.endpoint(), b.conn)
				_ = verbs.BringUp(a.qp, a.endpoint(), b.endpoint(), a.conn)
				t.breathe()
			}
			stop.Store(true)
			g.wait()
			a.conn = verbs.DefaultConnAttr(a.dev.Attr())
			a.conn.MTU, a.conn.RdAtomic = b.conn.MTU, b.conn.RdAtomic
			t.reconnect(a, b)
			a.do(a.to(b, verbs.OpWrite, 0, 64, 128))
		}},
	}
}

// loose registers memory that the test itself frees.
func (t *T) loose(s *side, n uint64) (*verbs.Memory, verbs.MR) {
	t.Helper()
	mem, err := verbs.MapMemory(n, verbs.HugeNever)
	if err != nil {
		t.Fatal(err)
	}
	mr, err := s.pd.RegisterMR(mem, verbs.AccessAll)
	if err != nil {
		t.Fatal(err)
	}
	return mem, mr
}

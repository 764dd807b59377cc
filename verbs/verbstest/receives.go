package verbstest

import "fjord/verbs"

// RNR timer codes.
const (
	rnrShort = 1  // 10 µs
	rnrLong  = 18 // 5.12 ms
)

// unready gives the sender n retries while the receiver tells it to wait for
// the time of code.
func unready(n, code uint8) func(c *conf) {
	return func(c *conf) { c.conn.RNRRetry, c.conn.MinRNRTimer = n, code }
}

func receives() []spec {
	return []spec{
		{"receives are consumed and completed in the order of posting", func(t *T) {
			a, b := t.pair()
			var ids []uint64
			for i := range 8 {
				ids = append(ids, b.receive(512*i, 512))
			}
			for i := range 8 {
				op := verbs.OpSend
				if i%3 == 2 {
					op = verbs.OpWriteImm
				}
				a.poke(0, fill(byte(i), 10+i))
				a.do(a.to(b, op, 0, 10+i, 16384))
			}
			for i := range 8 {
				if wc := b.arrived(); wc.ID != ids[i] || wc.ByteLen != uint32(10+i) {
					t.Fatalf("receive %d: %v", i, show(wc))
				}
				if i%3 != 2 {
					b.holds("received", 512*i, fill(byte(i), 10+i))
				}
			}
		}},
		{"receives posted in INIT and RTR count", func(t *T) {
			a, b := t.pair(idle)
			c := b.conn
			b.modify(verbs.QPAttr{State: verbs.StateInit, Port: 1, Access: c.Access},
				maskInit)
			first := b.receive(0, 64)
			b.modify(b.rtr(a), maskRTR)
			second := b.receive(64, 64)
			if err := verbs.BringUp(a.qp, a.endpoint(), b.endpoint(), a.conn); err != nil {
				t.Fatal(err)
			}
			for _, id := range []uint64{first, second} {
				a.do(a.to(b, verbs.OpSend, 0, 64, 0))
				if wc := b.arrived(); wc.ID != id {
					t.Fatal(show(wc))
				}
			}
		}},
		{"a responder in RTR serves requests", func(t *T) {
			a, b := t.pair(idle)
			b.modify(verbs.QPAttr{State: verbs.StateInit, Port: 1, Access: b.conn.Access},
				maskInit)
			b.modify(b.rtr(a), maskRTR)
			if err := verbs.BringUp(a.qp, a.endpoint(), b.endpoint(), a.conn); err != nil {
				t.Fatal(err)
			}
			a.poke(0, fill(1, 64))
			a.do(a.to(b, verbs.OpWrite, 0, 64, 0))
			a.do(a.to(b, verbs.OpRead, 64, 64, 0))
			b.receive(128, 64)
			a.do(a.to(b, verbs.OpSend, 0, 64, 0))
			b.arrived()
		}},
		{"a message longer than the receive fails on both sides, and the rest is flushed", func(t *T) {
			for _, op := range []verbs.Opcode{verbs.OpSend, verbs.OpSendImm} {
				a, b := t.pair()
				short, next := b.receive(0, 63), b.receive(64, 64)
				wr := a.to(b, op, 0, 64, 0)
				behind := a.to(b, verbs.OpWrite, 0, 64, 128)
				behind.Flags = 0
				a.poke(0, fill(1, 64))
				a.post(wr, behind)
				a.ends(wr, verbs.StatusRemInvReqErr)
				a.ends(behind, verbs.StatusWRFlushErr)
				t.same(b.arrived(), verbs.WC{ID: short, Status: verbs.StatusLocLenErr, Opcode: verbs.WCRecv, QPN: b.qp.Num()})
				t.same(b.arrived(), verbs.WC{ID: next, Status: verbs.StatusWRFlushErr, Opcode: verbs.WCRecv, QPN: b.qp.Num()})
				a.is(verbs.StateErr)
				b.is(verbs.StateErr)
				b.holds("behind the failed SEND", 64, make([]byte, 128))
			}
		}},
		{"a receive into memory that it may not use fails on both sides", func(t *T) {
			a, b := t.pair()
			other := t.register(t.newPD(b.dev), 4096, verbs.AccessAll)
			readOnly := t.register(b.pd, 4096, verbs.AccessRemoteRead)
			gone := t.register(b.pd, 4096, verbs.AccessAll)
			goneSGE := verbs.SGE{Addr: gone.Addr(), Length: 64, LKey: gone.LKey()}
			bad := []struct {
				name string
				sge  verbs.SGE
			}{
				{"unknown lkey", verbs.SGE{Addr: b.mr.Addr(), Length: 64, LKey: ^b.mr.LKey()}},
				{"past the end of the region", verbs.SGE{Addr: b.mr.Addr() + b.mr.Length() - 63, Length: 64, LKey: b.mr.LKey()}},
				{"wraps around", verbs.SGE{Addr: ^uint64(0) - 7, Length: 64, LKey: b.mr.LKey()}},
				{"another protection domain", verbs.SGE{Addr: other.Addr(), Length: 64, LKey: other.LKey()}},
				{"no local write", verbs.SGE{Addr: readOnly.Addr(), Length: 64, LKey: readOnly.LKey()}},
				{"deregistered after posting", goneSGE},
			}
			for _, c := range bad {
				id := b.receiveWR(verbs.RecvWR{ID: 5, SGL: []verbs.SGE{c.sge}})
				if c.sge == goneSGE {
					if err := gone.Close(); err != nil {
						t.Fatal(err)
					}
				}
				wr := a.to(b, verbs.OpSend, 0, 64, 0)
				a.post(wr)
				wc := b.arrived()
				if wc.Status != verbs.StatusLocProtErr || wc.ID != id {
					t.Fatalf("%s: receive completed as %v", c.name, show(wc))
				}
				a.ends(wr, verbs.StatusRemOpErr)
				a.is(verbs.StateErr)
				b.is(verbs.StateErr)
				t.reconnect(a, b)
			}
		}},
		{"a SEND without a receive fails when its retries are used up", func(t *T) {
			for _, op := range []verbs.Opcode{verbs.OpSend, verbs.OpSendImm, verbs.OpWriteImm} {
				for _, retries := range []uint8{0, 1, 3} {
					a, b := t.pair(unready(retries, rnrShort))
					a.poke(0, fill(1, 64))
					wr := a.to(b, op, 0, 64, 64)
					second, third := a.to(b, verbs.OpWrite, 0, 64, 128), a.to(b, op, 0, 64, 64)
					second.Flags = 0
					a.post(wr, second, third)
					a.ends(wr, verbs.StatusRNRRetryExcErr)
					a.ends(second, verbs.StatusWRFlushErr)
					a.ends(third, verbs.StatusWRFlushErr)
					a.is(verbs.StateErr)
					b.holds("behind the failed SEND", 128, make([]byte, 64))
					if st := b.qp.State(); st != verbs.StateRTS {
						t.Fatalf("the receiver went to %v", st)
					}
					t.none(b.recv, "after a SEND that found no receive")
				}
			}
		}},
		{"a SEND without a receive is retried as often as rnr_retry says, each time after the receiver's timer", func(t *T) {
			a, b := t.pair(unready(2, rnrLong))
			start := t.rt.Now()
			a.fails(a.to(b, verbs.OpSend, 0, 8, 0), verbs.StatusRNRRetryExcErr)
			if d := t.rt.Now() - start; d < verbs.RNRTimer(rnrLong)*3/2 {
				t.Fatalf("gave up after %d µs, two waits are %d µs", d/1000, 2*verbs.RNRTimer(rnrLong)/1000)
			}
		}},
		{"the receiver's RNR timer may be changed while it works", func(t *T) {
			a, b := t.pair(unready(1, rnrLong))
			b.modify(verbs.QPAttr{MinRNRTimer: 25}, verbs.AttrMinRNRTimer) // 61.44 ms
			start := t.rt.Now()
			a.fails(a.to(b, verbs.OpSend, 0, 8, 0), verbs.StatusRNRRetryExcErr)
			if d := t.rt.Now() - start; d < verbs.RNRTimer(25)*3/4 {
				t.Fatalf("gave up after %d µs, the timer says %d µs", d/1000, verbs.RNRTimer(25)/1000)
			}
		}},
		{"a receive in time saves the waiting SEND", func(t *T) {
			a, b := t.pair(unready(6, rnrLong))
			a.poke(0, fill(1, 64))
			wr := a.to(b, verbs.OpSend, 0, 64, 0)
			a.post(wr)
			t.quiet()
			t.none(a.send, "before a receive is posted")
			id := b.receive(0, 64)
			if wc := a.sent(); wc.Status != verbs.StatusSuccess {
				t.Fatal(show(wc))
			}
			t.same(b.arrived(), verbs.WC{ID: id, ByteLen: 64, QPN: b.qp.Num(), Opcode: verbs.WCRecv})
			b.holds("received", 0, fill(1, 64))
			t.rt.Sleep(7 * verbs.RNRTimer(rnrLong))
			if st := a.qp.State(); st != verbs.StateRTS {
				t.Fatalf("the sender went to %v after its SEND had succeeded", st)
			}
		}},
		{"with rnr_retry 7 a SEND waits for ever, and everything behind it too", func(t *T) {
			a, b := t.pair(unready(7, rnrShort))
			a.poke(0, fill(1, 64))
			a.poke(64, fill(2, 64))
			wrs := []verbs.SendWR{
				a.to(b, verbs.OpWrite, 0, 8, 2048),
				a.to(b, verbs.OpSend, 0, 64, 0),
				a.to(b, verbs.OpWrite, 64, 64, 1024),
				a.to(b, verbs.OpSend, 64, 64, 0),
				a.to(b, verbs.OpWriteImm, 0, 64, 3072),
				a.to(b, verbs.OpRead, 4096, 64, 1024),
			}
			wrs[2].Flags = 0
			a.post(wrs[:3]...)
			a.post(wrs[3:]...)
			expect := func(i int) {
				t.Helper()
				if wc := a.sent(); wc.Status != verbs.StatusSuccess || wc.ID != wrs[i].ID {
					t.Fatalf("request %d: %v", i, show(wc))
				}
			}
			expect(0)
			t.quiet()
			t.none(a.send, "while the receiver has no receive")
			b.holds("the WRITE behind the waiting SEND", 1024, make([]byte, 64))

			first := b.receive(0, 64)
			expect(1)
			if wc := b.arrived(); wc.ID != first {
				t.Fatal(show(wc))
			}
			b.holds("the first SEND", 0, fill(1, 64))
			t.quiet()
			t.none(a.send, "while the second SEND waits")
			b.holds("the WRITE between the SENDs", 1024, fill(2, 64))
			a.holds("the READ behind the waiting SEND", 4096, make([]byte, 64))

			second, third := b.receive(64, 64), b.receive(128, 64)
			for _, i := range []int{3, 4, 5} {
				expect(i)
			}
			for _, id := range []uint64{second, third} {
				if wc := b.arrived(); wc.ID != id || wc.Status != verbs.StatusSuccess {
					t.Fatal(show(wc))
				}
			}
			b.holds("the second SEND", 64, fill(2, 64))
			b.holds("the WRITE_WITH_IMM", 3072, fill(1, 64))
			a.holds("the READ", 4096, fill(2, 64))
		}},
		{"requests that are posted while a SEND waits keep their place", func(t *T) {
			a, b := t.pair(unready(7, rnrShort))
			n := 10
			for i := range n {
				a.setWord(8*i, uint64(i)+1)
				wr := a.to(b, verbs.OpSend, 8*i, 8, 0)
				wr.ID = uint64(i)
				a.post(wr)
			}
			for i := range n {
				b.receive(8*i, 8)
			}
			for i := range n {
				if wc := a.sent(); wc.ID != uint64(i) || wc.Status != verbs.StatusSuccess {
					t.Fatalf("SEND %d: %v", i, show(wc))
				}
				b.arrived()
				if got := b.word(8 * i); got != uint64(i)+1 {
					t.Fatalf("receive %d holds %d", i, got)
				}
			}
		}},
		{"a waiting SEND fails when its receiver leaves", func(t *T) {
			leave := []struct {
				name string
				do   func(b *side) error
			}{
				{"to ERR", func(b *side) error { return b.qp.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState) }},
				{"to RESET", func(b *side) error { return b.qp.Modify(verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState) }},
				{"by QP.Close", func(b *side) error { return b.qp.Close() }},
				{"by Device.Close", func(b *side) error { return b.dev.Close() }},
			}
			for _, l := range leave {
				a, b := t.pair(impatient, unready(7, rnrShort))
				wr := a.to(b, verbs.OpSend, 0, 8, 0)
				behind := a.to(b, verbs.OpWrite, 0, 8, 0)
				a.post(wr, behind)
				t.quiet()
				t.none(a.send, "while the receiver has no receive")
				if err := l.do(b); err != nil {
					t.Fatalf("%s: %v", l.name, err)
				}
				t.Logf("the receiver leaves %s", l.name)
				a.ends(wr, verbs.StatusRetryExcErr)
				a.ends(behind, verbs.StatusWRFlushErr)
				a.is(verbs.StateErr)
			}
		}},
		{"two QPs may send to each other while both wait", func(t *T) {
			a, b := t.pair(unready(7, rnrShort))
			wa, wb := a.to(b, verbs.OpSend, 0, 8, 0), b.to(a, verbs.OpSend, 0, 8, 0)
			a.post(wa)
			b.post(wb)
			a.receive(64, 8)
			b.receive(64, 8)
			for _, s := range []*side{a, b} {
				if wc := s.sent(); wc.Status != verbs.StatusSuccess {
					t.Fatal(show(wc))
				}
				s.arrived()
			}
		}},
	}
}

const maskRTR = verbs.AttrState | verbs.AttrDest | verbs.AttrPathMTU | verbs.AttrDestQPN | verbs.AttrRQPSN |
	verbs.AttrMaxDestRdAtomic | verbs.AttrMinRNRTimer

const maskRTS = verbs.AttrState | verbs.AttrSQPSN | verbs.AttrTimeout | verbs.AttrRetryCnt | verbs.AttrRNRRetry | verbs.AttrMaxRdAtomic

const maskInit = verbs.AttrState | verbs.AttrPKeyIndex | verbs.AttrPort | verbs.AttrAccess

// rtr returns the attributes with which the side becomes ready to receive from
// peer.
func (s *side) rtr(peer *side) verbs.QPAttr {
	e := peer.endpoint()
	return verbs.QPAttr{State: verbs.StateRTR, DestGID: e.GID, DestQPN: e.QPN, RQPSN: e.PSN, PathMTU: s.conn.MTU,
		MaxDestRdAtomic: s.conn.RdAtomic, MinRNRTimer: s.conn.MinRNRTimer}
}

func (s *side) rts() verbs.QPAttr {
	return verbs.QPAttr{State: verbs.StateRTS, SQPSN: s.psn, Timeout: s.conn.Timeout, RetryCnt: s.conn.RetryCnt,
		RNRRetry: s.conn.RNRRetry, MaxRdAtomic: s.conn.RdAtomic}
}

package verbstest

import (
	"fmt"

	"fjord/verbs"
)

func states() []spec {
	return []spec{
		{"a new QP is in RESET, without attributes", func(t *T) {
			s, _ := t.at(verbs.StateReset)
			if got := s.qp.Query(); got != (verbs.QPAttr{}) {
				t.Fatalf("Query says %+v", got)
			}
			if n := s.qp.Num(); n == 0 || n>>24 != 0 {
				t.Fatalf("QPN %#x is not a number of 24 bits above 0", n)
			}
		}},
		{"Query returns what was set", func(t *T) {
			s, peer := t.pair(idle)
			rd := s.conn.RdAtomic
			want := verbs.QPAttr{State: verbs.StateInit, Port: 1, Access: verbs.AccessRemoteRead | verbs.AccessRemoteAtomic}
			check := func() {
				t.Helper()
				if got := s.qp.Query(); got != want {
					t.Fatalf("Query says  %+v\nright would be %+v", got, want)
				}
			}
			s.modify(want, maskInit)
			check()
			want.State, want.PathMTU, want.DestGID, want.DestQPN = verbs.StateRTR, 256, peer.endpoint().GID, peer.qp.Num()
			want.RQPSN, want.MaxDestRdAtomic, want.MinRNRTimer = 0xffffff, rd, 31
			s.modify(want, maskRTR)
			check()
			want.State, want.SQPSN, want.Timeout, want.RetryCnt, want.RNRRetry, want.MaxRdAtomic = verbs.StateRTS, 0x123456, 31, 6, 5, rd-rd/2
			s.modify(want, maskRTS)
			check()
			s.modify(verbs.QPAttr{Access: verbs.AccessRemoteWrite, MinRNRTimer: 7, Timeout: 1, State: verbs.StateErr}, verbs.AttrAccess|verbs.AttrMinRNRTimer)
			want.Access, want.MinRNRTimer = verbs.AccessRemoteWrite, 7
			check()
			s.modify(verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState)
			want = verbs.QPAttr{}
			check()
		}},
		{"PostSend in RESET, INIT and RTR is an error at once", func(t *T) {
			for _, st := range []verbs.QPState{verbs.StateReset, verbs.StateInit, verbs.StateRTR} {
				s, peer := t.at(st)
				n, err := s.qp.PostSend([]verbs.SendWR{s.to(peer, verbs.OpWrite, 0, 8, 0)})
				t.refusal("PostSend in "+st.String(), err, verbs.ErrState, st.String())
				if n != 0 || s.qp.State() != st {
					t.Fatalf("accepted %d, QP in %v", n, s.qp.State())
				}
				t.none(s.send, "after a refused post")
			}
		}},
		{"PostRecv in RESET is an error at once", func(t *T) {
			s, _ := t.at(verbs.StateReset)
			n, err := s.qp.PostRecv([]verbs.RecvWR{{SGL: s.sgl(0, 8)}})
			t.refusal("PostRecv", err, verbs.ErrState, "RESET")
			if n != 0 {
				t.Fatalf("accepted %d", n)
			}
		}},
		{"posting in ERR completes as flushed, signaled or not", func(t *T) {
			a, b := t.pair()
			a.toErr()
			a.poke(0, fill(1, 64))
			var wrs []verbs.SendWR
			for i, op := range t.everyOp() {
				wr := a.to(b, op, 0, 8, 64)
				if i%2 == 1 {
					wr.Flags = 0
				}
				wrs = append(wrs, wr)
			}
			a.post(wrs...)
			for _, wr := range wrs {
				t.same(a.sent(), verbs.WC{ID: wr.ID, Status: verbs.StatusWRFlushErr, Opcode: wr.Opcode.Completion(), QPN: a.qp.Num()})
			}
			for range 3 {
				id := a.receive(0, 64)
				t.same(a.arrived(), verbs.WC{ID: id, Status: verbs.StatusWRFlushErr, Opcode: verbs.WCRecv, QPN: a.qp.Num()})
			}
			b.holds("the peer", 0, make([]byte, 256))
			if b.qp.State() != verbs.StateRTS {
				t.Fatalf("the peer went to %v", b.qp.State())
			}
		}},
		{"a move to ERR flushes both queues in order, unsignaled requests too", func(t *T) {
			a, b := t.pair()
			var wrs []verbs.SendWR
			var recvs []uint64
			for i := range 6 {
				op := verbs.OpSend // the first waits for a receive for ever
				if i%2 == 1 {
					op = verbs.OpWrite
				}
				wr := a.to(b, op, 0, 8, 64)
				if i%3 != 0 {
					wr.Flags = 0
				}
				wrs = append(wrs, wr)
				recvs = append(recvs, a.receive(64, 64))
			}
			a.poke(0, fill(1, 8))
			a.post(wrs...)
			t.quiet()
			a.toErr()
			for _, wr := range wrs {
				t.same(a.sent(), verbs.WC{ID: wr.ID, Status: verbs.StatusWRFlushErr, Opcode: wr.Opcode.Completion(), QPN: a.qp.Num()})
			}
			for _, id := range recvs {
				t.same(a.arrived(), verbs.WC{ID: id, Status: verbs.StatusWRFlushErr, Opcode: verbs.WCRecv, QPN: a.qp.Num()})
			}
			t.quiet()
			t.none(a.send, "after the flush")
			t.none(a.recv, "after the flush")
			b.receive(0, 8)
			t.quiet()
			t.none(b.recv, "after the sender was moved to ERR")
			b.holds("the peer", 0, make([]byte, 128))
		}},
		{"a move to ERR flushes receives in INIT, RTR and RTS", func(t *T) {
			for _, st := range []verbs.QPState{verbs.StateInit, verbs.StateRTR, verbs.StateRTS} {
				s, _ := t.at(st)
				first, second := s.receive(0, 8), s.receive(8, 8)
				s.toErr()
				for _, id := range []uint64{first, second} {
					t.same(s.arrived(), verbs.WC{ID: id, Status: verbs.StatusWRFlushErr, Opcode: verbs.WCRecv, QPN: s.qp.Num()})
				}
			}
		}},
		{"a failed request flushes those behind it and spares those before", func(t *T) {
			a, b := t.pair()
			a.poke(0, fill(1, 64))
			wrs := make([]verbs.SendWR, 6)
			for i := range wrs {
				wrs[i] = a.to(b, verbs.OpWrite, 0, 8, 64*i)
			}
			wrs[0].Flags, wrs[2].Flags, wrs[4].Flags = 0, 0, 0 // the third fails, unsignaled or not
			wrs[2].RKey ^= 1 << 31
			id := a.receive(64, 64)
			a.post(wrs...)
			for i, want := range []verbs.Status{1: verbs.StatusSuccess, verbs.StatusRemAccessErr, verbs.StatusWRFlushErr, verbs.StatusWRFlushErr, verbs.StatusWRFlushErr} {
				if i > 0 {
					t.same(a.sent(), verbs.WC{ID: wrs[i].ID, Status: want, Opcode: verbs.WCWrite, QPN: a.qp.Num()})
				}
			}
			t.same(a.arrived(), verbs.WC{ID: id, Status: verbs.StatusWRFlushErr, Opcode: verbs.WCRecv, QPN: a.qp.Num()})
			a.is(verbs.StateErr)
			for i := range wrs {
				want := make([]byte, 8)
				if i < 2 {
					want = fill(1, 8)
				}
				b.holds(fmt.Sprintf("target %d", i), 64*i, want)
			}
		}},
		{"the way back from ERR is RESET, INIT, RTR, RTS", func(t *T) {
			a, b := t.pair()
			for i := range 5 {
				wr := a.to(b, verbs.OpRead, 0, 8, 0)
				wr.RKey = ^wr.RKey
				a.fails(wr, verbs.StatusRemAccessErr)
				b.is(verbs.StateErr)
				t.reconnect(a, b)
				a.poke(0, fill(byte(i), 64))
				a.do(a.to(b, verbs.OpWrite, 0, 64, 0))
				b.holds("written", 0, fill(byte(i), 64))
				b.receive(64, 64)
				a.do(a.to(b, verbs.OpSend, 0, 64, 0))
				if wc := b.arrived(); wc.Status != verbs.StatusSuccess {
					t.Fatal(show(wc))
				}
				b.post(b.to(a, verbs.OpWrite, 0, 64, 128))
				if wc := b.sent(); wc.Status != verbs.StatusSuccess {
					t.Fatal(show(wc))
				}
			}
		}},
		{"RESET forgets receives, waiting requests and completions, and gives all slots back", func(t *T) {
			a, b := t.pair(func(c *conf) { c.init.MaxSendWR, c.init.MaxRecvWR = 8, 8 })
			for range 3 {
				for range 8 {
					a.receive(0, 8)
				}
				b.receive(64, 8)
				b.receive(64, 8)
				for range 3 { // the third waits
					a.post(a.to(b, verbs.OpSend, 0, 8, 0))
				}
				a.poke(0, fill(1, 8))
				a.post(a.to(b, verbs.OpWrite, 0, 8, 0))
				t.quiet()
				t.reconnect(a, b)
				t.quiet()
				for _, cq := range []verbs.CQ{a.send, a.recv, b.send, b.recv} {
					t.none(cq, "after RESET")
				}
				b.holds("the target of the forgotten WRITE", 0, make([]byte, 8))
				for range 8 {
					a.receive(0, 8)
				}
				for range 7 {
					wr := a.to(b, verbs.OpWrite, 0, 8, 128)
					wr.Flags = 0
					a.post(wr)
				}
				id := b.receive(64, 8)
				a.do(a.to(b, verbs.OpSend, 0, 8, 0))
				if wc := b.arrived(); wc.ID != id {
					t.Fatal(show(wc))
				}
				for range 20 { // slots come and go as before
					b.receive(64, 8)
					a.do(a.to(b, verbs.OpSend, 0, 8, 0))
					b.arrived()
				}
				for range 8 {
					b.receive(64, 8)
				}
				t.reconnect(a, b)
			}
		}},
		{"completions of others stay in a CQ when one of its QPs is reset", func(t *T) {
			a, b := t.pair()
			a2, b2 := t.pair()
			second, err := a.pd.CreateQP(verbs.QPInit{SendCQ: a.send, RecvCQ: a.recv, MaxSendWR: 16, MaxSendSGE: 1})
			if err != nil {
				t.Fatal(err)
			}
			a2.qp, a2.mr, a2.send = second, a.mr, a.send
			t.reconnect(a2, b2)
			a.post(a.to(b, verbs.OpWrite, 0, 8, 0))
			a2.post(a2.to(b2, verbs.OpWrite, 0, 8, 0), a2.to(b2, verbs.OpWrite, 0, 8, 0))
			t.quiet()
			a.modify(verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState)
			for range 2 {
				if wc := a2.sent(); wc.QPN != second.Num() || wc.Status != verbs.StatusSuccess {
					t.Fatal(show(wc))
				}
			}
			t.none(a.send, "of the QP in RESET")
		}},
		{"a closed QP refuses everything, and closing twice is no error", func(t *T) {
			a, b := t.pair()
			for range 2 {
				if err := a.qp.Close(); err != nil {
					t.Fatal(err)
				}
			}
			_, err := a.qp.PostSend([]verbs.SendWR{a.to(b, verbs.OpWrite, 0, 8, 0)})
			t.refusal("PostSend", err, verbs.ErrClosed)
			_, err = a.qp.PostRecv([]verbs.RecvWR{{SGL: a.sgl(0, 8)}})
			t.refusal("PostRecv", err, verbs.ErrClosed)
			for _, st := range everyState() {
				t.refusal("Modify", a.qp.Modify(a.good(b, st), verbs.AttrState), verbs.ErrClosed)
			}
		}},
		{"Close forgets completions that nobody polled", func(t *T) {
			a, b := t.pair()
			a.post(a.to(b, verbs.OpWrite, 0, 8, 0))
			a.receive(0, 8)
			t.quiet()
			if err := a.qp.Close(); err != nil {
				t.Fatal(err)
			}
			t.quiet()
			t.none(a.send, "after Close")
			t.none(a.recv, "after Close")
		}},
	}
}

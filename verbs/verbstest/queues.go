package verbstest

import (
	"fmt"

	"fjord/verbs"
)

func narrow(send, recv int) func(c *conf) {
	return func(c *conf) { c.init.MaxSendWR, c.init.MaxRecvWR = send, recv }
}

func (s *side) unsignaled(peer *side, op verbs.Opcode, off, n, roff int) verbs.SendWR {
	wr := s.to(peer, op, off, n, roff)
	wr.Flags = 0
	return wr
}

// full checks that the send queue refuses one more request.
func (s *side) full(peer *side) {
	s.t.Helper()
	n, err := s.qp.PostSend([]verbs.SendWR{s.unsignaled(peer, verbs.OpWrite, 0, 8, 0)})
	s.t.refusal("PostSend on a full queue", err, verbs.ErrQueueFull)
	if n != 0 {
		s.t.Fatalf("accepted %d", n)
	}
}

func queues() []spec {
	return []spec{
		{"an unsignaled request keeps its slot until a later signaled one has been polled", func(t *T) {
			a, b := t.pair(narrow(8, 8))
			for range 3 {
				for range 6 {
					a.post(a.unsignaled(b, verbs.OpWrite, 0, 8, 0))
				}
				a.post(a.to(b, verbs.OpWrite, 0, 8, 0), a.unsignaled(b, verbs.OpWrite, 0, 8, 0))
				a.full(b)
				t.quiet() // all have executed, and one has completed
				a.full(b)
				if wc := a.sent(); wc.Status != verbs.StatusSuccess {
					t.Fatal(show(wc))
				}
				for range 6 { // the one behind the signaled keeps its slot
					a.post(a.unsignaled(b, verbs.OpWrite, 0, 8, 0))
				}
				a.do(a.to(b, verbs.OpWrite, 0, 8, 0)) // the eighth; its completion frees all
			}
		}},
		{"without any signaled request the queue stays full", func(t *T) {
			a, b := t.pair(narrow(4, 4))
			for range 4 {
				a.post(a.unsignaled(b, verbs.OpWrite, 0, 8, 0))
			}
			for range 3 {
				a.full(b)
				t.quiet()
				t.none(a.send, "after unsignaled requests")
			}
			t.reconnect(a, b)
			a.do(a.to(b, verbs.OpWrite, 0, 8, 0))
		}},
		{"a batch that finds too few slots is accepted in part, and the rest is not executed", func(t *T) {
			a, b := t.pair(narrow(8, 8))
			var wrs []verbs.SendWR
			for i := range 12 {
				a.setWord(8*i, uint64(i)+1)
				wrs = append(wrs, a.to(b, verbs.OpWrite, 8*i, 8, 8*i))
			}
			n, err := a.qp.PostSend(wrs)
			t.refusal("PostSend of 12 on a queue of 8", err, verbs.ErrQueueFull)
			if n != 8 {
				t.Fatalf("accepted %d, right is 8", n)
			}
			for i := range 8 {
				if wc := a.sent(); wc.ID != wrs[i].ID || wc.Status != verbs.StatusSuccess {
					t.Fatal(show(wc))
				}
			}
			t.quiet()
			t.none(a.send, "after the accepted ones")
			for i := range 12 {
				want := uint64(i) + 1
				if i >= 8 {
					want = 0
				}
				if got := b.word(8 * i); got != want {
					t.Fatalf("word %d is %d, right is %d", i, got, want)
				}
			}
			a.post(wrs[8:]...)
			for i := 8; i < 12; i++ {
				if wc := a.sent(); wc.ID != wrs[i].ID {
					t.Fatal(show(wc))
				}
			}
		}},
		{"a batch with a wrong request is accepted up to that", func(t *T) {
			a, b := t.pair()
			for _, bad := range []verbs.Opcode{verbs.OpInvalid, verbs.Opcode(verbs.NumOpcodes), 255} {
				b.poke(0, make([]byte, 64))
				var wrs []verbs.SendWR
				for i := range 6 {
					a.setWord(8*i, 7)
					wrs = append(wrs, a.to(b, verbs.OpWrite, 8*i, 8, 8*i))
				}
				wrs[3].Opcode = bad
				n, err := a.qp.PostSend(wrs)
				t.refusal("PostSend", err, verbs.ErrInvalid, bad.String())
				if n != 3 {
					t.Fatalf("accepted %d, right is 3", n)
				}
				for range 3 {
					if wc := a.sent(); wc.Status != verbs.StatusSuccess {
						t.Fatal(show(wc))
					}
				}
				t.quiet()
				t.none(a.send, "after the accepted ones")
				if b.word(16) != 7 || b.word(24) != 0 || b.word(32) != 0 {
					t.Fatal("what stands behind a wrong request was executed, or what stands before it was not")
				}
			}
		}},
		{"an empty batch is accepted", func(t *T) {
			a, _ := t.pair()
			if n, err := a.qp.PostSend(nil); n != 0 || err != nil {
				t.Fatal(n, err)
			}
			if n, err := a.qp.PostRecv(nil); n != 0 || err != nil {
				t.Fatal(n, err)
			}
			if n := a.send.Poll(nil); n != 0 {
				t.Fatal(n)
			}
		}},
		{"a full receive queue is an error at once, and nothing is lost", func(t *T) {
			a, b := t.pair(narrow(16, 8))
			recvs := make([]verbs.RecvWR, 12)
			for i := range recvs {
				recvs[i] = verbs.RecvWR{ID: uint64(i), SGL: b.sgl(64*i, 64)}
			}
			n, err := b.qp.PostRecv(recvs)
			t.refusal("PostRecv of 12 on a queue of 8", err, verbs.ErrQueueFull)
			if n != 8 {
				t.Fatalf("accepted %d, right is 8", n)
			}
			_, err = b.qp.PostRecv(recvs[8:9])
			t.refusal("PostRecv on a full queue", err, verbs.ErrQueueFull)
			for i := range 8 {
				a.do(a.to(b, verbs.OpSend, 0, 8, 0))
				if wc := b.arrived(); wc.ID != uint64(i) {
					t.Fatal(show(wc))
				}
				b.receive(0, 8)
			}
		}},
		{"a receive keeps its slot until its completion has been polled", func(t *T) {
			a, b := t.pair(narrow(16, 4))
			for range 3 {
				for range 4 {
					b.receive(0, 8)
				}
				for range 4 {
					a.do(a.to(b, verbs.OpSend, 0, 8, 0))
				}
				_, err := b.qp.PostRecv([]verbs.RecvWR{{SGL: b.sgl(0, 8)}})
				t.refusal("PostRecv before polling", err, verbs.ErrQueueFull)
				for range 4 {
					b.arrived()
				}
			}
		}},
		{"a QP without receive slots takes none", func(t *T) {
			a, b := t.pair(narrow(4, 0), unready(0, rnrShort))
			_, err := b.qp.PostRecv([]verbs.RecvWR{{}})
			t.refusal("PostRecv", err, verbs.ErrQueueFull)
			a.fails(a.to(b, verbs.OpSend, 0, 8, 0), verbs.StatusRNRRetryExcErr)
		}},
		{"in ERR too the queues have an end", func(t *T) {
			a, b := t.pair(narrow(4, 4))
			a.toErr()
			wr, recv := a.to(b, verbs.OpWrite, 0, 8, 0), verbs.RecvWR{SGL: a.sgl(0, 8)}
			sends, recvs := 0, 0
			for range 3 * a.send.Depth() {
				n, _ := a.qp.PostSend([]verbs.SendWR{wr})
				sends += n
				n, _ = a.qp.PostRecv([]verbs.RecvWR{recv})
				recvs += n
			}
			if sends != 4 || recvs != 4 {
				t.Fatalf("accepted %d sends and %d receives without a poll, right is 4 and 4", sends, recvs)
			}
			for range 4 {
				a.sent()
				a.arrived()
			}
			a.post(wr)
			a.receiveWR(recv)
		}},
		{"a CQ as deep as its QPs' queues never overflows", func(t *T) {
			a, b := t.pair(narrow(4, 4), func(c *conf) { c.depth = 8 })
			both := t.newCQ(b.dev, 8)
			qp, err := b.pd.CreateQP(verbs.QPInit{SendCQ: both, RecvCQ: both, MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1})
			if err != nil {
				t.Fatal(err)
			}
			b.qp, b.send, b.recv = qp, both, both
			t.reconnect(a, b)
			a.receive(0, 8)
			for range 20 { // as much as each call lets in, never a poll on this CQ
				_, _ = b.qp.PostRecv([]verbs.RecvWR{{SGL: b.sgl(0, 8)}})
				_, _ = b.qp.PostSend([]verbs.SendWR{b.to(a, verbs.OpWrite, 0, 8, 0)})
				_, _ = a.qp.PostSend([]verbs.SendWR{a.to(b, verbs.OpSend, 0, 8, 0)})
				t.breathe()
				for wc := make([]verbs.WC, 4); a.send.Poll(wc) > 0; {
				}
			}
			t.quiet()
			b.toErr()
			got, wc := 0, make([]verbs.WC, 32)
			t.eventually("4 sends and 4 receives have completed", func() bool { got += both.Poll(wc); return got >= 8 })
			t.quiet()
			if got += both.Poll(wc); got != 8 {
				t.Fatalf("%d completions of 4 sends and 4 receives", got)
			}
			t.noEvent(b.dev, verbs.EventCQError)
		}},
		{"a CQ holds its depth, and one more is an asynchronous error that takes its QPs to ERR", func(t *T) {
			a, b := t.pair()
			c, d := t.pair()
			cq := t.newCQ(t.a, 5)
			depth := cq.Depth()
			if depth < 5 {
				t.Fatalf("depth is %d, asked for were 5", depth)
			}
			if depth+1 > t.a.Attr().MaxQPWR {
				t.Skipf("the smallest CQ holds %d completions, a QP at most %d requests", depth, t.a.Attr().MaxQPWR)
			}
			other, _ := t.pair(idle) // shares the CQ as its receive CQ, and is in INIT
			for i, s := range []*side{a, other} {
				init := verbs.QPInit{SendCQ: cq, RecvCQ: s.recv, MaxSendWR: depth + 8, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}
				if i == 1 {
					init.SendCQ, init.RecvCQ = s.send, cq
				}
				qp, err := s.pd.CreateQP(init)
				if err != nil {
					t.Fatal(err)
				}
				s.qp = qp
			}
			a.send = cq
			t.reconnect(a, b)
			t.advance(other, b, verbs.StateInit)
			other.receive(0, 8)
			for range depth {
				a.post(a.to(b, verbs.OpWrite, 0, 8, 0))
			}
			t.quiet()
			for range depth {
				if wc := a.sent(); wc.Status != verbs.StatusSuccess {
					t.Fatal(show(wc))
				}
			}
			t.noEvent(t.a, verbs.EventCQError)
			for range depth + 1 {
				a.post(a.to(b, verbs.OpWrite, 0, 8, 0))
			}
			a.is(verbs.StateErr)
			other.is(verbs.StateErr)
			t.event(t.a, func(e verbs.AsyncEvent) bool { return e.Type == verbs.EventCQError && e.CQ == cq })
			_, _ = a.qp.PostSend([]verbs.SendWR{a.to(b, verbs.OpWrite, 0, 8, 0)}) // must not hang
			for wc := make([]verbs.WC, depth); cq.Poll(wc) > 0; {
			}
			t.noEvent(t.a, verbs.EventCQError)
			// others are not concerned
			c.do(c.to(d, verbs.OpWrite, 0, 8, 0))
			// a lost CQ stays lost: a QP that comes back on it fails again, visibly
			if err := a.qp.Modify(verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState); err == nil {
				a.psn++
				if err := verbs.BringUp(a.qp, a.endpoint(), b.endpoint(), a.conn); err == nil {
					_, _ = a.qp.PostSend([]verbs.SendWR{a.to(b, verbs.OpWrite, 0, 8, 0)})
					a.is(verbs.StateErr)
				}
			}
			for _, qp := range []verbs.QP{a.qp, other.qp} {
				if err := qp.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if err := cq.Close(); err != nil {
				t.Fatal(err)
			}
		}},
		{"a receive CQ that overflows is an asynchronous error of the receiver", func(t *T) {
			a, b := t.pair(impatient)
			cq := t.newCQ(t.b, 4)
			depth := cq.Depth()
			if depth+1 > t.b.Attr().MaxQPWR {
				t.Skipf("the smallest CQ holds %d completions, a QP at most %d receives", depth, t.b.Attr().MaxQPWR)
			}
			qp, err := b.pd.CreateQP(verbs.QPInit{SendCQ: b.send, RecvCQ: cq, MaxSendWR: 4, MaxRecvWR: depth + 1, MaxRecvSGE: 1})
			if err != nil {
				t.Fatal(err)
			}
			b.qp, b.recv = qp, cq
			t.reconnect(a, b)
			for range depth + 1 {
				b.receive(0, 8)
			}
			for range depth {
				a.do(a.to(b, verbs.OpSend, 0, 8, 0))
			}
			_, _ = a.qp.PostSend([]verbs.SendWR{a.to(b, verbs.OpSend, 0, 8, 0)})
			b.is(verbs.StateErr)
			t.event(t.b, func(e verbs.AsyncEvent) bool { return e.Type == verbs.EventCQError && e.CQ == cq })
		}},
		{"one CQ serves several QPs, and each completion names its own", func(t *T) {
			const n = 4
			var a, b [n]*side
			for i := range n {
				a[i], b[i] = t.pair()
			}
			for i := 1; i < n; i++ {
				qp, err := a[0].pd.CreateQP(verbs.QPInit{SendCQ: a[0].send, RecvCQ: a[0].recv, MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1})
				if err != nil {
					t.Fatal(err)
				}
				a[i].qp, a[i].mr = qp, a[0].mr
				t.reconnect(a[i], b[i])
			}
			for round := range 10 {
				for i := range n {
					wr := a[i].to(b[i], verbs.OpWrite, 0, 8, 0)
					wr.ID = uint64(round)
					a[i].post(wr)
				}
			}
			next := map[uint32]uint64{}
			for range 10 * n {
				wc := a[0].sent()
				if wc.Status != verbs.StatusSuccess || wc.ID != next[wc.QPN] {
					t.Fatalf("%v, next of this QP would be %d", show(wc), next[wc.QPN])
				}
				next[wc.QPN]++
			}
			for i := range n {
				if next[a[i].qp.Num()] != 10 {
					t.Fatalf("QP %d has %d completions, right is 10", i, next[a[i].qp.Num()])
				}
			}
			// An error of one leaves the others alone.
			bad := a[1].to(b[1], verbs.OpWrite, 0, 8, 0)
			bad.RKey = ^bad.RKey
			a[1].post(bad)
			if wc := a[0].sent(); wc.QPN != a[1].qp.Num() || wc.Status != verbs.StatusRemAccessErr {
				t.Fatal(show(wc))
			}
			for _, i := range []int{0, 2, 3} {
				a[i].post(a[i].to(b[i], verbs.OpWrite, 0, 8, 0))
				if wc := a[0].sent(); wc.QPN != a[i].qp.Num() || wc.Status != verbs.StatusSuccess {
					t.Fatal(show(wc))
				}
			}
		}},
		{"one CQ may be send and receive CQ at once", func(t *T) {
			a, b := t.pair()
			qp, err := a.pd.CreateQP(verbs.QPInit{SendCQ: a.send, RecvCQ: a.send, MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1})
			if err != nil {
				t.Fatal(err)
			}
			a.qp = qp
			t.reconnect(a, b)
			for range 20 {
				id := a.receive(0, 8)
				b.do(b.to(a, verbs.OpSend, 0, 8, 0))
				if wc := a.sent(); wc.ID != id || wc.Opcode != verbs.WCRecv {
					t.Fatal(show(wc))
				}
				a.do(a.to(b, verbs.OpRead, 0, 8, 0))
			}
			id := a.receive(0, 8)
			a.toErr()
			t.same(a.sent(), verbs.WC{ID: id, Status: verbs.StatusWRFlushErr, Opcode: verbs.WCRecv, QPN: a.qp.Num()})
		}},
		{"Poll takes no more than it is given room for, oldest first", func(t *T) {
			a, b := t.pair()
			for i := range 10 {
				wr := a.to(b, verbs.OpWrite, 0, 8, 0)
				wr.ID = uint64(i)
				a.post(wr)
			}
			var got []uint64
			t.eventually("all have completed", func() bool {
				wcs := make([]verbs.WC, 5)
				n := a.send.Poll(wcs[:3])
				if wcs[3] != (verbs.WC{}) || n > 3 {
					t.Fatalf("Poll into 3 returned %d, and wrote %v behind", n, wcs[3])
				}
				for _, wc := range wcs[:n] {
					got = append(got, wc.ID)
				}
				return len(got) == 10
			})
			if fmt.Sprint(got) != "[0 1 2 3 4 5 6 7 8 9]" {
				t.Fatal(got)
			}
		}},
		{"queues go round many times", func(t *T) {
			a, b := t.pair(narrow(3, 3), func(c *conf) { c.depth = 3 })
			for i := range t.rounds(400) {
				a.setWord(0, uint64(i))
				b.receive(64, 8)
				a.post(a.unsignaled(b, verbs.OpWrite, 0, 8, 0))
				a.do(a.to(b, verbs.OpSend, 0, 8, 0))
				b.arrived()
				if b.word(0) != uint64(i) || b.word(64) != uint64(i) {
					t.Fatalf("round %d: words are %d and %d", i, b.word(0), b.word(64))
				}
			}
		}},
	}
}

// noEvent checks that a device has no event of that type queued.
func (t *T) noEvent(d verbs.Device, typ verbs.EventType) {
	t.Helper()
	var ev [1]verbs.AsyncEvent
	for d.PollEvents(ev[:]) == 1 {
		if ev[0].Type == typ {
			t.Fatalf("unexpected asynchronous event %v", ev[0].Type)
		}
	}
}

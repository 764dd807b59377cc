package verbstest

import (
	"bytes"

	"fjord/verbs"
)

// everyOp are the operations with a local piece; CAS and FAA only on devices
// that have them.
func (t *T) everyOp() []verbs.Opcode {
	ops := []verbs.Opcode{verbs.OpWrite, verbs.OpWriteImm, verbs.OpSend, verbs.OpSendImm, verbs.OpRead}
	if t.hasAtomics() {
		ops = append(ops, verbs.OpCAS, verbs.OpFAA)
	}
	return ops
}

// remoteOps are those that name memory of the peer, with the right they need.
func (t *T) remoteOps() []verbs.Opcode {
	ops := []verbs.Opcode{verbs.OpWrite, verbs.OpWriteImm, verbs.OpRead}
	if t.hasAtomics() {
		ops = append(ops, verbs.OpCAS, verbs.OpFAA)
	}
	return ops
}

func rightOf(op verbs.Opcode) verbs.Access {
	switch op {
	case verbs.OpRead:
		return verbs.AccessRemoteRead
	case verbs.OpCAS, verbs.OpFAA:
		return verbs.AccessRemoteAtomic
	case verbs.OpWrite, verbs.OpWriteImm:
		return verbs.AccessRemoteWrite
	case verbs.OpSend, verbs.OpSendImm, verbs.OpInvalid:
	}
	return 0
}

// size of the regions in these tests: their ends matter.
const region = 8192

// broken runs, for each operation, a request that turn has made wrong; it must
// end with want at the requester, change nothing at the responder, and leave
// that in RTS (a local fault) or take it to ERR (a remote one).
func (t *T) broken(a, b *side, ops []verbs.Opcode, want verbs.Status, what string, turn func(wr *verbs.SendWR)) {
	t.Helper()
	ground := fill(0x33, region)
	remote := want == verbs.StatusRemAccessErr || want == verbs.StatusRemInvReqErr || want == verbs.StatusRemOpErr
	for _, op := range ops {
		b.poke(0, ground)
		wr := a.to(b, op, 64, 8, 64)
		wr.CompareAdd, wr.Swap = b.word(64), 1
		turn(&wr)
		b.receive(4096, 64)
		a.post(wr)
		wc := a.sent()
		t.same(wc, verbs.WC{ID: wr.ID, Status: want, Opcode: op.Completion(), QPN: a.qp.Num()})
		a.is(verbs.StateErr)
		if remote {
			b.is(verbs.StateErr)
			if wc := b.arrived(); wc.Status != verbs.StatusWRFlushErr {
				t.Fatalf("%v, %s: the receive of the responder completed as %v, right is a flush", op, what, show(wc))
			}
		} else {
			t.none(b.recv, "after a local error of the requester")
			if st := b.qp.State(); st != verbs.StateRTS {
				t.Fatalf("%v, %s: a fault of the requester took the responder to %v", op, what, st)
			}
		}
		if got := b.peek(0, region); !bytes.Equal(got, ground) {
			t.Fatalf("%v, %s: refused, but %s", op, what, difference(got, ground))
		}
		t.reconnect(a, b)
	}
}

func localProtection() []spec {
	// bad is a specification of a local protection error.
	bad := func(name string, turn func(t *T, a, b *side) func(wr *verbs.SendWR)) spec {
		return spec{name + " is a local protection error", func(t *T) {
			a, b := t.pair(sized(region))
			t.broken(a, b, t.everyOp(), verbs.StatusLocProtErr, name, turn(t, a, b))
		}}
	}
	always := func(turn func(a *side, p *verbs.SGE)) func(t *T, a, b *side) func(wr *verbs.SendWR) {
		return func(_ *T, a, _ *side) func(wr *verbs.SendWR) {
			return func(wr *verbs.SendWR) { turn(a, &wr.SGL[0]) }
		}
	}
	return []spec{
		bad("an unknown lkey", always(func(_ *side, p *verbs.SGE) { p.LKey = ^p.LKey })),
		bad("an lkey one bit off", always(func(_ *side, p *verbs.SGE) { p.LKey ^= 1 << 31 })),
		bad("lkey 0", always(func(_ *side, p *verbs.SGE) { p.LKey = 0 })),
		bad("a piece that begins a byte before its region", always(func(a *side, p *verbs.SGE) { p.Addr = a.mr.Addr() - 1 })),
		bad("a piece that ends a byte behind its region", always(func(a *side, p *verbs.SGE) { p.Addr = a.mr.Addr() + region - 7 })),
		bad("a piece that begins where its region ends", always(func(a *side, p *verbs.SGE) { p.Addr = a.mr.Addr() + region })),
		bad("a piece at address 0", always(func(_ *side, p *verbs.SGE) { p.Addr = 0 })),
		bad("a piece whose end wraps around 2^64", always(func(_ *side, p *verbs.SGE) { p.Addr = ^uint64(0) - 3 })),
		bad("a region of another protection domain", func(t *T, a, _ *side) func(wr *verbs.SendWR) {
			other := t.register(t.newPD(a.dev), region, verbs.AccessAll)
			return func(wr *verbs.SendWR) { wr.SGL[0].Addr, wr.SGL[0].LKey = other.Addr(), other.LKey() }
		}),
		bad("a deregistered region", func(t *T, a, _ *side) func(wr *verbs.SendWR) {
			other := t.register(a.pd, region, verbs.AccessAll)
			sge := verbs.SGE{Addr: other.Addr(), Length: 8, LKey: other.LKey()}
			if err := other.Close(); err != nil {
				t.Fatal(err)
			}
			return func(wr *verbs.SendWR) { wr.SGL[0] = sge }
		}),
		{"a result into a region without local write is a local protection error", func(t *T) {
			a, b := t.pair(sized(region))
			for _, access := range []verbs.Access{0, verbs.AccessRemoteRead} {
				ro := t.register(a.pd, region, access)
				ops := []verbs.Opcode{verbs.OpRead}
				if t.hasAtomics() {
					ops = append(ops, verbs.OpCAS, verbs.OpFAA)
				}
				t.broken(a, b, ops, verbs.StatusLocProtErr, "read-only destination", func(wr *verbs.SendWR) {
					wr.SGL[0].Addr, wr.SGL[0].LKey = ro.Addr(), ro.LKey()
				})
			}
		}},
		{"sending from a region without any right works", func(t *T) {
			a, b := t.pair(sized(region))
			ro := t.register(a.pd, region, 0)
			copy(ro.Bytes(), fill(7, 100))
			wr := a.to(b, verbs.OpWrite, 0, 100, 0)
			wr.SGL[0].Addr, wr.SGL[0].LKey = ro.Addr(), ro.LKey()
			a.do(wr)
			b.holds("written", 0, fill(7, 100))
			wr.Opcode = verbs.OpSend
			b.receive(200, 100)
			a.do(wr)
			b.arrived()
			b.holds("sent", 200, fill(7, 100))
		}},
		{"each piece of a request is checked", func(t *T) {
			a, b := t.pair(sized(region))
			if a.sendSGE() < 3 {
				t.Skipf("a request may have only %d pieces", a.sendSGE())
			}
			for i := range 3 {
				t.broken(a, b, []verbs.Opcode{verbs.OpWrite, verbs.OpRead, verbs.OpSend}, verbs.StatusLocProtErr, "one bad piece", func(wr *verbs.SendWR) {
					wr.SGL = []verbs.SGE{a.sge(0, 5), a.sge(8, 5), a.sge(16, 5)}
					wr.SGL[i].LKey ^= 1 << 30
				})
			}
		}},
		{"an atomic whose result is not one piece of 8 bytes is a local length error", func(t *T) {
			t.needAtomics()
			a, b := t.pair(sized(region))
			lists := [][]verbs.SGE{nil, a.sgl(0, 0), a.sgl(0, 4), a.sgl(0, 7), a.sgl(0, 9), a.sgl(0, 16)}
			if a.sendSGE() >= 2 {
				lists = append(lists, []verbs.SGE{a.sge(0, 4), a.sge(4, 4)}, []verbs.SGE{a.sge(0, 8), a.sge(8, 8)})
			}
			for _, sgl := range lists {
				t.broken(a, b, []verbs.Opcode{verbs.OpCAS, verbs.OpFAA}, verbs.StatusLocLenErr, "wrong length",
					func(wr *verbs.SendWR) { wr.SGL = sgl })
			}
		}},
		{"the whole region may be named, to its last byte", func(t *T) {
			a, b := t.pair(sized(region))
			a.poke(0, fill(1, region))
			a.do(a.to(b, verbs.OpWrite, 0, region, 0))
			b.holds("all of it", 0, fill(1, region))
			a.do(a.to(b, verbs.OpWrite, region-1, 1, 0))
			a.do(a.to(b, verbs.OpRead, region-1, 1, 1))
			b.holds("the last byte", 0, fill(1, region)[region-1:])
		}},
		{"a region whose size is no multiple of 8 ends at its last byte", func(t *T) {
			const size = 4099
			a, b := t.pair(sized(size))
			a.poke(0, fill(1, size))
			a.do(a.to(b, verbs.OpWrite, 0, size, 0))
			b.holds("all of it", 0, fill(1, size))
			a.do(a.to(b, verbs.OpRead, size-3, 3, size-3))
			a.fails(a.to(b, verbs.OpWrite, size-3, 4, 0), verbs.StatusLocProtErr)
			t.reconnect(a, b)
			a.fails(a.to(b, verbs.OpWrite, 0, 4, size-3), verbs.StatusRemAccessErr)
		}},
	}
}

func remoteProtection() []spec {
	bad := func(name string, turn func(t *T, a, b *side) func(wr *verbs.SendWR)) spec {
		return spec{name + " is a remote access error", func(t *T) {
			a, b := t.pair(sized(region))
			t.broken(a, b, t.remoteOps(), verbs.StatusRemAccessErr, name, turn(t, a, b))
		}}
	}
	always := func(turn func(b *side, wr *verbs.SendWR)) func(t *T, a, b *side) func(wr *verbs.SendWR) {
		return func(_ *T, _, b *side) func(wr *verbs.SendWR) {
			return func(wr *verbs.SendWR) { turn(b, wr) }
		}
	}
	// at moves the target. Atomics are of 8 aligned bytes: they take the word at
	// the wrong end of the range.
	at := func(pick func(base, end uint64) (addr uint64, n int)) func(t *T, a, b *side) func(wr *verbs.SendWR) {
		return always(func(b *side, wr *verbs.SendWR) {
			addr, n := pick(b.mr.Addr(), b.mr.Addr()+b.mr.Length())
			if wr.Opcode == verbs.OpCAS || wr.Opcode == verbs.OpFAA {
				if addr >= b.mr.Addr() && addr+uint64(n) > addr {
					addr += uint64(n) - 1
				}
				addr, n = addr&^7, 8
			}
			wr.RemoteAddr, wr.SGL[0].Length = addr, uint32(n)
			wr.SGL[0].Addr -= 64 // room for as many bytes as there are
		})
	}
	return []spec{
		bad("an unknown rkey", always(func(_ *side, wr *verbs.SendWR) { wr.RKey = ^wr.RKey })),
		bad("an rkey one bit off", always(func(_ *side, wr *verbs.SendWR) { wr.RKey ^= 1 << 31 })),
		bad("rkey 0", always(func(_ *side, wr *verbs.SendWR) { wr.RKey = 0 })),
		bad("a range that begins a byte before the region", at(func(base, _ uint64) (uint64, int) { return base - 1, 8 })),
		bad("a byte before the region", at(func(base, _ uint64) (uint64, int) { return base - 1, 1 })),
		bad("a range that ends a byte behind the region", at(func(_, end uint64) (uint64, int) { return end - 7, 8 })),
		bad("a byte behind the region", at(func(_, end uint64) (uint64, int) { return end, 1 })),
		bad("a range longer than the region", at(func(base, _ uint64) (uint64, int) { return base + 8, region })),
		bad("a range that wraps around 2^64", at(func(_, _ uint64) (uint64, int) { return ^uint64(0) - 7, 16 })),
		bad("a range at address 0", at(func(_, _ uint64) (uint64, int) { return 0, 8 })),
		bad("a region of another protection domain", func(t *T, _, b *side) func(wr *verbs.SendWR) {
			other := t.register(t.newPD(b.dev), region, verbs.AccessAll)
			return func(wr *verbs.SendWR) { wr.RemoteAddr, wr.RKey = other.Addr(), other.RKey() }
		}),
		bad("a deregistered region", func(t *T, _, b *side) func(wr *verbs.SendWR) {
			other := t.register(b.pd, region, verbs.AccessAll)
			addr, key := other.Addr(), other.RKey()
			if err := other.Close(); err != nil {
				t.Fatal(err)
			}
			return func(wr *verbs.SendWR) { wr.RemoteAddr, wr.RKey = addr, key }
		}),
		{"a region without the right refuses the operation, with it serves", func(t *T) {
			a, b := t.pair(sized(region))
			for _, op := range t.remoteOps() {
				others := verbs.AccessAll &^ rightOf(op)
				only := rightOf(op) | verbs.AccessLocalWrite
				mr := t.register(b.pd, region, others)
				t.broken(a, b, []verbs.Opcode{op}, verbs.StatusRemAccessErr, "right missing on the region", func(wr *verbs.SendWR) {
					wr.RemoteAddr, wr.RKey = mr.Addr(), mr.RKey()
				})
				mr = t.register(b.pd, region, only)
				wr := a.to(b, op, 64, 8, 64)
				wr.RemoteAddr, wr.RKey = mr.Addr(), mr.RKey()
				b.receive(0, 8)
				a.do(wr)
				t.reconnect(a, b)
			}
		}},
		{"a QP without the right refuses the operation, with it serves", func(t *T) {
			for _, op := range t.remoteOps() {
				a, b := t.pair(sized(region))
				b.conn.Access = verbs.AccessAll &^ rightOf(op)
				t.reconnect(a, b)
				t.broken(a, b, []verbs.Opcode{op}, verbs.StatusRemAccessErr, "right missing on the QP", func(*verbs.SendWR) {})
				b.conn.Access = rightOf(op)
				t.reconnect(a, b)
				b.receive(0, 8)
				a.do(a.to(b, op, 64, 8, 64))
			}
		}},
		{"the rights of a QP may be changed while it works", func(t *T) {
			a, b := t.pair(sized(region))
			a.do(a.to(b, verbs.OpWrite, 0, 8, 0))
			b.modify(verbs.QPAttr{Access: verbs.AccessRemoteRead}, verbs.AttrAccess)
			a.do(a.to(b, verbs.OpRead, 0, 8, 0))
			a.fails(a.to(b, verbs.OpWrite, 0, 8, 0), verbs.StatusRemAccessErr)
		}},
		{"SEND needs no remote right", func(t *T) {
			a, b := t.pair(sized(region), func(c *conf) { c.conn.Access, c.mr = 0, verbs.AccessLocalWrite })
			a.poke(0, fill(1, 50))
			b.receive(100, 50)
			a.do(a.to(b, verbs.OpSend, 0, 50, 0))
			b.arrived()
			b.holds("received", 100, fill(1, 50))
		}},
		{"an atomic at an address that is no multiple of 8 is an invalid request", func(t *T) {
			t.needAtomics()
			a, b := t.pair(sized(region))
			for off := 1; off < 8; off++ {
				t.broken(a, b, []verbs.Opcode{verbs.OpCAS, verbs.OpFAA}, verbs.StatusRemInvReqErr, "misaligned", func(wr *verbs.SendWR) {
					wr.RemoteAddr += uint64(off)
				})
			}
		}},
		{"a refused request is an asynchronous event at the responder", func(t *T) {
			a, b := t.pair(sized(region))
			wr := a.to(b, verbs.OpWrite, 0, 8, 0)
			wr.RKey = ^wr.RKey
			a.fails(wr, verbs.StatusRemAccessErr)
			t.event(b.dev, func(e verbs.AsyncEvent) bool { return e.Type == verbs.EventQPAccess && e.QPN == b.qp.Num() })
		}},
		{"the first and the last byte of a region are within reach", func(t *T) {
			a, b := t.pair(sized(region))
			a.poke(0, []byte{1, 2, 3})
			a.do(a.to(b, verbs.OpWrite, 0, 1, 0))
			a.do(a.to(b, verbs.OpWrite, 1, 1, region-1))
			b.holds("first", 0, []byte{1})
			b.holds("last", region-1, []byte{2})
			a.do(a.to(b, verbs.OpRead, 64, 1, region-1))
			a.holds("last", 64, []byte{2})
			if t.hasAtomics() {
				b.setWord(region-8, 5)
				wr := a.to(b, verbs.OpFAA, 0, 8, region-8)
				wr.CompareAdd = 1
				a.do(wr)
				if b.word(region-8) != 6 {
					t.Fatalf("FAA of the last word left %d", b.word(region-8))
				}
			}
		}},
		{"each of many regions is reached by its own key only", func(t *T) {
			a, b := t.pair(sized(region))
			n := min(200, b.dev.Attr().MaxMR/2)
			mrs := make([]verbs.MR, n)
			for i := range mrs {
				mrs[i] = t.register(b.pd, 4096, verbs.AccessAll)
			}
			reach := func(i int) verbs.SendWR {
				wr := a.to(b, verbs.OpWrite, 8*i, 8, 0)
				wr.RemoteAddr, wr.RKey = mrs[i].Addr()+16, mrs[i].RKey()
				return wr
			}
			for i := range mrs {
				a.setWord(8*i, uint64(i)+1)
				a.do(reach(i))
			}
			for i, mr := range mrs {
				if got := (&side{mr: mr}).word(16); got != uint64(i)+1 {
					t.Fatalf("region %d holds %d", i, got)
				}
			}
			for i := 0; i < n; i += 2 {
				if err := mrs[i].Close(); err != nil {
					t.Fatal(err)
				}
			}
			for i := 1; i < n; i += 2 {
				a.do(reach(i))
			}
			a.fails(reach(0), verbs.StatusRemAccessErr)
			t.reconnect(a, b)
			wr := reach(1)
			wr.RKey = mrs[3].RKey()
			a.fails(wr, verbs.StatusRemAccessErr)
		}},
		{"one memory may be registered twice, with different rights", func(t *T) {
			a, b := t.pair(sized(region))
			mem := t.mapped(region)
			var mrs [2]verbs.MR
			for i, access := range []verbs.Access{verbs.AccessRemoteRead, verbs.AccessLocalWrite | verbs.AccessRemoteWrite} {
				mr, err := b.pd.RegisterMR(mem, access)
				if err != nil {
					t.Fatal(err)
				}
				mrs[i] = mr
			}
			a.setWord(0, 99)
			wr := a.to(b, verbs.OpWrite, 0, 8, 0)
			wr.RemoteAddr, wr.RKey = mrs[1].Addr(), mrs[1].RKey()
			a.do(wr)
			wr = a.to(b, verbs.OpRead, 8, 8, 0)
			wr.RemoteAddr, wr.RKey = mrs[0].Addr(), mrs[0].RKey()
			a.do(wr)
			if a.word(8) != 99 {
				t.Fatalf("read %d", a.word(8))
			}
			if err := mrs[1].Close(); err != nil {
				t.Fatal(err)
			}
			a.do(wr)
		}},
	}
}

// event waits for an asynchronous event of a device.
func (t *T) event(d verbs.Device, match func(e verbs.AsyncEvent) bool) {
	t.Helper()
	t.eventually("the asynchronous event", func() bool {
		var ev [1]verbs.AsyncEvent
		for d.PollEvents(ev[:]) == 1 {
			if match(ev[0]) {
				return true
			}
		}
		return false
	})
}

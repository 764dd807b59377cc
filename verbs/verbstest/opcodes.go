package verbstest

import (
	"fmt"
	"math"

	"fjord/verbs"
)

func sprintf(format string, args ...any) string { return fmt.Sprintf(format, args...) }

func opcodes() []spec {
	return []spec{
		{"READ fetches the remote bytes and leaves them", func(t *T) {
			a, b := t.pair()
			want := fill(1, 200)
			b.poke(128, want)
			wr := a.to(b, verbs.OpRead, 64, 200, 128)
			t.same(a.do(wr), verbs.WC{ID: wr.ID, ByteLen: 200, QPN: a.qp.Num(), Opcode: verbs.WCRead})
			a.holds("read", 64, want)
			b.holds("the source", 128, want)
			a.holds("before the destination", 0, make([]byte, 64))
			a.holds("behind the destination", 264, make([]byte, 64))
		}},
		{"WRITE stores the bytes and completes nothing at the peer", func(t *T) {
			a, b := t.pair()
			b.receive(0, 64)
			want := fill(2, 200)
			a.poke(64, want)
			wr := a.to(b, verbs.OpWrite, 64, 200, 128)
			t.same(a.do(wr), verbs.WC{ID: wr.ID, QPN: a.qp.Num(), Opcode: verbs.WCWrite})
			b.holds("written", 128, want)
			b.holds("before the destination", 0, make([]byte, 128))
			b.holds("behind the destination", 328, make([]byte, 64))
			t.quiet()
			t.none(b.recv, "after a WRITE")
		}},
		{"WRITE_WITH_IMM stores the bytes, consumes a receive and hands over the immediate", func(t *T) {
			a, b := t.pair()
			id := b.receive(4096, 64)
			want := fill(3, 100)
			a.poke(0, want)
			wr := a.to(b, verbs.OpWriteImm, 0, 100, 256)
			wr.Imm = 0xdeadbeef
			t.same(a.do(wr), verbs.WC{ID: wr.ID, QPN: a.qp.Num(), Opcode: verbs.WCWrite})
			t.same(b.arrived(), verbs.WC{ID: id, ByteLen: 100, QPN: b.qp.Num(), Imm: 0xdeadbeef,
				Opcode: verbs.WCRecvWithImm, Flags: verbs.WCWithImm})
			b.holds("written", 256, want)
			b.holds("the receive's buffer", 4096, make([]byte, 64))
		}},
		{"WRITE_WITH_IMM of no bytes needs only a receive without pieces", func(t *T) {
			a, b := t.pair()
			id := b.receiveWR(verbs.RecvWR{ID: 77})
			wr := verbs.SendWR{ID: 5, Opcode: verbs.OpWriteImm, Flags: verbs.FlagSignaled}
			a.do(wr)
			t.same(b.arrived(), verbs.WC{ID: id, QPN: b.qp.Num(), Opcode: verbs.WCRecvWithImm, Flags: verbs.WCWithImm})
		}},
		{"SEND puts the bytes into the receive that was posted first", func(t *T) {
			a, b := t.pair()
			first, second := b.receive(0, 128), b.receive(128, 128)
			for i, id := range []uint64{first, second} {
				want := fill(byte(i), 100)
				a.poke(0, want)
				wr := a.to(b, verbs.OpSend, 0, 100, 0)
				t.same(a.do(wr), verbs.WC{ID: wr.ID, QPN: a.qp.Num(), Opcode: verbs.WCSend})
				t.same(b.arrived(), verbs.WC{ID: id, ByteLen: 100, QPN: b.qp.Num(), Opcode: verbs.WCRecv})
				b.holds("received", 128*i, want)
				b.holds("the rest of the buffer", 128*i+100, make([]byte, 28))
			}
		}},
		{"SEND of exactly the receive's length, and of nothing, arrive", func(t *T) {
			a, b := t.pair()
			for _, n := range []int{64, 0} {
				id := b.receive(0, 64)
				a.do(a.to(b, verbs.OpSend, 0, n, 0))
				t.same(b.arrived(), verbs.WC{ID: id, ByteLen: uint32(n), QPN: b.qp.Num(), Opcode: verbs.WCRecv})
			}
		}},
		{"SEND_WITH_IMM hands over the immediate, also if it is 0", func(t *T) {
			a, b := t.pair()
			for _, imm := range []uint32{0x01020304, 0} {
				id := b.receive(0, 64)
				wr := a.to(b, verbs.OpSendImm, 0, 64, 0)
				wr.Imm = imm
				t.same(a.do(wr), verbs.WC{ID: wr.ID, QPN: a.qp.Num(), Opcode: verbs.WCSend})
				t.same(b.arrived(), verbs.WC{ID: id, ByteLen: 64, QPN: b.qp.Num(), Imm: imm, Opcode: verbs.WCRecv, Flags: verbs.WCWithImm})
			}
		}},
		{"CAS that finds the expected value swaps", func(t *T) {
			a, b := t.pair()
			t.needAtomics()
			for _, c := range [][2]uint64{{0, 1}, {1, math.MaxUint64}, {math.MaxUint64, 0}, {0x0102030405060708, 0}} {
				b.setWord(64, c[0])
				wr := a.to(b, verbs.OpCAS, 16, 8, 64)
				wr.CompareAdd, wr.Swap = c[0], c[1]
				t.same(a.do(wr), verbs.WC{ID: wr.ID, ByteLen: 8, QPN: a.qp.Num(), Opcode: verbs.WCCAS})
				if got := a.word(16); got != c[0] {
					t.Fatalf("CAS returned %#x, there was %#x", got, c[0])
				}
				if got := b.word(64); got != c[1] {
					t.Fatalf("CAS left %#x, right is %#x", got, c[1])
				}
			}
			b.holds("before the word", 0, make([]byte, 64))
			b.holds("behind the word", 72, make([]byte, 64))
		}},
		{"CAS that finds another value returns it and changes nothing", func(t *T) {
			a, b := t.pair()
			t.needAtomics()
			b.setWord(64, 42)
			for _, expected := range []uint64{0, 41, 43, 42 << 32, math.MaxUint64} {
				wr := a.to(b, verbs.OpCAS, 16, 8, 64)
				wr.CompareAdd, wr.Swap = expected, 7
				t.same(a.do(wr), verbs.WC{ID: wr.ID, ByteLen: 8, QPN: a.qp.Num(), Opcode: verbs.WCCAS})
				if a.word(16) != 42 || b.word(64) != 42 {
					t.Fatalf("CAS(%d→7) of 42 returned %d and left %d", expected, a.word(16), b.word(64))
				}
			}
		}},
		{"FAA adds and returns what was there, and wraps around", func(t *T) {
			a, b := t.pair()
			t.needAtomics()
			for _, c := range [][2]uint64{{0, 0}, {5, 37}, {math.MaxUint64, 3}, {7, math.MaxUint64 - 1}, {1 << 63, 1 << 63}, {0xffffffff, 1}} {
				b.setWord(64, c[0])
				wr := a.to(b, verbs.OpFAA, 16, 8, 64)
				wr.CompareAdd = c[1]
				t.same(a.do(wr), verbs.WC{ID: wr.ID, ByteLen: 8, QPN: a.qp.Num(), Opcode: verbs.WCFAA})
				if got := a.word(16); got != c[0] {
					t.Fatalf("FAA returned %#x, there was %#x", got, c[0])
				}
				if got := b.word(64); got != c[0]+c[1] {
					t.Fatalf("FAA(%#x) of %#x left %#x", c[1], c[0], got)
				}
			}
		}},
		{"an atomic's result may lie at any local address", func(t *T) {
			a, b := t.pair()
			t.needAtomics()
			for off := range 16 {
				b.setWord(0, 100)
				wr := a.to(b, verbs.OpFAA, 64+off, 8, 0)
				a.poke(0, make([]byte, 256))
				a.do(wr)
				a.holds("around the result", 64+off-8, []byte{0, 0, 0, 0, 0, 0, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
			}
		}},
		{"both directions work at once", func(t *T) {
			a, b := t.pair()
			a.poke(0, fill(1, 512))
			b.poke(1024, fill(2, 512))
			a.post(a.to(b, verbs.OpWrite, 0, 512, 0))
			b.post(b.to(a, verbs.OpWrite, 1024, 512, 1024))
			a.sent()
			b.sent()
			b.holds("from A", 0, fill(1, 512))
			a.holds("from B", 1024, fill(2, 512))
		}},
		{"two QPs of one device reach each other", func(t *T) {
			a, b := t.connect(t.a, t.a)
			a.poke(0, fill(9, 300))
			a.do(a.to(b, verbs.OpWrite, 0, 300, 50))
			b.holds("written", 50, fill(9, 300))
			id := b.receive(1000, 300)
			a.do(a.to(b, verbs.OpSend, 0, 300, 0))
			t.same(b.arrived(), verbs.WC{ID: id, ByteLen: 300, QPN: b.qp.Num(), Opcode: verbs.WCRecv})
		}},
		{"SignalAll makes every request complete", func(t *T) {
			a, b := t.pair(func(c *conf) { c.init.SignalAll = true })
			for i := range 3 {
				wr := a.to(b, verbs.OpWrite, 0, 8, 8*i)
				wr.Flags = 0
				a.do(wr)
			}
		}},
		{"FlagSolicited is taken on every operation and changes nothing else", func(t *T) {
			a, b := t.pair()
			for _, op := range t.everyOp() {
				b.receive(4096, 64)
				wr := a.to(b, op, 0, 8, 64)
				wr.Flags |= verbs.FlagSolicited
				a.do(wr)
			}
		}},
		{"a completion carries all 64 bits of the request's ID", func(t *T) {
			a, b := t.pair()
			for _, id := range []uint64{0, 1, math.MaxUint64, 1 << 63} {
				wr := a.to(b, verbs.OpWrite, 0, 8, 0)
				wr.ID = id
				a.do(wr)
			}
		}},
		{"the request values may be reused as soon as PostSend and PostRecv return", func(t *T) {
			a, b := t.pair()
			sgl := b.sgl(0, 64)
			recvs := []verbs.RecvWR{{ID: 9, SGL: sgl}}
			if _, err := b.qp.PostRecv(recvs); err != nil {
				t.Fatal(err)
			}
			sgl[0], recvs[0] = verbs.SGE{Addr: 1, Length: 1 << 31, LKey: 1}, verbs.RecvWR{ID: 1}
			a.poke(0, fill(4, 64))
			wrs := []verbs.SendWR{a.to(b, verbs.OpSend, 0, 64, 0), a.to(b, verbs.OpWrite, 0, 64, 512)}
			a.post(wrs...)
			for i := range wrs {
				wrs[i].SGL[0] = verbs.SGE{Addr: 1, Length: 1 << 31, LKey: 1}
				wrs[i] = verbs.SendWR{}
			}
			for range 2 {
				if wc := a.sent(); wc.Status != verbs.StatusSuccess {
					t.Fatal(show(wc))
				}
			}
			t.same(b.arrived(), verbs.WC{ID: 9, ByteLen: 64, QPN: b.qp.Num(), Opcode: verbs.WCRecv})
			b.holds("sent", 0, fill(4, 64))
			b.holds("written", 512, fill(4, 64))

			wrs = []verbs.SendWR{a.to(b, verbs.OpSend, 0, 64, 0), a.to(b, verbs.OpWrite, 0, 64, 1024)}
			a.post(wrs...) // they wait for a receive
			for i := range wrs {
				wrs[i].SGL[0] = verbs.SGE{Addr: 1, Length: 1 << 31, LKey: 1}
				wrs[i] = verbs.SendWR{}
			}
			b.receive(2048, 64)
			for range 2 {
				if wc := a.sent(); wc.Status != verbs.StatusSuccess {
					t.Fatal(show(wc))
				}
			}
			b.holds("written later", 1024, fill(4, 64))
			b.holds("sent later", 2048, fill(4, 64))
		}},
	}
}

// needAtomics skips a test of atomics on devices that have none.
func (t *T) needAtomics() {
	if t.a.Attr().Atomics == verbs.AtomicNone || t.b.Attr().Atomics == verbs.AtomicNone {
		t.Skipf("the device has no atomics (DeviceAttr.Atomics is NONE)")
	}
}

func (t *T) hasAtomics() bool {
	return t.a.Attr().Atomics != verbs.AtomicNone && t.b.Attr().Atomics != verbs.AtomicNone
}

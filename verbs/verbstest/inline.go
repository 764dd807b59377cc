package verbstest

import (
	"bytes"
	"errors"
	"strings"

	"fjord/verbs"
)

// refusal checks the error of a call that must be refused at once: its kind,
// and that its text names what is wrong.
func (t *T) refusal(what string, err, kind error, names ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("%s: error is %v, right is %v", what, err, kind)
	}
	for _, n := range names {
		if !strings.Contains(err.Error(), n) {
			t.Errorf("%s: the error does not name %q: %v", what, n, err)
		}
	}
}

// inliners connects a pair that may send inline.
func (t *T) inliners() (a, b *side, most int) {
	most = int(min(t.a.Attr().MaxInline, t.b.Attr().MaxInline, 256))
	if t.a.Attr().Caps&verbs.CapInline == 0 || most < 8 {
		t.Skipf("the device has no inline sends (CapInline, MaxInline %d)", t.a.Attr().MaxInline)
	}
	a, b = t.pair()
	return a, b, most
}

func inlining() []spec {
	return []spec{
		{"the buffer is free as soon as PostSend returns", func(t *T) {
			a, b, most := t.inliners()
			for n := 1; n <= most; n += 1 + n/9 {
				for i, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpWriteImm, verbs.OpSend, verbs.OpSendImm} {
					want := fill(byte(n+i), n)
					a.poke(3, want)
					at := 4096
					if op == verbs.OpWrite || op == verbs.OpWriteImm {
						at = 8192
					}
					if op != verbs.OpWrite {
						b.receive(4096, n)
					}
					wr := a.to(b, op, 3, n, 8192)
					wr.Flags |= verbs.FlagInline
					a.post(wr)
					a.poke(3, bytes.Repeat([]byte{0xee}, n))
					if wc := a.sent(); wc.Status != verbs.StatusSuccess {
						t.Fatal(show(wc))
					}
					if op != verbs.OpWrite {
						b.arrived()
					}
					b.holds(sprintf("%v of %d bytes", op, n), at, want)
				}
			}
		}},
		{"of a batch that waits for a receive the buffers are free too", func(t *T) {
			a, b, _ := t.inliners()
			var wrs []verbs.SendWR
			for i := range 4 {
				a.poke(64*i, fill(byte(i), 8))
				wr := a.to(b, verbs.OpSend, 64*i, 8, 0)
				if i == 2 {
					wr = a.to(b, verbs.OpWrite, 64*i, 8, 4096)
				}
				wr.Flags |= verbs.FlagInline
				wrs = append(wrs, wr)
			}
			a.post(wrs...)
			a.poke(0, bytes.Repeat([]byte{0xee}, 256))
			t.quiet()
			for i := range 3 {
				b.receive(64*i, 64)
			}
			for _, wr := range wrs {
				if wc := a.sent(); wc.Status != verbs.StatusSuccess || wc.ID != wr.ID {
					t.Fatal(show(wc))
				}
			}
			for i, seed := range []byte{0, 1, 3} {
				b.arrived()
				b.holds("received", 64*i, fill(seed, 8))
			}
			b.holds("written", 4096, fill(2, 8))
		}},
		{"the lkey is not looked at", func(t *T) {
			a, b, most := t.inliners()
			a.poke(1, fill(1, most))
			wr := a.to(b, verbs.OpWrite, 1, most, 64)
			wr.Flags |= verbs.FlagInline
			for _, key := range []uint32{0, ^a.mr.LKey()} {
				wr.SGL[0].LKey = key
				b.poke(64, make([]byte, most))
				a.do(wr)
				b.holds("written", 64, fill(1, most))
			}
		}},
		{"pieces are gathered", func(t *T) {
			a, b, most := t.inliners()
			if a.sendSGE() < 3 {
				t.Skipf("a request may have only %d pieces", a.sendSGE())
			}
			want := fill(1, most)
			cut1, cut2 := most/3, most/3+most/5
			a.poke(1000, want[:cut1])
			a.poke(501, want[cut1:cut2])
			a.poke(7, want[cut2:])
			wr := a.to(b, verbs.OpWrite, 0, 0, 13)
			wr.SGL = []verbs.SGE{a.sge(1000, cut1), a.sge(501, cut2-cut1), a.sge(7, most-cut2)}
			wr.Flags |= verbs.FlagInline
			a.do(wr)
			b.holds("written", 13, want)
		}},
		{"one byte too long is refused at once, and the QP goes on", func(t *T) {
			a, b, most := t.inliners()
			for _, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpSend} {
				wr := a.to(b, op, 0, most+1, 0)
				wr.Flags |= verbs.FlagInline
				n, err := a.qp.PostSend([]verbs.SendWR{wr})
				t.refusal("inline "+op.String(), err, verbs.ErrInvalid, sprintf("%d", most+1), sprintf("%d", most))
				if n != 0 || a.qp.State() != verbs.StateRTS {
					t.Fatalf("accepted %d, QP in %v", n, a.qp.State())
				}
			}
			a.do(a.to(b, verbs.OpWrite, 0, most+1, 0))
		}},
		{"READ and atomics are refused at once", func(t *T) {
			a, b, _ := t.inliners()
			for _, op := range []verbs.Opcode{verbs.OpRead, verbs.OpCAS, verbs.OpFAA} {
				wr := a.to(b, op, 0, 8, 0)
				wr.Flags |= verbs.FlagInline
				n, err := a.qp.PostSend([]verbs.SendWR{wr})
				t.refusal("inline "+op.String(), err, verbs.ErrInvalid, op.String())
				if n != 0 || a.qp.State() != verbs.StateRTS {
					t.Fatalf("accepted %d, QP in %v", n, a.qp.State())
				}
			}
			a.do(a.to(b, verbs.OpWrite, 0, 8, 0))
		}},
		{"a QP made without inline refuses every payload", func(t *T) {
			a, b := t.pair(func(c *conf) { c.init.MaxInline = 0 })
			wr := a.to(b, verbs.OpWrite, 0, 1, 0)
			wr.Flags |= verbs.FlagInline
			_, err := a.qp.PostSend([]verbs.SendWR{wr})
			t.refusal("inline WRITE", err, verbs.ErrInvalid)
		}},
	}
}

package verbstest

import (
	"testing"

	"fjord/verbs"
)

func cost() []spec {
	return []spec{
		{"posting, waiting and polling allocate nothing", func(t *T) {
			if raceEnabled {
				t.Skipf("the race detector allocates on its own")
			}
			if t.rt.Virtual() {
				t.Skipf("the world of virtual time allocates for its clock")
			}
			a, b := t.pair()
			if a.sendSGE() < 2 {
				t.Skipf("a request may have only one piece")
			}
			wcs := make([]verbs.WC, 8)
			wait := func(w *verbs.Waiter, cq verbs.CQ, n int) {
				for n > 0 {
					k, err := w.Poll(cq, wcs[:], t.deadline())
					if err != nil {
						t.Fatal(err)
					}
					for _, wc := range wcs[:k] {
						if wc.Status != verbs.StatusSuccess {
							t.Fatal(show(wc))
						}
					}
					n -= k
				}
			}
			free := func(name string, f func()) {
				t.Helper()
				f() // what is made once, at the first use, does not count
				if n := testing.AllocsPerRun(200, f); n != 0 {
					t.Errorf("%s allocates %v times", name, n)
				}
			}
			batch := func(name string, wrs ...verbs.SendWR) {
				t.Helper()
				for i := range wrs[:len(wrs)-1] {
					wrs[i].Flags &^= verbs.FlagSignaled
				}
				free(name, func() {
					if _, err := a.qp.PostSend(wrs); err != nil {
						t.Fatal(err)
					}
					wait(a.sendW, a.send, 1)
				})
			}
			write, read := a.to(b, verbs.OpWrite, 0, 64, 0), a.to(b, verbs.OpRead, 64, 64, 0)
			batch("WRITE", write)
			batch("READ", read)
			odd := write
			odd.SGL = a.sgl(3, 61)
			batch("WRITE at an odd address", odd)
			two := write
			two.SGL = []verbs.SGE{a.sge(0, 13), a.sge(13, 51)}
			batch("WRITE of two pieces", two)
			two = read
			two.SGL = []verbs.SGE{a.sge(0, 13), a.sge(13, 51)}
			batch("READ into two pieces", two)
			batch("8 READs", read, read, read, read, read, read, read, read)
			if t.a.Attr().Caps&verbs.CapInline != 0 && t.a.Attr().MaxInline >= 64 {
				inline := write
				inline.Flags |= verbs.FlagInline
				batch("inline WRITE", inline)
			}
			if t.hasAtomics() {
				cas, faa := a.to(b, verbs.OpCAS, 0, 8, 128), a.to(b, verbs.OpFAA, 0, 8, 128)
				batch("CAS and READ", cas, read)
				batch("FAA", faa)
			}
			recv := []verbs.RecvWR{{SGL: b.sgl(4096, 64)}}
			for _, op := range []verbs.Opcode{verbs.OpSend, verbs.OpSendImm, verbs.OpWriteImm} {
				wrs := []verbs.SendWR{a.to(b, op, 0, 64, 0)}
				free(op.String()+" and its receive", func() {
					if _, err := b.qp.PostRecv(recv); err != nil {
						t.Fatal(err)
					}
					if _, err := a.qp.PostSend(wrs); err != nil {
						t.Fatal(err)
					}
					wait(a.sendW, a.send, 1)
					wait(b.recvW, b.recv, 1)
				})
			}
			free("an empty Poll", func() { a.send.Poll(wcs) })
			if t.a.Attr().Caps&verbs.CapEventWait != 0 {
				p, wrs := t.rt.NewParker(), []verbs.SendWR{write}
				free("Arm", func() {
					a.send.Arm(p)
					if _, err := a.qp.PostSend(wrs); err != nil {
						t.Fatal(err)
					}
					wait(a.sendW, a.send, 1)
				})
			}
		}},
	}
}

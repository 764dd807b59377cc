package mem_test

import (
	"testing"

	"fjord/verbs"
	"fjord/verbs/mem"
)

// pair is a connected client QP with a local buffer, and a region at its peer.
type pair struct {
	qp, peer      verbs.QP
	cq, peerCQ    verbs.CQ
	local, remote verbs.MR
}

func must[T any](b testing.TB) func(T, error) T {
	return func(v T, err error) T {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
		return v
	}
}

func newPair(b testing.TB) pair {
	f := mem.NewFabric(nil)
	side := func(name string) (verbs.Device, verbs.QP, verbs.CQ, verbs.MR) {
		d := f.NewDevice(name)
		pd := must[verbs.PD](b)(d.AllocPD())
		cq := must[verbs.CQ](b)(d.CreateCQ(128))
		qp := must[verbs.QP](b)(pd.CreateQP(verbs.QPInit{SendCQ: cq, RecvCQ: cq, MaxSendWR: 64, MaxRecvWR: 16, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInline: 64}))
		m := must[*verbs.Memory](b)(verbs.MapMemory(1<<20, 0))
		mr := must[verbs.MR](b)(pd.RegisterMR(m, verbs.AccessAll))
		b.Cleanup(func() { _ = d.Close() })
		return d, qp, cq, mr
	}
	d1, q1, c1, m1 := side("a")
	d2, q2, c2, m2 := side("b")
	e1 := verbs.Endpoint{GID: d1.Attr().GID, QPN: q1.Num(), PSN: 1}
	e2 := verbs.Endpoint{GID: d2.Attr().GID, QPN: q2.Num(), PSN: 2}
	if err := verbs.BringUp(q1, e1, e2, verbs.DefaultConnAttr(d1.Attr())); err != nil {
		b.Fatal(err)
	}
	if err := verbs.BringUp(q2, e2, e1, verbs.DefaultConnAttr(d2.Attr())); err != nil {
		b.Fatal(err)
	}
	return pair{qp: q1, peer: q2, cq: c1, peerCQ: c2, local: m1, remote: m2}
}

// BenchmarkPostPoll is the price of one doorbell and one poll for batches of
// the engine's requests.
func BenchmarkPostPoll(b *testing.B) {
	p := newPair(b)
	sge := func(n uint32) []verbs.SGE {
		return []verbs.SGE{{Addr: p.local.Addr(), Length: n, LKey: p.local.LKey()}}
	}
	cas := verbs.SendWR{Opcode: verbs.OpCAS, SGL: sge(8), RemoteAddr: p.remote.Addr(), RKey: p.remote.RKey()}
	read := verbs.SendWR{Opcode: verbs.OpRead, SGL: sge(64), RemoteAddr: p.remote.Addr(), RKey: p.remote.RKey()}
	write := verbs.SendWR{Opcode: verbs.OpWrite, SGL: sge(64), RemoteAddr: p.remote.Addr(), RKey: p.remote.RKey()}
	run := func(name string, wrs ...verbs.SendWR) {
		wrs[len(wrs)-1].Flags = verbs.FlagSignaled
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var wcs [4]verbs.WC
			for b.Loop() {
				if _, err := p.qp.PostSend(wrs); err != nil {
					b.Fatal(err)
				}
				if n := p.cq.Poll(wcs[:]); n != 1 || wcs[0].Status != verbs.StatusSuccess {
					b.Fatal(n, wcs[0])
				}
			}
		})
	}
	run("cas", cas)
	run("read64", read)
	run("write64", write)
	run("cas+read64", cas, read)
	run("8xread64", read, read, read, read, read, read, read, read)
	gather := write
	gather.SGL = []verbs.SGE{sge(16)[0], sge(48)[0]}
	run("write16+48", gather)
	inline := write
	inline.Flags |= verbs.FlagInline
	b.Run("write64inline", func(b *testing.B) { p.loop(b, inline) })
}

// loop posts one signaled request and polls its completion.
func (p *pair) loop(b *testing.B, wr verbs.SendWR) {
	wr.Flags |= verbs.FlagSignaled
	wrs := []verbs.SendWR{wr}
	b.ReportAllocs()
	var wcs [4]verbs.WC
	for b.Loop() {
		if _, err := p.qp.PostSend(wrs); err != nil {
			b.Fatal(err)
		}
		if n := p.cq.Poll(wcs[:]); n != 1 || wcs[0].Status != verbs.StatusSuccess {
			b.Fatal(n, wcs[0])
		}
	}
}

// BenchmarkSendRecv is the price of a message: receive posted, sent, both
// completions polled.
func BenchmarkSendRecv(b *testing.B) {
	p := newPair(b)
	wr := []verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.FlagSignaled,
		SGL: []verbs.SGE{{Addr: p.local.Addr(), Length: 64, LKey: p.local.LKey()}}}}
	recv := []verbs.RecvWR{{SGL: []verbs.SGE{{Addr: p.remote.Addr(), Length: 64, LKey: p.remote.LKey()}}}}
	b.ReportAllocs()
	var wcs [4]verbs.WC
	for b.Loop() {
		if _, err := p.peer.PostRecv(recv); err != nil {
			b.Fatal(err)
		}
		if _, err := p.qp.PostSend(wr); err != nil {
			b.Fatal(err)
		}
		if n := p.cq.Poll(wcs[:]); n != 1 || wcs[0].Status != verbs.StatusSuccess {
			b.Fatal(n, wcs[0])
		}
		if n := p.peerCQ.Poll(wcs[:]); n != 1 || wcs[0].Status != verbs.StatusSuccess {
			b.Fatal(n, wcs[0])
		}
	}
}

package sim_test

import (
	"testing"

	"fjord/verbs"
	"fjord/verbs/sim"
)

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// end is a side of a connection with what belongs to it.
type end struct {
	dev  *sim.Device
	pd   verbs.PD
	cq   verbs.CQ
	mr   verbs.MR
	qp   verbs.QP
	psn  uint32
	mem  *verbs.Memory
	wait *verbs.Waiter
	wcs  []verbs.WC
}

// side makes one end on a host: a region of so many bytes and a QP in RESET.
func side(t testing.TB, h *sim.Host, size uint64) *end {
	t.Helper()
	e := &end{dev: must[*sim.Device](t)(h.OpenDevice())}
	e.pd = must[verbs.PD](t)(e.dev.AllocPD())
	e.cq = must[verbs.CQ](t)(e.dev.CreateCQ(4096))
	e.mem = must[*verbs.Memory](t)(verbs.MapMemory(size, verbs.HugeTransparent))
	t.Cleanup(func() { _ = e.mem.Free() })
	e.mr = must[verbs.MR](t)(e.pd.RegisterMR(e.mem, verbs.AccessAll))
	e.wait, e.wcs = verbs.NewWaiter(h), make([]verbs.WC, 16)
	e.newQP(t)
	return e
}

// newQP gives the end another QP.
func (e *end) newQP(t testing.TB) {
	t.Helper()
	e.qp = must[verbs.QP](t)(e.pd.CreateQP(verbs.QPInit{SendCQ: e.cq, RecvCQ: e.cq, MaxSendWR: 256, MaxRecvWR: 64, MaxSendSGE: 4, MaxRecvSGE: 4,
		MaxInline: e.dev.Attr().MaxInline}))
	e.psn = uint32(e.dev.Runtime().Secret()) & (1<<24 - 1)
}

func (e *end) endpoint() verbs.Endpoint {
	return verbs.Endpoint{GID: e.dev.Attr().GID, QPN: e.qp.Num(), PSN: e.psn}
}

// join brings both ends up.
func join(t testing.TB, a, b *end, turn ...func(c *verbs.ConnAttr)) {
	t.Helper()
	c := verbs.DefaultConnAttr(a.dev.Attr())
	for _, f := range turn {
		f(&c)
	}
	if err := verbs.BringUp(b.qp, b.endpoint(), a.endpoint(), c); err != nil {
		t.Fatal(err)
	}
	if err := verbs.BringUp(a.qp, a.endpoint(), b.endpoint(), c); err != nil {
		t.Fatal(err)
	}
}

// host adds a host of a world.
func host(t testing.TB, w *sim.World, name string) *sim.Host {
	t.Helper()
	return must[*sim.Host](t)(w.AddHost(name, sim.HostOptions{}))
}

// wr is a signaled request between a's region and b's.
func (e *end) wr(b *end, op verbs.Opcode, off, n, roff int) verbs.SendWR {
	return verbs.SendWR{Opcode: op, Flags: verbs.FlagSignaled, RemoteAddr: b.mr.Addr() + uint64(roff), RKey: b.mr.RKey(),
		SGL: []verbs.SGE{{Addr: e.mr.Addr() + uint64(off), Length: uint32(n), LKey: e.mr.LKey()}}}
}

// do posts requests and waits for n completions; it returns the last.
func (e *end) do(t testing.TB, n int, wrs ...verbs.SendWR) verbs.WC {
	t.Helper()
	if _, err := e.qp.PostSend(wrs); err != nil {
		t.Fatal(err)
	}
	return e.poll(t, n)
}

func (e *end) poll(t testing.TB, n int) verbs.WC {
	t.Helper()
	for {
		k, err := e.wait.Poll(e.cq, e.wcs[:min(n, len(e.wcs))], 0)
		if err != nil {
			t.Fatal(err)
		}
		if n -= k; n <= 0 {
			return e.wcs[k-1]
		}
	}
}

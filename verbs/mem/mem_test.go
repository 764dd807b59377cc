package mem_test

import (
	"errors"
	"testing"

	"fjord/verbs"
	"fjord/verbs/mem"
	"fjord/verbs/verbstest"
)

func TestConformance(t *testing.T) {
	verbstest.Run(t, func(*testing.T) verbstest.Env {
		f := mem.NewFabric(nil)
		return verbstest.Env{A: f.NewDevice("a"), B: f.NewDevice("b")}
	})
}

// one polls the single completion that must be there: mem is synchronous.
func one(t *testing.T, cq verbs.CQ) verbs.WC {
	t.Helper()
	var wcs [2]verbs.WC
	if n := cq.Poll(wcs[:]); n != 1 {
		t.Fatalf("%d completions, right is 1", n)
	}
	return wcs[0]
}

// TestRequesterComesBackAlone: on the wire the responder of a connection expects
// the PSNs to go on, so a requester that begins anew without it gets nowhere. mem
// must not be kinder, or who forgets to reset both ends learns of it on hardware.
func TestRequesterComesBackAlone(t *testing.T) {
	p := newPair(t)
	wr := []verbs.SendWR{{Opcode: verbs.OpWrite, Flags: verbs.FlagSignaled, RemoteAddr: p.remote.Addr(), RKey: p.remote.RKey(),
		SGL: []verbs.SGE{{Addr: p.local.Addr(), Length: 8, LKey: p.local.LKey()}}}}
	if _, err := p.qp.PostSend(wr); err != nil {
		t.Fatal(err)
	}
	if wc := one(t, p.cq); wc.Status != verbs.StatusSuccess {
		t.Fatal(wc.Status)
	}
	was := p.qp.Query()
	if err := p.qp.Modify(verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	local := verbs.Endpoint{PSN: was.SQPSN}
	remote := verbs.Endpoint{GID: was.DestGID, QPN: was.DestQPN, PSN: was.RQPSN}
	if err := verbs.BringUp(p.qp, local, remote, verbs.DefaultConnAttr(verbs.DeviceAttr{ActiveMTU: 1024, MaxQPRdAtomic: 8})); err != nil {
		t.Fatal(err)
	}
	if _, err := p.qp.PostSend(wr); err != nil {
		t.Fatal(err)
	}
	if wc := one(t, p.cq); wc.Status != verbs.StatusRetryExcErr {
		t.Fatalf("the second life of the requester is answered with %v", wc.Status)
	}
}

// TestQPConnectedToItself: loopback on one QP takes the same locks twice.
func TestQPConnectedToItself(t *testing.T) {
	d := mem.NewFabric(nil).NewDevice("alone")
	pd := must[verbs.PD](t)(d.AllocPD())
	cq := must[verbs.CQ](t)(d.CreateCQ(64))
	qp := must[verbs.QP](t)(pd.CreateQP(verbs.QPInit{SendCQ: cq, RecvCQ: cq, MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 1, MaxRecvSGE: 1}))
	mr := must[verbs.MR](t)(pd.RegisterMR(must[*verbs.Memory](t)(verbs.MapMemory(4096, 0)), verbs.AccessAll))
	e := verbs.Endpoint{GID: d.Attr().GID, QPN: qp.Num(), PSN: 7}
	if err := verbs.BringUp(qp, e, e, verbs.DefaultConnAttr(d.Attr())); err != nil {
		t.Fatal(err)
	}
	sge := func(off, n int) []verbs.SGE {
		return []verbs.SGE{{Addr: mr.Addr() + uint64(off), Length: uint32(n), LKey: mr.LKey()}}
	}
	copy(mr.Bytes(), "to myself")
	if _, err := qp.PostSend([]verbs.SendWR{
		{Opcode: verbs.OpWrite, SGL: sge(0, 9), RemoteAddr: mr.Addr() + 64, RKey: mr.RKey()},
		{Opcode: verbs.OpSend, Flags: verbs.FlagSignaled, SGL: sge(64, 9)},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := qp.PostRecv([]verbs.RecvWR{{SGL: sge(128, 16)}}); err != nil { // lets the SEND go on
		t.Fatal(err)
	}
	var wcs [4]verbs.WC
	if n := cq.Poll(wcs[:]); n != 2 || string(mr.Bytes()[128:137]) != "to myself" {
		t.Fatalf("%d completions, received %q", n, mr.Bytes()[128:137])
	}
	if _, err := qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpRead, SGL: sge(0, 8), RKey: 1}}); err != nil { // breaks both ends, which are one
		t.Fatal(err)
	}
	if wc := one(t, cq); wc.Status != verbs.StatusRemAccessErr || qp.State() != verbs.StateErr {
		t.Fatalf("%v, QP in %v", wc.Status, qp.State())
	}
	if err := mr.Close(); err != nil {
		t.Fatal(err)
	}
	if err := qp.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestEventsNobodyTakes: the queue of asynchronous events keeps the oldest and has
// an end.
func TestEventsNobodyTakes(t *testing.T) {
	d := mem.NewFabric(nil).NewDevice("a")
	pd := must[verbs.PD](t)(d.AllocPD())
	cq := must[verbs.CQ](t)(d.CreateCQ(64))
	qp := must[verbs.QP](t)(pd.CreateQP(verbs.QPInit{SendCQ: cq, RecvCQ: cq, MaxSendWR: 8, MaxSendSGE: 1}))
	far := verbs.Endpoint{QPN: 99}
	for range 1500 {
		if err := verbs.BringUp(qp, far, far, verbs.DefaultConnAttr(d.Attr())); err != nil {
			t.Fatal(err)
		}
		if _, err := qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpWrite}}); err != nil {
			t.Fatal(err)
		}
		if wc := one(t, cq); wc.Status != verbs.StatusRetryExcErr {
			t.Fatal(wc.Status)
		}
		if err := qp.Modify(verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState); err != nil {
			t.Fatal(err)
		}
	}
	n, ev := 0, make([]verbs.AsyncEvent, 100)
	for {
		k := d.PollEvents(ev)
		if k == 0 {
			break
		}
		n += k
	}
	if n < 100 || n > 1024 {
		t.Errorf("%d events were kept of 1500", n)
	}
}

// TestDevicesOfTwoFabricsAreStrangers: also when their GIDs are the same.
func TestDevicesOfTwoFabricsAreStrangers(t *testing.T) {
	p := newPair(t)
	d := mem.NewFabric(nil).NewDevice("elsewhere")
	pd := must[verbs.PD](t)(d.AllocPD())
	cq := must[verbs.CQ](t)(d.CreateCQ(64))
	qp := must[verbs.QP](t)(pd.CreateQP(verbs.QPInit{SendCQ: cq, RecvCQ: cq, MaxSendWR: 8, MaxSendSGE: 1}))
	to := p.qp.Query()
	e := verbs.Endpoint{GID: to.DestGID, QPN: to.DestQPN}
	if err := verbs.BringUp(qp, verbs.Endpoint{PSN: 1}, e, verbs.DefaultConnAttr(d.Attr())); err != nil {
		t.Fatal(err)
	}
	if _, err := qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpWrite}}); err != nil {
		t.Fatal(err)
	}
	if wc := one(t, cq); !errors.As(wc.Err(), new(*verbs.StatusError)) || wc.Status != verbs.StatusRetryExcErr {
		t.Fatal(wc.Status)
	}
}

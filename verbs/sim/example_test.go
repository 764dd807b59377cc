package sim_test

import (
	"fmt"
	"strings"

	"fjord/verbs"
	"fjord/verbs/sim"
)

// Example_plan has a host die half-way through a doorbell of four WRITEs. What was on
// its way lands, until the memory node destroys the connection.
func Example_plan() {
	plan, err := sim.ReadPlan(strings.NewReader(`{"faults": [
		{"kind": "crash", "host": "c0", "verb": 3, "phase": "half", "late_ns": 50000}
	]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	w, err := sim.New(sim.Options{Seed: 42, Plan: plan})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Close()
	client, _ := w.AddHost("c0", sim.HostOptions{})
	node, _ := w.AddHost("m0", sim.HostOptions{})
	a, b := open(client), open(node)
	join := func(x, y *party) error { return verbs.BringUp(x.qp, x.at, y.at, verbs.DefaultConnAttr(x.attr)) }
	if join(b, a) != nil || join(a, b) != nil {
		return
	}
	err = w.RunOn(client, "writer", func() {
		copy(a.mr.Bytes(), "alpha   beta    gamma   delta   ")
		var wrs []verbs.SendWR
		for off := uint64(0); off < 32; off += 8 {
			wrs = append(wrs, verbs.SendWR{Opcode: verbs.OpWrite, RemoteAddr: b.mr.Addr() + off, RKey: b.mr.RKey(),
				SGL: []verbs.SGE{{Addr: a.mr.Addr() + off, Length: 8, LKey: a.mr.LKey()}}})
		}
		_, _ = a.qp.PostSend(wrs)
		fmt.Println("not reached")
	})
	fmt.Println(err)
	words := func() []string { return strings.Fields(strings.ReplaceAll(string(b.mr.Bytes()[:32]), "\x00", " ")) }
	fmt.Println("at once:", len(words()), "words")
	w.Sleep(1_000_000)
	fmt.Println("in the end:", words()[:2])
	// Output:
	// sim: the host has crashed
	// at once: 0 words
	// in the end: [alpha beta]
}

// party is one end of the example's connection.
type party struct {
	attr verbs.DeviceAttr
	mr   verbs.MR
	qp   verbs.QP
	at   verbs.Endpoint
}

// open makes a party on a host. Nothing of it fails in a world without faults.
func open(h *sim.Host) *party {
	dev, _ := h.OpenDevice()
	pd, _ := dev.AllocPD()
	cq, _ := dev.CreateCQ(16)
	mem, _ := verbs.MapMemory(4096, verbs.HugeNever)
	mr, _ := pd.RegisterMR(mem, verbs.AccessAll)
	qp, _ := pd.CreateQP(verbs.QPInit{SendCQ: cq, RecvCQ: cq, MaxSendWR: 8, MaxSendSGE: 1})
	return &party{dev.Attr(), mr, qp, verbs.Endpoint{GID: dev.Attr().GID, QPN: qp.Num(), PSN: uint32(h.Secret()) & (1<<24 - 1)}}
}

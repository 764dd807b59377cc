package simtest

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"fjord/verbs"
)

// device is a coordinator's device. It listens to what is posted, has QPs give up
// when the Setup says so, and counts.
type device struct {
	verbs.Device
	life *life
}

func (d *device) AllocPD() (verbs.PD, error) {
	p, err := d.Device.AllocPD()
	if err != nil {
		return nil, err
	}
	return &pd{PD: p, dev: d}, nil
}

type pd struct {
	verbs.PD
	dev *device
}

// RegisterMR notes the memory of a coordinator, which frees it itself unless it dies.
func (p *pd) RegisterMR(m *verbs.Memory, a verbs.Access) (verbs.MR, error) {
	p.dev.life.run.memories = append(p.dev.life.run.memories, m)
	return p.PD.RegisterMR(m, a)
}

func (p *pd) CreateQP(init verbs.QPInit) (verbs.QP, error) {
	q, err := p.PD.CreateQP(init)
	if err != nil {
		return nil, err
	}
	return &qp{QP: q, life: p.dev.life}, nil
}

type qp struct {
	verbs.QP
	life *life
}

func (q *qp) Modify(a verbs.QPAttr, mask verbs.AttrMask) error {
	if mask&verbs.AttrTimeout != 0 {
		a.Timeout = q.life.run.setup.Timeout
	}
	if mask&verbs.AttrRetryCnt != 0 {
		a.RetryCnt = q.life.run.setup.RetryCnt
	}
	return q.QP.Modify(a, mask)
}

// maxVerbs bounds a run: an engine that spins for ever is found out by it.
const maxVerbs = 4_000_000

func (q *qp) PostSend(wrs []verbs.SendWR) (int, error) {
	r := q.life.run
	if r.verbs += uint64(len(wrs)); r.verbs > maxVerbs {
		panic(fmt.Sprintf("runaway: more than %d verbs", maxVerbs))
	}
	for i := range wrs {
		if wr := &wrs[i]; wr.Opcode == verbs.OpWrite {
			q.life.overhear(wr)
		}
	}
	aim := q.life.shoot(wrs)
	if aim == nil {
		return q.QP.PostSend(wrs)
	}
	r.hits[aim.ForNS > 0]++
	r.trace("%d %s: aim %+v", r.world.Now(), q.life.name, *aim)
	if aim.ForNS == 0 && aim.Before {
		q.life.host.Crash() // this worker never returns
	}
	n, err := q.QP.PostSend(wrs)
	if aim.ForNS == 0 {
		q.life.host.Crash()
	}
	q.life.stop(aim.ForNS)
	return n, err
}

// payload returns the bytes of a request: a view if they are in one piece.
func payload(sgl []verbs.SGE) []byte {
	var all []byte
	for i := range sgl {
		n := sgl[i].Length
		if n == 0 {
			continue
		}
		b := unsafe.Slice(*(**byte)(unsafe.Pointer(&sgl[i].Addr)), n)
		if len(sgl) == 1 {
			return b
		}
		all = append(all, b...)
	}
	return all
}

// node is a memory node's device. While the plan strikes it refuses some of the
// connections that it is asked for, and breaks some of those that it has: that is what
// directories, switches and operators do.
type node struct {
	verbs.Device
	run *run
}

func (n *node) AllocPD() (verbs.PD, error) {
	p, err := n.Device.AllocPD()
	if err != nil {
		return nil, err
	}
	return &nodePD{p, n.run}, nil
}

type nodePD struct {
	verbs.PD
	run *run
}

var errRefused = errors.New("simtest: the memory node refuses the connection, as the seed wants it")

func (p *nodePD) CreateQP(init verbs.QPInit) (verbs.QP, error) {
	r := p.run
	if r.phase == phaseSafety && r.chances.IntN(100) < r.setup.Plan.RefusePercent {
		r.refused++
		return nil, errRefused
	}
	q, err := p.PD.CreateQP(init)
	if err == nil {
		r.accepted = append(r.accepted, q)
	}
	return q, err
}

// breakSome breaks connections at memory nodes, now and then.
func (r *run) breakSome() {
	for every := r.setup.Plan.BreakEveryNS; every > 0 && r.phase == phaseSafety; {
		r.world.Sleep(1 + r.chances.Int64N(2*every))
		r.accepted = slices.DeleteFunc(r.accepted, func(q verbs.QP) bool { return q.State() != verbs.StateRTS })
		if len(r.accepted) == 0 || r.phase != phaseSafety {
			continue
		}
		q := r.accepted[r.chances.IntN(len(r.accepted))]
		if err := q.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState); err != nil {
			r.fail("build: break a connection: %v", err)
		}
		r.broken++
	}
}

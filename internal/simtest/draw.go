package simtest

import (
	"math/rand/v2"
	"slices"

	"fjord/verbs/sim"
)

// drawPlan draws what goes wrong: nothing at all, little, or much.
func (s *Setup) drawPlan() error {
	r := stream(s.Seed, streamPlan)
	o := sim.RandomOptions{UntilNS: int64(between(r, 200, 3000)) * 1000, Verbs: uint64(between(r, 20, 30+12*s.Workers*s.Transactions)), Crashes: s.Coordinators}
	for i := range s.Coordinators {
		o.Compute = append(o.Compute, hostName(i))
	}
	for i := range s.Nodes {
		o.Memory = append(o.Memory, nodeName(i))
	}
	mood := r.IntN(10)
	switch mood {
	case 0:
		return nil
	case 8: // nothing but READs that are torn widely, and crashes at bad moments
		f := sim.Fault{Kind: sim.KindSpread, Op: "READ", Rate: pick(r, 0.2, 0.5, 1), DelayNS: int64(between(r, 10, 60)) * 1000, AtNS: startNS}
		if r.IntN(2) == 0 { // or WRITEs, so long that fences cut them
			f.Op, f.Rate, f.DelayNS = "WRITE", pick(r, 0.02, 0.1, 0.3), int64(between(r, 100, 1000))*1000
		}
		s.Plan.Faults = []sim.Fault{f}
		s.drawAims(stream(s.Seed, streamAims))
		return nil
	case 9: // nothing but coordinators that stop
		p := sim.Plan{}
		s.stall(r, &p, o.Verbs)
		s.Plan.Faults = p.Faults
		return nil
	case 1: // crashes of a well network
		o.Without = []sim.Kind{sim.KindLoss, sim.KindDuplicate, sim.KindReorder, sim.KindDelay, sim.KindLag, sim.KindSpread, sim.KindPartition, sim.KindPause}
	case 2: // an ill network
		o.Without = []sim.Kind{sim.KindCrash}
	case 3: // order and tearing alone
		o.Without = []sim.Kind{sim.KindLoss, sim.KindPartition, sim.KindPause, sim.KindCrash}
	}
	p, err := sim.RandomPlan(r.Uint64(), o)
	if err != nil {
		return err
	}
	if mood == 6 || mood == 7 {
		p.Faults = slices.DeleteFunc(p.Faults, func(sim.Fault) bool { return r.IntN(2) == 0 })
	}
	for i := range p.Faults {
		if f := &p.Faults[i]; f.Verb == 0 {
			f.AtNS += startNS
		}
	}
	if mood != 1 && r.IntN(2) == 0 {
		s.tear(r, &p)
	}
	if mood != 1 && r.IntN(2) == 0 {
		s.stall(r, &p, o.Verbs)
	}
	s.Plan.Faults = p.Faults
	r = stream(s.Seed, streamAims)
	s.drawAims(r)
	s.Plan.BreakEveryNS = pick[int64](r, 0, 0, 0, 10_000, 50_000, 200_000)
	s.Plan.RefusePercent = pick(r, 0, 0, 5, 20, 40)
	return nil
}

// tear has what is not atomic happen at moments that are far apart.
func (s *Setup) tear(r *rand.Rand, p *sim.Plan) {
	for range between(r, 1, 4) {
		f := sim.Fault{Kind: pick(r, sim.KindSpread, sim.KindSpread, sim.KindSpread, sim.KindLag, sim.KindDelay, sim.KindReorder), AtNS: startNS,
			Rate: pick(r, 0.05, 0.2, 0.5, 1), DelayNS: int64(between(r, 1, 60)) * 1000, Op: pick(r, "", "READ", "WRITE")}
		if f.Kind == sim.KindLag {
			f.Op = "READ"
		}
		if r.IntN(2) == 0 {
			f.To = nodeName(r.IntN(s.Nodes))
		}
		if r.IntN(2) == 0 {
			f.From = hostName(r.IntN(s.Coordinators))
		}
		p.Faults = append(p.Faults, f)
	}
}

// stall has coordinators stop for some transactions of others, in the middle of
// theirs.
func (s *Setup) stall(r *rand.Rand, p *sim.Plan, verbs uint64) {
	for range between(r, 4, 24) {
		p.Faults = append(p.Faults, sim.Fault{Kind: sim.KindPause, Host: hostName(r.IntN(s.Coordinators)),
			Verb: 1 + r.Uint64N(verbs), ForNS: int64(between(r, 5, 80)) * 1000})
	}
}

// drawAims draws moments at which coordinators crash or stop.
func (s *Setup) drawAims(r *rand.Rand) {
	aim := func(most int) Aim {
		return Aim{Host: hostName(r.IntN(s.Coordinators)), Moment: pick(r, moments...), Nth: between(r, 1, most)}
	}
	if r.IntN(2) == 0 {
		for range between(r, 1, s.Coordinators) {
			a := aim(pick(r, 2, 10, 60))
			a.Before = r.IntN(2) == 0
			s.Plan.Aims = append(s.Plan.Aims, a)
		}
	}
	if r.IntN(2) == 0 {
		for range between(r, 1, 16) {
			a := aim(60)
			a.ForNS = int64(between(r, 5, 80)) * 1000
			s.Plan.Aims = append(s.Plan.Aims, a)
		}
	}
}

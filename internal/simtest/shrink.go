package simtest

import (
	"slices"
	"strings"

	"fjord/verbs/sim"
)

// shrinkRuns bounds how many runs Shrink makes.
const shrinkRuns = 400

// Shrink looks for a smaller run that fails in the same way: with fewer faults, fewer
// coordinators, workers and transactions. Of a run that does not fail it returns the
// run itself.
func Shrink(r Result, o Options) (Result, Options) {
	o.Trace = nil
	s := &shrinker{seed: r.Setup.Seed, kind: kindOf(&r), best: r, opt: o, run: Run}
	if s.kind != "" {
		s.shrink()
	}
	return s.best, s.opt
}

// kindOf is the first word of the first failure.
func kindOf(r *Result) string {
	if r.OK() {
		return ""
	}
	kind, _, _ := strings.Cut(r.Failures[0], ":")
	return kind
}

type shrinker struct {
	seed uint64
	kind string
	best Result
	opt  Options
	runs int
	run  func(uint64, Options) (Result, error)
}

// try tells whether a run still fails as the first one did, and if so keeps it.
func (s *shrinker) try(o Options) bool {
	if s.runs++; s.runs > shrinkRuns {
		return false
	}
	r, err := s.run(s.seed, o)
	if err != nil || kindOf(&r) != s.kind {
		return false
	}
	s.best, s.opt = r, o
	return true
}

func (s *shrinker) shrink() {
	s.opt.Plan = s.best.Setup.Plan.clone()
	s.faults()
	for again := true; again && s.runs < shrinkRuns; {
		again = s.lower(func(o *Options) *int { return &o.Coordinators }, s.best.Setup.Coordinators)
		again = s.lower(func(o *Options) *int { return &o.Workers }, s.best.Setup.Workers) || again
		again = s.lower(func(o *Options) *int { return &o.Transactions }, s.best.Setup.Transactions) || again
		again = s.faults() || again
	}
}

// faults leaves out of the plan what is not needed.
func (s *shrinker) faults() (any bool) {
	change := func(by func(*Plan)) bool {
		o := s.opt
		o.Plan = s.opt.Plan.clone()
		by(o.Plan)
		return s.try(o)
	}
	if s.opt.Plan.RefusePercent > 0 && change(func(p *Plan) { p.RefusePercent = 0 }) {
		any = true
	}
	if s.opt.Plan.BreakEveryNS > 0 && change(func(p *Plan) { p.BreakEveryNS = 0 }) {
		any = true
	}
	if fewer(func() int { return len(s.opt.Plan.Faults) }, func(from, to int) bool {
		return change(func(p *Plan) { p.Faults = slices.Delete(p.Faults, from, to) })
	}) {
		any = true
	}
	if fewer(func() int { return len(s.opt.Plan.Aims) }, func(from, to int) bool {
		return change(func(p *Plan) { p.Aims = slices.Delete(p.Aims, from, to) })
	}) {
		any = true
	}
	return any
}

// fewer leaves out of a list: all, halves, quarters, down to single ones.
func fewer(length func() int, leaveOut func(from, to int) bool) (any bool) {
	for n := length(); n > 0; n /= 2 {
		for from := 0; from < length(); {
			if leaveOut(from, min(from+n, length())) {
				any = true
			} else {
				from += n
			}
		}
	}
	return any
}

// lower makes a number smaller: 1, then ever less far below.
func (s *shrinker) lower(field func(*Options) *int, now int) (any bool) {
	for step := now - 1; step > 0; {
		o := s.opt
		*field(&o) = now - step
		o.Plan = without(o.Plan, now-step, field(&o) == &o.Coordinators)
		if s.try(o) {
			any, now = true, now-step
			step = min(step, now-1)
		} else {
			step /= 2
		}
	}
	return any
}

// without leaves out the faults of coordinators that are no more.
func without(p *Plan, coordinators int, fewer bool) *Plan {
	if !fewer {
		return p
	}
	gone := func(name string) bool {
		if !strings.HasPrefix(name, "c") {
			return false
		}
		for i := range coordinators {
			if name == hostName(i) {
				return false
			}
		}
		return true
	}
	q := p.clone()
	q.Faults = slices.DeleteFunc(q.Faults, func(f sim.Fault) bool { return gone(f.Host) || gone(f.From) || gone(f.To) })
	q.Aims = slices.DeleteFunc(q.Aims, func(a Aim) bool { return gone(a.Host) })
	return q
}

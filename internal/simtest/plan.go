package simtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"fjord/verbs"
	"fjord/verbs/sim"
)

// Plan is what goes wrong in a run: what the simulator knows to do, and what is done to
// coordinators and connections besides.
type Plan struct {
	Faults []sim.Fault `json:"faults"`
	// Aims are faults at moments of the protocol.
	Aims []Aim `json:"aims,omitempty"`
	// BreakEveryNS is how much time passes, on average, between two connections that
	// break at a memory node; 0: none does.
	BreakEveryNS int64 `json:"break_every_ns,omitempty"`
	// RefusePercent is how many of 100 new connections a memory node refuses.
	RefusePercent int `json:"refuse_percent,omitempty"`
}

// ReadPlan reads a plan from JSON and validates it. Unknown fields are refused.
func ReadPlan(r io.Reader) (Plan, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return Plan{}, fmt.Errorf("read plan: %w", err)
	}
	var p Plan
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return Plan{}, fmt.Errorf("%w: plan: %w", verbs.ErrInvalid, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Plan{}, fmt.Errorf("%w: plan: there is more behind the value, at byte %d", verbs.ErrInvalid, d.InputOffset())
	}
	return p, p.validate()
}

// validate says which field is wrong, its value, and what would be right. With names
// of hosts it refuses those that are not among them.
func (p *Plan) validate(hosts ...string) error {
	if err := p.simulated().Validate(hosts...); err != nil {
		return err
	}
	for i, f := range p.Faults {
		if f.Kind == sim.KindCrash && strings.HasPrefix(f.Host, "m") {
			return fmt.Errorf("%w: plan: fault %d: host is %q, right is a coordinator's, c0 and so on: nothing takes a memory node's place yet", verbs.ErrInvalid, i, f.Host)
		}
	}
	for i := range p.Aims {
		if err := p.Aims[i].validate(hosts); err != nil {
			return fmt.Errorf("%w: plan: aim %d: %w", verbs.ErrInvalid, i, err)
		}
	}
	switch {
	case p.BreakEveryNS < 0 || p.BreakEveryNS > mostNS:
		return fmt.Errorf("%w: plan: break_every_ns is %d, right is 0 to %d", verbs.ErrInvalid, p.BreakEveryNS, int64(mostNS))
	case p.RefusePercent < 0 || p.RefusePercent > 99:
		return fmt.Errorf("%w: plan: refuse_percent is %d, right is 0 to 99", verbs.ErrInvalid, p.RefusePercent)
	}
	return nil
}

// mostNS bounds times: a second, which is longer than any run.
const mostNS = 1_000_000_000

// simulated is the simulator's part.
func (p *Plan) simulated() *sim.Plan { return &sim.Plan{Faults: p.Faults} }

// hosts lists those that a plan may name.
func (s *Setup) hosts() (names []string) {
	for i := range s.Coordinators {
		names = append(names, hostName(i))
	}
	for i := range s.Nodes {
		names = append(names, nodeName(i))
	}
	return names
}

// crashes counts the crashes of coordinators that may come.
func (p *Plan) crashes() (n int) {
	for _, f := range p.Faults {
		if f.Kind == sim.KindCrash {
			n++
		}
	}
	for _, a := range p.Aims {
		if a.ForNS == 0 {
			n++
		}
	}
	return n
}

// clone makes a copy that can be changed.
func (p Plan) clone() *Plan {
	p.Faults, p.Aims = slices.Clone(p.Faults), slices.Clone(p.Aims)
	return &p
}

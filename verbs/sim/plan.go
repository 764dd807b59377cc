package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"fjord/verbs"
)

// Plan is what goes wrong in a world.
type Plan struct {
	Faults []Fault `json:"faults"`
}

// Kind is a kind of fault.
type Kind string

// The kinds of faults, with the fields that they use. A link is from one host to
// another; no name means every host.
const (
	// KindLoss loses messages of a link: Rate. Of a WRITE of several packets those
	// before the first that is lost land.
	KindLoss Kind = "loss"
	// KindDuplicate has messages arrive twice: Rate, within DelayNS.
	KindDuplicate Kind = "duplicate"
	// KindReorder lets messages be overtaken by those behind: Rate, up to DelayNS.
	KindReorder Kind = "reorder"
	// KindDelay holds messages up, and those behind them: Rate, up to DelayNS.
	KindDelay Kind = "delay"
	// KindPartition cuts From off To (no name: off all others), in both directions
	// or OneWay.
	KindPartition Kind = "partition"
	// KindPause stops the workers of Host for ForNS, at AtNS or behind its Verb.
	KindPause Kind = "pause"
	// KindCrash ends Host at AtNS, or at its Verb and that one's Phase. What it has
	// sent by then lands up to LateNS later.
	KindCrash Kind = "crash"
	// KindLag has a responder execute READs and atomics late: Rate, up to DelayNS.
	// WRITEs behind them overtake them.
	KindLag Kind = "lag"
	// KindSpread spreads the lines of a READ or WRITE at a responder: Rate, up to
	// DelayNS from the first to the last.
	KindSpread Kind = "spread"
)

// Phase says how much of a doorbell a crash at a verb lets out.
type Phase string

// The phases.
const (
	// PhaseBefore: nothing of the doorbell that holds the verb is sent.
	PhaseBefore Phase = "before"
	// PhaseHalf: what is before the verb is sent, what is behind is not. The verb
	// lands in part if it is a WRITE, else perhaps.
	PhaseHalf Phase = "half"
	// PhaseAfter: all of the doorbell is sent, and nobody sees the answers.
	PhaseAfter Phase = "after"
)

// Fault is one thing that goes wrong. Which fields it uses is told by its kind.
type Fault struct {
	Kind    Kind    `json:"kind"`
	Host    string  `json:"host,omitempty"`
	From    string  `json:"from,omitempty"`
	To      string  `json:"to,omitempty"`
	OneWay  bool    `json:"one_way,omitempty"`
	Rate    float64 `json:"rate,omitempty"`
	AtNS    int64   `json:"at_ns,omitempty"`  // when it begins; 0: at once
	ForNS   int64   `json:"for_ns,omitempty"` // how long it lasts; 0: for ever
	DelayNS int64   `json:"delay_ns,omitempty"`
	Op      string  `json:"op,omitempty"`    // only requests of this operation, and their answers; none: all
	Count   uint64  `json:"count,omitempty"` // it is over when it has struck so often; 0: never
	Verb    uint64  `json:"verb,omitempty"`  // counts the requests that Host posts, from 1
	Phase   Phase   `json:"phase,omitempty"`
	LateNS  int64   `json:"late_ns,omitempty"`
}

// field is a bit for each field of a Fault but the kind.
type field uint16

const (
	fieldHost field = 1 << iota
	fieldFrom
	fieldTo
	fieldOneWay
	fieldRate
	fieldAt
	fieldFor
	fieldDelay
	fieldOp
	fieldCount
	fieldVerb
	fieldPhase
	fieldLate
)

var fieldNames = []string{"host", "from", "to", "one_way", "rate", "at_ns", "for_ns", "delay_ns", "op", "count", "verb", "phase", "late_ns"}

func (f field) String() string {
	var s []string
	for i, n := range fieldNames {
		if f&(1<<i) != 0 {
			s = append(s, n)
		}
	}
	return strings.Join(s, ", ")
}

// fieldsOfLinks are what every kind may have that strikes messages one by one.
const fieldsOfLinks = fieldFrom | fieldTo | fieldAt | fieldFor | fieldOp | fieldCount

// kinds says which fields a kind needs, and which it may have.
var kinds = []struct {
	kind      Kind
	need, may field
}{
	{KindLoss, fieldRate, fieldsOfLinks},
	{KindDuplicate, fieldRate, fieldsOfLinks | fieldDelay},
	{KindReorder, fieldRate | fieldDelay, fieldsOfLinks},
	{KindDelay, fieldRate | fieldDelay, fieldsOfLinks},
	{KindPartition, fieldFrom, fieldTo | fieldOneWay | fieldAt | fieldFor},
	{KindPause, fieldHost | fieldFor, fieldAt | fieldVerb},
	{KindCrash, fieldHost, fieldAt | fieldVerb | fieldPhase | fieldLate},
	{KindLag, fieldRate | fieldDelay, fieldsOfLinks},
	{KindSpread, fieldRate | fieldDelay, fieldsOfLinks},
}

func (f *Fault) has() field {
	var m field
	for i, set := range []bool{f.Host != "", f.From != "", f.To != "", f.OneWay, f.Rate != 0, f.AtNS != 0, f.ForNS != 0,
		f.DelayNS != 0, f.Op != "", f.Count != 0, f.Verb != 0, f.Phase != "", f.LateNS != 0} {
		if set {
			m |= 1 << i
		}
	}
	return m
}

// mostNS bounds the times of a plan: some days.
const mostNS = 1 << 50

// Validate returns an error that names the fault, the field, its value and what
// would be right. With names of hosts it refuses those that are not among them.
func (p *Plan) Validate(hosts ...string) error {
	for i := range p.Faults {
		if err := p.Faults[i].validate(hosts); err != nil {
			return fmt.Errorf("%w: plan: fault %d: %w", verbs.ErrInvalid, i, err)
		}
	}
	return nil
}

func (f *Fault) validate(hosts []string) error {
	at := slices.IndexFunc(kinds, func(k struct {
		kind      Kind
		need, may field
	}) bool {
		return k.kind == f.Kind
	})
	if at < 0 {
		var known []string
		for _, k := range kinds {
			known = append(known, string(k.kind))
		}
		return fmt.Errorf("kind is %q, right is one of %s", f.Kind, strings.Join(known, ", "))
	}
	k := kinds[at]
	if missing := k.need &^ f.has(); missing != 0 {
		return fmt.Errorf("%s needs %v as well", f.Kind, missing)
	}
	if extra := f.has() &^ (k.need | k.may); extra != 0 {
		return fmt.Errorf("%s does not use %v; it has %v", f.Kind, extra, k.need|k.may)
	}
	if !(f.Rate >= 0 && f.Rate <= 1) {
		return fmt.Errorf("rate is %v, right is above 0 and at most 1", f.Rate)
	}
	for _, x := range []struct {
		name string
		v    int64
	}{{"at_ns", f.AtNS}, {"for_ns", f.ForNS}, {"delay_ns", f.DelayNS}, {"late_ns", f.LateNS}} {
		if x.v < 0 || x.v > mostNS {
			return fmt.Errorf("%s is %d, right is 0 to %d", x.name, x.v, int64(mostNS))
		}
	}
	if f.Op != "" && opcode(f.Op) == verbs.OpInvalid {
		return fmt.Errorf("op is %q, right is one of %s", f.Op, strings.Join(operations(), ", "))
	}
	if f.Kind == KindPause || f.Kind == KindCrash {
		if err := f.validateMoment(); err != nil {
			return err
		}
	}
	if f.Kind == KindPartition && f.From == f.To {
		return fmt.Errorf("to is %q, the same as from; right is another host, or none for all others", f.To)
	}
	for _, x := range []struct{ name, v string }{{"host", f.Host}, {"from", f.From}, {"to", f.To}} {
		if x.v != "" && len(hosts) > 0 && !slices.Contains(hosts, x.v) {
			return fmt.Errorf("%s is %q, right is one of %s", x.name, x.v, strings.Join(hosts, ", "))
		}
	}
	return nil
}

// operations are the names that a fault's op may have.
func operations() (names []string) {
	for op := verbs.OpInvalid + 1; int(op) < verbs.NumOpcodes; op++ {
		names = append(names, op.String())
	}
	return names
}

// opcode returns the operation of that name; OpInvalid if there is none.
func opcode(name string) verbs.Opcode { return verbs.Opcode(slices.Index(operations(), name) + 1) }

// validateMoment checks when a crash or pause is to be.
func (f *Fault) validateMoment() error {
	if (f.AtNS != 0) == (f.Verb != 0) {
		return fmt.Errorf("at_ns is %d and verb is %d, right is one of the two", f.AtNS, f.Verb)
	}
	if f.Kind != KindCrash {
		return nil
	}
	switch f.Phase {
	case "":
		if f.Verb != 0 {
			return fmt.Errorf("phase is missing, with verb it is %s, %s or %s", PhaseBefore, PhaseHalf, PhaseAfter)
		}
	case PhaseBefore, PhaseHalf, PhaseAfter:
		if f.Verb == 0 {
			return fmt.Errorf("phase is %q, without verb it means nothing", f.Phase)
		}
	default:
		return fmt.Errorf("phase is %q, right is %s, %s or %s", f.Phase, PhaseBefore, PhaseHalf, PhaseAfter)
	}
	return nil
}

// ReadPlan reads a plan from JSON and validates it. Unknown fields are refused.
func ReadPlan(r io.Reader) (Plan, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return Plan{}, fmt.Errorf("read plan: %w", err)
	}
	var p Plan
	if err := decodeStrictly(text, &p); err != nil {
		return Plan{}, fmt.Errorf("%w: plan: %w", verbs.ErrInvalid, err)
	}
	return p, p.Validate()
}

// decodeStrictly reads one JSON value without unknown fields and without anything
// behind it.
func decodeStrictly(text []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("there is more behind the value, at byte %d", d.InputOffset())
	}
	return nil
}

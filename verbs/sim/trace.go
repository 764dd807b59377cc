package sim

import (
	"fmt"
	"math/bits"

	"fjord/verbs"
)

// StepKind is a kind of thing that happens in a world.
type StepKind uint8

// The kinds of steps.
const (
	StepServe      StepKind = iota // a responder takes a request
	StepCompletion                 // a completion is queued
	StepState                      // a QP changes its state
	StepFault                      // a fault of the plan strikes a message
	StepCrash                      // a host crashes
	StepPause                      // its workers stop
	StepResume                     // and go on
)

// String names the kind.
func (k StepKind) String() string {
	switch k {
	case StepServe:
		return "serve"
	case StepCompletion:
		return "completion"
	case StepState:
		return "state"
	case StepFault:
		return "fault"
	case StepCrash:
		return "crash"
	case StepPause:
		return "pause"
	case StepResume:
		return "resume"
	}
	return fmt.Sprintf("StepKind(%d)", uint8(k))
}

// Step is one thing that has happened. Two runs of a seed have the same steps.
type Step struct {
	At   int64 // ns
	Kind StepKind
	A, B uint64
}

// String tells what has happened. QPs are counted by NIC, hosts by world, from 0.
func (s Step) String() string {
	head := fmt.Sprintf("%d ns: %v", s.At, s.Kind)
	switch s.Kind {
	case StepServe:
		return fmt.Sprintf("%s: QP %d takes %v, PSN %#x", head, s.A>>8, verbs.Opcode(s.A), s.B)
	case StepCompletion:
		return fmt.Sprintf("%s: QP %d, %v, position %d", head, s.A>>8, verbs.Status(s.A), s.B)
	case StepState:
		return fmt.Sprintf("%s: QP %d to %v", head, s.A, verbs.QPState(s.B))
	case StepFault:
		return fmt.Sprintf("%s: from host %d to host %d", head, s.A, s.B)
	case StepCrash, StepPause, StepResume:
		return fmt.Sprintf("%s: host %d", head, s.A)
	}
	return head
}

// note adds a step to the world's hash.
func (w *World) note(k StepKind, a, b uint64) {
	h := w.hash
	for _, x := range [...]uint64{uint64(w.now)<<8 | uint64(k), a, b} {
		hi, lo := bits.Mul64(h^x^0xd6e8feb86659fd93, 0x9e3779b97f4a7c15)
		h = hi ^ lo ^ x<<1
	}
	w.hash = h
	if w.trace != nil {
		w.trace(Step{w.now, k, a, b})
	}
}

// Hash sums up everything that has happened. Two runs of a seed have the same.
func (w *World) Hash() uint64 { return w.hash }

package sim

import (
	"fmt"
	"hash/fnv"

	"fjord/verbs"
)

// injector carries a plan out.
type injector struct {
	w      *World
	links  []*fault // of messages
	lags   []*fault
	sprays []*fault // spread
	all    []*fault
}

// fault is a Fault in a world.
type fault struct {
	Fault
	rng    *rng         // its own, so that a plan without it strikes with the others as before
	hit    uint64       // threshold of the rate
	op     verbs.Opcode // that it strikes; OpInvalid: all
	struck uint64
	over   bool
}

func newInjector(w *World, p Plan) *injector {
	in := &injector{w: w}
	for _, f := range p.Faults {
		x := &fault{Fault: f, rng: newRNG(w.seed, in.stream(f)), hit: rate(f.Rate), op: opcode(f.Op)}
		in.all = append(in.all, x)
		switch f.Kind {
		case KindLoss, KindDuplicate, KindReorder, KindDelay, KindPartition:
			in.links = append(in.links, x)
		case KindLag:
			in.lags = append(in.lags, x)
		case KindSpread:
			in.sprays = append(in.sprays, x)
		case KindPause, KindCrash:
			if f.AtNS != 0 {
				w.at(f.AtNS, event{on: x, kind: evFault})
			}
		}
	}
	return in
}

// stream returns a number that follows from what a fault is, not from where it stands.
func (in *injector) stream(f Fault) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%+v", f)
	n := h.Sum64()
	for _, x := range in.all {
		if x.Fault == f {
			n++
		}
	}
	return n
}

// bind finds the faults that count a new host's verbs.
func (in *injector) bind(h *Host) {
	for _, f := range in.all {
		if f.Verb != 0 && f.Host == h.name {
			h.counted = append(h.counted, f)
		}
	}
}

// fire is the time at which a host crashes or pauses, or the end of its pause.
func (f *fault) fire(w *World, e event) {
	h := w.Host(f.Host)
	if h == nil || h.crashed {
		return
	}
	if e.a != 0 {
		h.Resume()
		return
	}
	if !f.over {
		f.strike(w, h)
	}
}

// strike does to a host what is planned, once. Its worker that runs, if there is
// one, is the caller's concern.
func (f *fault) strike(w *World, h *Host) {
	f.over = true
	f.struck++
	if f.Kind == KindCrash {
		h.late = f.LateNS
		h.crash()
		return
	}
	h.pause()
	w.at(w.now+f.ForNS, event{on: f, kind: evFault, a: 1})
}

// active tells whether a fault is on for a message from one host to another.
func (f *fault) active(now int64, from, to *Host) bool {
	if f.over || now < f.AtNS || f.ForNS != 0 && now >= f.AtNS+f.ForNS {
		return false
	}
	there := (f.From == "" || f.From == from.name) && (f.To == "" || f.To == to.name)
	if f.Kind != KindPartition {
		return there
	}
	if from.nic == to.nic {
		return false // within one machine
	}
	return there || !f.OneWay && f.From == to.name && (f.To == "" || f.To == from.name)
}

// strikes draws whether a fault strikes a message, a request or an answer of an
// operation.
func (f *fault) strikes(w *World, from, to *Host, op verbs.Opcode) bool {
	if f.op != verbs.OpInvalid && f.op != op || !f.active(w.now, from, to) || f.Kind != KindPartition && !f.rng.hit(f.hit) {
		return false
	}
	f.struck++
	f.over = f.struck == f.Count
	w.note(StepFault, uint64(from.index), uint64(to.index))
	return true
}

// verdict is what becomes of a message.
type verdict struct {
	lost    bool
	packets uint32 // when not 0, those behind are lost
	copies  int
	apart   int64 // ns between the copies, at most
	hold    int64 // ns that it takes longer, and those behind it
	late    int64 // ns that it takes longer, so that those behind overtake it
}

// judge decides about a message of several packets. One that is divisible may
// arrive in part.
func (in *injector) judge(from, to *Host, op verbs.Opcode, packets uint32, divisible bool) verdict {
	v := verdict{copies: 1}
	for _, f := range in.links {
		if !f.strikes(in.w, from, to, op) {
			continue
		}
		switch f.Kind {
		case KindLoss:
			if divisible {
				v.packets = uint32(f.rng.below(int64(packets)))
			}
			v.lost = v.lost || v.packets == 0
		case KindDuplicate:
			v.copies, v.apart = 2, f.DelayNS
		case KindReorder:
			v.late += f.rng.below(f.DelayNS + 1)
		case KindDelay:
			v.hold += f.rng.below(f.DelayNS + 1)
		case KindPartition:
			v.lost = true
		case KindPause, KindCrash, KindLag, KindSpread:
		}
	}
	return v
}

// lag is how much longer a responder takes to execute a READ or atomic.
func (in *injector) lag(c *conn, op verbs.Opcode) int64 { return in.sum(in.lags, c, op) }

// spread is how much longer the lines of a READ or WRITE are spread.
func (in *injector) spread(c *conn, op verbs.Opcode) int64 { return in.sum(in.sprays, c, op) }

func (in *injector) sum(faults []*fault, c *conn, op verbs.Opcode) int64 {
	d := int64(0)
	for _, f := range faults {
		if f.strikes(in.w, c.line.q.dev.host, c.q.dev.host, op) {
			d += f.rng.below(f.DelayNS + 1)
		}
	}
	return d
}

// dueInDoorbell tells whether a host is to crash at one of the next n requests, at
// which of them, from 1, and in which phase.
func (in *injector) dueInDoorbell(h *Host, n int) (bool, int, Phase) {
	for _, f := range h.counted {
		if f.Kind == KindCrash && !f.over && f.Verb > h.verbs && f.Verb <= h.verbs+uint64(n) {
			return true, int(f.Verb - h.verbs), f.Phase
		}
	}
	return false, 0, ""
}

// posted carries out what is due when a host has posted requests. It returns when
// the running worker may go on.
func (in *injector) posted(h *Host) {
	for _, f := range h.counted {
		if f.over || f.Verb > h.verbs {
			continue
		}
		f.strike(in.w, h)
	}
	if k := in.w.cur; k != nil && k.host == h && h.paused && !h.crashed {
		in.w.sleep(0)
	}
}

// holdUp keeps a request on its way whose sender has crashed. It reports whether it
// did.
func (in *injector) holdUp(r *request, from, end, nth uint32) bool {
	l := r.line
	h := l.q.dev.host
	if !h.crashed || h.late == 0 || r.heldUp {
		return false
	}
	r.heldUp = true
	r.refs++
	t := max(in.w.now+in.w.sched.below(h.late+1), nsUp(l.arrival))
	l.arrival = ps(t)
	in.w.at(t, event{on: r, kind: evArrive, a: uint64(from) | uint64(nth)<<32, b: uint64(end)})
	return true
}

// Heal ends all that the plan has going on, and what it still has in store. Paused
// hosts go on; crashed ones stay crashed.
func (w *World) Heal() {
	for _, f := range w.plan.all {
		f.over = true
	}
	for _, h := range w.hosts {
		h.counted = nil
		h.Resume()
	}
	w.plan.links, w.plan.lags, w.plan.sprays = nil, nil, nil
}

// Struck returns how often each fault of the plan has struck, in the plan's order.
func (w *World) Struck() []uint64 {
	n := make([]uint64, len(w.plan.all))
	for i, f := range w.plan.all {
		n[i] = f.struck
	}
	return n
}

// Plan returns what the world was made with.
func (w *World) Plan() Plan {
	var p Plan
	for _, f := range w.plan.all {
		p.Faults = append(p.Faults, f.Fault)
	}
	return p
}

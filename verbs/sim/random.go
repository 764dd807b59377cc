package sim

import (
	"fmt"
	"slices"

	"fjord/verbs"
)

// RandomOptions bound what RandomPlan may draw.
type RandomOptions struct {
	// Compute and Memory are the names of hosts. A compute host may crash at any of
	// its first Verbs requests, a memory node at any time.
	Compute, Memory []string
	// UntilNS is when links work again. Pauses that count verbs may last longer;
	// World.Heal ends them.
	UntilNS int64
	// Verbs bounds the requests at which hosts crash or pause. 0: 2000.
	Verbs uint64
	// Crashes and MemoryCrashes bound how many hosts of each sort crash.
	Crashes, MemoryCrashes int
	// Without are kinds that are not drawn.
	Without []Kind
}

// RandomPlan draws a plan: the same from the same seed and options.
func RandomPlan(seed uint64, o RandomOptions) (Plan, error) {
	switch {
	case len(o.Compute) == 0 || len(o.Memory) == 0:
		return Plan{}, fmt.Errorf("%w: random plan: %d compute hosts and %d memory nodes, right is 1 or more of each", verbs.ErrInvalid, len(o.Compute), len(o.Memory))
	case o.UntilNS < 1000 || o.UntilNS > mostNS:
		return Plan{}, fmt.Errorf("%w: random plan: UntilNS is %d, right is 1000 to %d", verbs.ErrInvalid, o.UntilNS, int64(mostNS))
	case o.Crashes < 0 || o.Crashes > len(o.Compute):
		return Plan{}, fmt.Errorf("%w: random plan: Crashes is %d, right is 0 to %d", verbs.ErrInvalid, o.Crashes, len(o.Compute))
	case o.MemoryCrashes < 0 || o.MemoryCrashes > len(o.Memory):
		return Plan{}, fmt.Errorf("%w: random plan: MemoryCrashes is %d, right is 0 to %d", verbs.ErrInvalid, o.MemoryCrashes, len(o.Memory))
	}
	if o.Verbs == 0 {
		o.Verbs = 2000
	}
	d := &draw{rng: newRNG(seed, 0x53), o: o}
	for _, k := range []Kind{KindLoss, KindDuplicate, KindReorder, KindDelay, KindLag, KindSpread, KindPartition, KindPause} {
		for n := d.below(3); n > 0; n-- { // none, one or two of each
			if !slices.Contains(o.Without, k) {
				d.plan.Faults = append(d.plan.Faults, d.fault(k))
			}
		}
	}
	if !slices.Contains(o.Without, KindCrash) {
		d.crashes()
	}
	return d.plan, d.plan.Validate()
}

// draw is a plan that is being drawn.
type draw struct {
	*rng
	o    RandomOptions
	plan Plan
}

func pick[T any](r *rng, from []T) T { return from[r.below(int64(len(from)))] }

// host returns any host's name.
func (d *draw) host() string {
	i := int(d.below(int64(len(d.o.Compute) + len(d.o.Memory))))
	if i < len(d.o.Compute) {
		return d.o.Compute[i]
	}
	return d.o.Memory[i-len(d.o.Compute)]
}

// link is a direction between a compute host and a memory node, or all of them.
func (d *draw) link(f *Fault) {
	f.From, f.To = pick(d.rng, d.o.Compute), pick(d.rng, d.o.Memory)
	if d.below(2) == 0 {
		f.From, f.To = f.To, f.From
	}
	if f.Kind != KindPartition && d.below(3) == 0 {
		f.From, f.To = "", ""
	}
}

// when is a part of the time, mostly a small one.
func (d *draw) when(f *Fault) {
	long := max(d.o.UntilNS>>d.below(8), 10)
	f.ForNS = d.within(long/2, long-1)
	f.AtNS = d.within(0, d.o.UntilNS-f.ForNS)
}

func (d *draw) fault(k Kind) Fault {
	f := Fault{Kind: k}
	d.when(&f)
	switch k {
	case KindPartition:
		d.link(&f)
		f.OneWay = d.below(2) == 0
	case KindPause:
		f.Host = d.host()
		f.AtNS = max(f.AtNS, 1)
		if slices.Contains(d.o.Compute, f.Host) && d.below(2) == 0 {
			f.AtNS, f.Verb = 0, uint64(d.within(1, int64(d.o.Verbs)))
			f.ForNS = min(f.ForNS, d.o.UntilNS/4+1)
		}
	case KindLoss, KindDuplicate, KindReorder, KindDelay, KindLag, KindSpread, KindCrash:
		d.link(&f)
		f.Rate = pick(d.rng, []float64{0.001, 0.01, 0.05, 0.25})
		if k != KindLoss {
			f.DelayNS = d.within(1, pick(d.rng, []int64{500, 2_000, 10_000, 100_000}))
		}
	}
	return f
}

func (d *draw) crashes() {
	for i, names := range [][]string{d.o.Compute, d.o.Memory} {
		names = slices.Clone(names)
		for n := d.below(int64([]int{d.o.Crashes, d.o.MemoryCrashes}[i]) + 1); n > 0; n-- {
			j := d.below(int64(len(names)))
			f := Fault{Kind: KindCrash, Host: names[j], AtNS: d.within(1, d.o.UntilNS)}
			names = slices.Delete(names, int(j), int(j)+1)
			if i == 0 && d.below(4) != 0 {
				f.AtNS, f.Verb = 0, uint64(d.within(1, int64(d.o.Verbs)))
				f.Phase = pick(d.rng, []Phase{PhaseBefore, PhaseHalf, PhaseAfter})
			}
			if i == 0 && d.below(2) == 0 {
				f.LateNS = d.within(1, d.o.UntilNS)
			}
			d.plan.Faults = append(d.plan.Faults, f)
		}
	}
}

package bench

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Merging two histograms must give what one histogram of all values gives, which
// the average of two percentiles does not.
func TestLatenciesMerge(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	a, b, all := newLatencies(latencyDigits), newLatencies(latencyDigits), newLatencies(latencyDigits)
	var values []int64
	for i := range 100_000 {
		ns := 1000 + rng.Int64N(1000)
		to := &a
		if i%100 == 0 { // few, but slow
			ns, to = 1_000_000+rng.Int64N(9_000_000), &b
		}
		to.record(ns)
		all.record(ns)
		values = append(values, ns)
	}
	a.merge(&b)
	got := a.summary()
	if want := all.summary(); got != want {
		t.Errorf("merged %+v, want %+v", got, want)
	}

	slices.Sort(values)
	var sum int64
	for _, v := range values {
		sum += v
	}
	if want := float64(sum) / float64(len(values)) / 1e3; got.Mean < want*0.999999 || got.Mean > want*1.000001 {
		t.Errorf("mean is %v, want %v", got.Mean, want)
	}
	if want := micros(values[len(values)-1]); got.Max != want {
		t.Errorf("max is %v, want %v", got.Max, want)
	}
	for _, q := range []struct {
		name string
		got  float64
		at   float64
	}{{"p50", got.P50, 0.5}, {"p90", got.P90, 0.9}, {"p99", got.P99, 0.99}, {"p999", got.P999, 0.999}} {
		want := micros(values[int(q.at*float64(len(values)))-1])
		if q.got < want*0.998 || q.got > want*1.002 {
			t.Errorf("%s is %v, want %v within 0.2 %%", q.name, q.got, want)
		}
	}
}

func TestLatenciesNoneIsZero(t *testing.T) {
	l := newLatencies(latencyDigits)
	if got := l.summary(); got != (Latency{}) {
		t.Errorf("got %+v", got)
	}
}

func TestLatenciesExtremes(t *testing.T) {
	l := newLatencies(latencyDigits)
	l.record(-5) // a clock that went back must not count as an age
	l.record(3 * latencyMax)
	got := l.summary()
	if got.P50 > 0.001 {
		t.Errorf("p50 is %v", got.P50)
	}
	if got.Max != micros(3*latencyMax) {
		t.Errorf("max is %v", got.Max)
	}
}

// A quantile is never above the maximum, though a histogram rounds up.
func TestLatenciesQuantilesInOrder(t *testing.T) {
	l := newLatencies(latencyDigits)
	l.record(1_234_567)
	got := l.summary()
	if got.P50 != got.Max || got.P999 != got.Max || got.Mean != got.Max {
		t.Errorf("one value: %+v", got)
	}
}

func TestLatenciesRecordDoesNotAllocate(t *testing.T) {
	l := newLatencies(latencyDigits)
	if n := testing.AllocsPerRun(100, func() { l.record(12345) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

package bench

import (
	"math"
	"testing"

	"fjord/verbs"
)

// fakeRuntime has a clock that only Sleep moves, later than asked for by late.
type fakeRuntime struct {
	verbs.Runtime
	now, late int64
}

func (r *fakeRuntime) Now() int64    { return r.now }
func (r *fakeRuntime) Sleep(d int64) { r.now += d + r.late }

func goOn() bool { return false }

func TestPacerSpreads(t *testing.T) {
	rt := &fakeRuntime{now: 1000}
	p := newPacer(rt, 1000, 1e6, 1, 4) // of 4 workers each is due every 4 µs; this one 1 µs after the first
	for i := range int64(1000) {
		begin, ok := p.wait(0, goOn)
		if want := 1000 + 1000 + i*4000; !ok || begin != want || rt.now != want {
			t.Fatalf("transaction %d begins at %d, want %d", i, begin, want)
		}
		rt.now += 100
	}
}

// A transaction that had to wait for a slow one counts from when it was due.
func TestPacerCountsQueueing(t *testing.T) {
	rt := &fakeRuntime{}
	p := newPacer(rt, 0, 1e6, 0, 1)
	p.wait(0, goOn)
	rt.now += 10_500 // slow
	for i := int64(1); i <= 10; i++ {
		if begin, _ := p.wait(0, goOn); begin != i*1000 {
			t.Errorf("transaction %d counts from %d, want %d", i, begin, i*1000)
		}
	}
	if rt.now != 10_500 {
		t.Errorf("it slept until %d though it was behind", rt.now)
	}
}

// A late timer is not the fault of the transactions behind it.
func TestPacerForgivesLateTimers(t *testing.T) {
	rt := &fakeRuntime{late: 5000}
	p := newPacer(rt, 0, 1e6, 0, 1)
	p.wait(0, goOn)
	for i := range 5 {
		if begin, _ := p.wait(0, goOn); begin != 6000 {
			t.Errorf("transaction %d counts from %d, want 6000", i+1, begin)
		}
	}
}

func TestPacerKeepsTheRate(t *testing.T) {
	rt := &fakeRuntime{late: 70_000} // like a real timer
	p := newPacer(rt, 0, 12_345, 0, 1)
	n := 0
	for {
		if _, ok := p.wait(1e9, goOn); !ok {
			break
		}
		n++
	}
	if math.Abs(float64(n)-12_345) > 1 {
		t.Errorf("%d transactions in a second, want 12345", n)
	}
}

func TestPacerEndsInTime(t *testing.T) {
	rt := &fakeRuntime{}
	p := newPacer(rt, 0, 0.001, 0, 1)
	p.wait(0, goOn)
	if _, ok := p.wait(2e9, goOn); ok || rt.now != 2e9 {
		t.Errorf("ok is %v at %d", ok, rt.now)
	}
}

func TestPacerStops(t *testing.T) {
	rt := &fakeRuntime{}
	p := newPacer(rt, 0, 0.001, 0, 1)
	p.wait(0, goOn)
	if _, ok := p.wait(0, func() bool { return rt.now > 1e9 }); ok || rt.now > 1e9+2*pauseSlice {
		t.Errorf("ok is %v at %d", ok, rt.now)
	}
}

func TestQuota(t *testing.T) {
	for _, c := range []struct{ n, workers int }{{0, 3}, {1, 3}, {2, 3}, {10, 3}, {1000, 7}} {
		sum := 0
		for i := range c.workers {
			q := quota(c.n, i, c.workers)
			if q < c.n/c.workers || q > c.n/c.workers+1 {
				t.Errorf("worker %d of %d gets %d of %d", i, c.workers, q, c.n)
			}
			sum += q
		}
		if sum != c.n {
			t.Errorf("%d workers get %d of %d", c.workers, sum, c.n)
		}
	}
}

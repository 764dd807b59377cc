package verbs_test

import (
	"sync"
	"testing"
	"time"

	"fjord/verbs"
)

func TestRealClockAndSleep(t *testing.T) {
	rt := verbs.RealRuntime()
	if rt.Virtual() {
		t.Error("the real world claims to be virtual")
	}
	for _, d := range []int64{-1_000_000, 0, 1, 5_000, 50_000, 50_001, 2_000_000} {
		start, wall := rt.Now(), time.Now()
		rt.Sleep(d)
		if got := rt.Now() - start; got < d || got < 0 {
			t.Errorf("Sleep(%d) took %d", d, got)
		}
		if got := int64(time.Since(wall)); got < d {
			t.Errorf("Sleep(%d) took %d by the wall clock", d, got)
		}
	}
	last := rt.Now()
	for range 10_000 {
		now := rt.Now()
		if now < last {
			t.Fatalf("the clock went back from %d to %d", last, now)
		}
		last = now
	}
}

func TestRealRandomness(t *testing.T) {
	rt := verbs.RealRuntime()
	seen := map[uint64]bool{}
	for range 1000 {
		seen[rt.Rand()], seen[rt.Secret()] = true, true
	}
	if len(seen) < 2000 {
		t.Errorf("%d values of 2000 are distinct", len(seen))
	}
}

// deep makes the stack grow, so that it moves.
func deep(n int) byte {
	var pad [256]byte
	if n > 0 {
		pad[n%256] = deep(n - 1)
	}
	return pad[n%256]
}

func TestSelfTellsLivingWorkersApart(t *testing.T) {
	rt := verbs.RealRuntime()
	const n = 100
	var mu sync.Mutex
	seen := map[uint64]bool{rt.Self(): true}
	ready, quit := sync.WaitGroup{}, make(chan struct{})
	var gone sync.WaitGroup
	ready.Add(n)
	gone.Add(n)
	for range n {
		rt.Go(func() {
			defer gone.Done()
			id := rt.Self()
			mu.Lock()
			if id == 0 || seen[id] {
				t.Errorf("%#x is 0, or two workers at once", id)
			}
			seen[id] = true
			mu.Unlock()
			ready.Done()
			<-quit // all live at the same time
			deep(200)
			rt.Yield()
			if again := rt.Self(); again != id {
				t.Errorf("a worker was %#x, and is %#x now", id, again)
			}
		})
	}
	ready.Wait()
	close(quit)
	gone.Wait()
}

func TestUnparkBeforePark(t *testing.T) {
	rt := verbs.RealRuntime()
	p := rt.NewParker()
	p.Unpark()
	p.Unpark()
	p.Park(0) // returns at once
	start := rt.Now()
	p.Park(start + 3_000_000) // more than one Unpark counted as one
	if d := rt.Now() - start; d < 3_000_000 {
		t.Errorf("Park ended after %d ns, without an Unpark and before the deadline", d)
	}
}

func TestParkEndsAtItsDeadline(t *testing.T) {
	rt := verbs.RealRuntime()
	p := rt.NewParker()
	for _, d := range []int64{-1_000_000, 0, 1, 100_000, 2_000_000} {
		start := rt.Now()
		end := start + d
		if end == 0 {
			end = 1
		}
		p.Park(end)
		now := rt.Now()
		if now < end {
			t.Errorf("Park until +%d ended at +%d", d, now-start)
		}
		if now-start > d+2e9 {
			t.Errorf("Park until +%d ended at +%d", d, now-start)
		}
	}
}

func TestParkWithDeadlineIsWokenEarly(t *testing.T) {
	rt := verbs.RealRuntime()
	p := rt.NewParker()
	for i := range 20 {
		start := rt.Now()
		rt.Go(func() { rt.Sleep(int64(i) * 20_000); p.Unpark() })
		p.Park(start + 20e9)
		if d := rt.Now() - start; d > 10e9 {
			t.Fatalf("woken after %d ms", d/1e6)
		}
	}
	// The timers of those parks are gone: this one sleeps its time.
	start := rt.Now()
	p.Park(start + 3_000_000)
	if d := rt.Now() - start; d < 3_000_000 {
		t.Errorf("an old timer ended a Park after %d ns", d)
	}
}

// TestParkersLoseNothing tosses a turn to and fro; a wake-up that gets lost is a
// hang.
func TestParkersLoseNothing(t *testing.T) {
	rt := verbs.RealRuntime()
	a, b, done := rt.NewParker(), rt.NewParker(), make(chan struct{})
	const n = 5000
	rt.Go(func() {
		for i := range n {
			if i%2 == 0 {
				a.Park(0)
			} else {
				a.Park(rt.Now() + 60e9)
			}
			b.Unpark()
		}
		close(done)
	})
	for range n {
		a.Unpark()
		b.Park(0)
	}
	<-done
}

func TestParkAllocatesNothing(t *testing.T) {
	rt := verbs.RealRuntime()
	p := rt.NewParker()
	p.Park(rt.Now() + 1000) // makes its timer
	if n := testing.AllocsPerRun(50, func() {
		p.Park(rt.Now() + 20_000)
		p.Unpark()
		p.Park(0)
	}); n != 0 {
		t.Errorf("Park allocates %v times", n)
	}
}

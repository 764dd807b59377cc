package sim_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"fjord/verbs"
	"fjord/verbs/sim"
)

func newWorld(t testing.TB, o sim.Options) *sim.World {
	t.Helper()
	w := must[*sim.World](t)(sim.New(o))
	t.Cleanup(w.Close)
	return w
}

// run runs f as a worker of no host.
func run(t testing.TB, w *sim.World, f func()) {
	t.Helper()
	if err := w.Run(f); err != nil {
		t.Fatal(err)
	}
}

// TestTimeIsVirtual: sleepers wake in the order of their times, exactly then.
func TestTimeIsVirtual(t *testing.T) {
	w := newWorld(t, sim.Options{})
	var log []string
	start := w.Now()
	run(t, w, func() {
		for _, d := range []int64{3_000_000_000, 1_000, 2_000_000} {
			w.Go(func() {
				w.Sleep(d)
				log = append(log, fmt.Sprint(d, w.Now()-start == d))
			})
		}
		w.Sleep(4_000_000_000)
	})
	if want := []string{"1000 true", "2000000 true", "3000000000 true"}; !slices.Equal(log, want) {
		t.Errorf("%v, right is %v", log, want)
	}
}

// TestParkers: an Unpark before the Park counts once; a deadline ends a Park; who is
// woken does not wake again at the deadline that it had.
func TestParkers(t *testing.T) {
	w := newWorld(t, sim.Options{})
	run(t, w, func() {
		p := w.NewParker()
		p.Unpark()
		p.Unpark()
		start := w.Now()
		p.Park(0)
		if w.Now() != start {
			t.Error("a Park behind an Unpark has waited")
		}
		p.Park(start + 500)
		if w.Now() != start+500 {
			t.Errorf("a Park with a deadline in 500 ns returned after %d", w.Now()-start)
		}
		w.Go(func() { w.Sleep(100); p.Unpark() })
		p.Park(start + 10_000)
		if w.Now() != start+600 {
			t.Errorf("woken after %d ns, right is 600", w.Now()-start)
		}
		p.Park(start + 20_000)
		if w.Now() != start+20_000 {
			t.Errorf("woken after %d ns, right is 20000", w.Now()-start)
		}
	})
}

// TestManyTimers: waits with far deadlines do not pile up in the agenda.
func TestManyTimers(t *testing.T) {
	w := newWorld(t, sim.Options{})
	run(t, w, func() {
		p := w.NewParker()
		for range 1000 {
			p.Unpark()
			p.Park(w.Now() + 1_000_000_000)
			w.Go(p.Unpark)
			p.Park(w.Now() + 1_000_000_000)
			w.Sleep(10)
		}
		events := w.Stats().Events
		w.Sleep(3_000_000_000)
		if n := w.Stats().Events - events; n > 10 {
			t.Errorf("%d timers were left", n)
		}
	})
}

// TestYieldLetsTimePass: who spins on Yield sees the world go on.
func TestYieldLetsTimePass(t *testing.T) {
	w := newWorld(t, sim.Options{})
	run(t, w, func() {
		done := false
		w.Go(func() { w.Sleep(1_000); done = true })
		for !done {
			w.Yield()
		}
	})
}

// TestDriverWaits: outside of all workers a wait drives the world.
func TestDriverWaits(t *testing.T) {
	w := newWorld(t, sim.Options{})
	p := w.NewParker()
	w.Go(func() { w.Sleep(700); p.Unpark() })
	p.Park(0)
	if w.Now() != 701 { // worlds begin at 1
		t.Errorf("the driver's wait ended at %d", w.Now())
	}
	w.Sleep(100)
	if w.Now() != 801 {
		t.Errorf("the driver's sleep ended at %d", w.Now())
	}
	if w.Self() == 0 {
		t.Error("Self is 0")
	}
}

// TestDeadlock: the error names who waits, since when and for what.
func TestDeadlock(t *testing.T) {
	w := newWorld(t, sim.Options{})
	h := host(t, w, "c0")
	e, m := side(t, h, 4096), side(t, host(t, w, "m0"), 4096)
	join(t, e, m)
	h.GoNamed("reader", func() { e.poll(t, 1) })
	err := w.Run(func() { w.Sleep(5_000); w.NewParker().Park(0) })
	var dead *sim.DeadlockError
	if !errors.As(err, &dead) || dead.Livelock || len(dead.Waiting) != 2 {
		t.Fatalf("%v", err)
	}
	for _, s := range []string{`"reader" on host c0 is parked since 1 ns`, "CQ 1 of device c0", `"main" is parked since 5001 ns`, "RTS"} {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("the error does not say %q: %v", s, err)
		}
	}
}

// TestLivelock: a SEND that nobody receives is retried for ever; that is no progress.
func TestLivelock(t *testing.T) {
	w := newWorld(t, sim.Options{})
	a, b := side(t, host(t, w, "a"), 4096), side(t, host(t, w, "b"), 4096)
	join(t, a, b, func(c *verbs.ConnAttr) { c.MinRNRTimer = 1 })
	run(t, w, func() { // as long as somebody has a deadline it is none
		if _, err := a.qp.PostSend([]verbs.SendWR{a.wr(b, verbs.OpSend, 0, 8, 0)}); err != nil {
			t.Fatal(err)
		}
		if !raceEnabled { // many events
			w.Sleep(8_000_000_000)
		}
	})
	err := w.Run(func() { a.poll(t, 1) })
	var dead *sim.DeadlockError
	if !errors.As(err, &dead) || !dead.Livelock {
		t.Fatalf("%v", err)
	}
}

// TestRunGoesOn: workers that one Run leaves behind go on in the next.
func TestRunGoesOn(t *testing.T) {
	w := newWorld(t, sim.Options{})
	beats := 0
	w.Go(func() {
		for {
			w.Sleep(1_000)
			beats++
		}
	})
	run(t, w, func() { w.Sleep(5_500) })
	run(t, w, func() { w.Sleep(5_000) })
	if beats != 10 {
		t.Errorf("%d beats, right is 10", beats)
	}
	run(t, w, func() {
		if err := w.Run(func() {}); !errors.Is(err, verbs.ErrState) || !strings.Contains(err.Error(), `"main"`) {
			t.Errorf("Run within a worker: %v", err)
		}
	})
}

// TestPanicsOfWorkers come out of Run and name the worker and its stack.
func TestPanicsOfWorkers(t *testing.T) {
	w := newWorld(t, sim.Options{})
	defer func() {
		s := fmt.Sprint(recover())
		for _, part := range []string{"bad luck", `"unlucky" on host c0`, "world_test.go"} {
			if !strings.Contains(s, part) {
				t.Errorf("the panic does not say %q: %s", part, s)
			}
		}
	}()
	_ = w.RunOn(host(t, w, "c0"), "unlucky", func() { panic("bad luck") })
}

// TestCloseLeavesNoGoroutine: whatever workers do when the world ends, they unwind.
func TestCloseLeavesNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	unwound := 0
	for range 20 {
		w := must[*sim.World](t)(sim.New(sim.Options{}))
		h := host(t, w, "c0")
		doomed := host(t, w, "c1")
		for i, x := range []*sim.Host{h, doomed, h, doomed} {
			x.Go(func() {
				defer func() { unwound++ }()
				defer func() { _ = recover(); w.Sleep(10) }() // must not keep it
				for {
					if i < 2 {
						w.Sleep(100)
					} else {
						w.NewParker().Park(0)
					}
				}
			})
		}
		run(t, w, func() {
			w.Sleep(1_000)
			doomed.Crash()
			w.Sleep(1_000)
			h.Go(func() {}) // never gets a turn
		})
		w.Close()
		w.Close()
		if err := w.Run(func() {}); !errors.Is(err, verbs.ErrClosed) {
			t.Errorf("Run of a closed world: %v", err)
		}
	}
	if unwound != 80 {
		t.Errorf("%d of 80 workers unwound", unwound)
	}
	for range 100 {
		if runtime.NumGoroutine() <= before {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("%d goroutines, before there were %d", runtime.NumGoroutine(), before)
}

// TestClocks: a host's clock is ahead and runs at its own rate, and waits keep to it.
func TestClocks(t *testing.T) {
	w := newWorld(t, sim.Options{})
	fast := must[*sim.Host](t)(w.AddHost("fast", sim.HostOptions{Clock: sim.Clock{Offset: 1_000_000, Rate: 100_000}}))
	slow := must[*sim.Host](t)(w.AddHost("slow", sim.HostOptions{Clock: sim.Clock{Rate: -50_000}}))
	for _, h := range []*sim.Host{fast, slow} {
		world, own := w.Now(), h.Now()
		if err := w.RunOn(h, "", func() {
			h.Sleep(1_000_000)
			deadline := h.Now() + 1_000_000
			h.NewParker().Park(deadline)
			if h.Now() < deadline || h.Now() > deadline+2 {
				t.Errorf("%s: parked until %d, woke at %d", h.Name(), deadline, h.Now())
			}
		}); err != nil {
			t.Fatal(err)
		}
		spent, want := w.Now()-world, map[string]int64{"fast": 1_818_181, "slow": 2_105_263}[h.Name()]
		if d := h.Now() - own; d < 1_999_998 || d > 2_000_003 || spent < want || spent > want+3 {
			t.Errorf("%s: 2 ms of its clock took %d ns on it and %d ns of the world, right is %d", h.Name(), d, spent, want)
		}
	}
	if fast.Now() < w.Now()+1_000_000 {
		t.Error("the clock that was set ahead is not")
	}
}

// TestProcessors: posting takes time of the processor, and workers that share one
// wait for each other.
func TestProcessors(t *testing.T) {
	took := func(cores int) int64 {
		w := newWorld(t, sim.Options{})
		h := must[*sim.Host](t)(w.AddHost("c", sim.HostOptions{Cores: cores, TurnNS: 5_000}))
		start, left := w.Now(), 8
		for range 8 {
			h.Go(func() { w.Sleep(0); left-- })
		}
		run(t, w, func() {
			for left > 0 {
				w.Sleep(100)
			}
		})
		return w.Now() - start
	}
	if one, two, own := took(1), took(2), took(0); one < 70_000 || two > one*6/10 || own > 6_000 {
		t.Errorf("8 workers of two turns took %d ns on one processor, %d on two, %d on their own", one, two, own)
	}
}

// TestHostsThatMakeNoSense are refused with what is wrong.
func TestHostsThatMakeNoSense(t *testing.T) {
	w := newWorld(t, sim.Options{})
	host(t, w, "c0")
	bad := must[sim.NIC](t)(sim.NICByName("cx6"))
	bad.MTU = 1500
	for _, c := range []struct {
		name string
		o    sim.HostOptions
		says string
	}{
		{"", sim.HostOptions{}, "empty"}, {"c0", sim.HostOptions{}, `"c0" already`}, {"x", sim.HostOptions{Cores: -1}, "Cores is -1"},
		{"x", sim.HostOptions{TurnNS: -5}, "TurnNS is -5"}, {"x", sim.HostOptions{Clock: sim.Clock{Rate: 200_000}}, "Clock.Rate is 200000"},
		{"x", sim.HostOptions{Clock: sim.Clock{Offset: -1}}, "Clock.Offset is -1"}, {"x", sim.HostOptions{NIC: bad}, "mtu is 1500"},
	} {
		if _, err := w.AddHost(c.name, c.o); !errors.Is(err, verbs.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("AddHost(%q, %+v): %v, right is an error that says %q", c.name, c.o, err, c.says)
		}
	}
}

// TestHostsOfTheirOwnAccord: a worker may crash or pause its own host; the first
// never returns, the second when another has resumed it.
func TestHostsOfTheirOwnAccord(t *testing.T) {
	w := newWorld(t, sim.Options{})
	a, b := host(t, w, "a"), host(t, w, "b")
	ids := map[uint64]bool{w.Self(): true}
	paused, resumed := int64(0), int64(0)
	a.Go(func() {
		ids[a.Self()] = true
		paused = w.Now()
		a.Pause()
		resumed = w.Now()
		a.Crash()
		t.Error("a worker goes on behind the crash of its host")
	})
	a.Go(func() { // is never resumed
		ids[a.Self()] = true
		for {
			a.Yield()
		}
	})
	b.GoNamed("other", func() {
		ids[b.Self()] = true
		b.Sleep(50_000)
		a.Resume()
		a.Resume() // one more does nothing
	})
	run(t, w, func() { w.Sleep(100_000) })
	if !a.Crashed() || b.Crashed() || resumed-paused < 49_000 || len(ids) != 4 || !a.Virtual() || !w.Virtual() {
		t.Errorf("crashed %v and %v, paused for %d ns, %d different workers", a.Crashed(), b.Crashed(), resumed-paused, len(ids))
	}
	a.Go(func() { t.Error("a worker starts on a crashed host") })
	run(t, w, func() { w.Sleep(1_000) })
	if err := w.RunOn(a, "", func() {}); !errors.Is(err, sim.ErrCrashed) {
		t.Errorf("RunOn of a crashed host: %v", err)
	}
}

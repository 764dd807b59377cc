package verbs

// Waiter is the one way to wait: it spins, then yields, then parks; where time
// is virtual it parks at once. It belongs to one worker at a time.
type Waiter struct {
	rt     Runtime
	parker Parker
	spins  int
	yields int
}

// How long a Waiter stays awake. A busy poll sees a completion in about 100 ns
// and a wake-up costs 5–10 µs on real NICs, so parking pays only after several
// round trips' worth of polling.
const (
	spinPolls  = 200
	yieldPolls = 200
)

// NewWaiter returns a waiter of that world.
func NewWaiter(rt Runtime) *Waiter {
	w := &Waiter{rt: rt, parker: rt.NewParker(), spins: spinPolls, yields: yieldPolls}
	if rt.Virtual() {
		w.spins, w.yields = 1, 0
	}
	return w
}

// Poll takes completions from cq and waits until there is at least one. It
// returns ErrTimeout when deadline (Runtime.Now; 0: none) passes before.
func (w *Waiter) Poll(cq CQ, wcs []WC, deadline int64) (int, error) {
	if n := cq.Poll(wcs); n > 0 {
		return n, nil
	}
	n := 0
	err := w.wait(cq.Arm, func() bool { n = cq.Poll(wcs); return n > 0 }, deadline)
	return n, err
}

// Until waits until ready returns true. arm must arrange for the parker that it
// is given to be unparked whenever ready may have become true; it is called
// before the check that decides to park.
func (w *Waiter) Until(ready func() bool, arm func(Parker), deadline int64) error {
	if ready() {
		return nil
	}
	return w.wait(arm, ready, deadline)
}

func (w *Waiter) wait(arm func(Parker), ready func() bool, deadline int64) error {
	for range w.spins {
		if ready() {
			return nil
		}
	}
	for range w.yields {
		w.rt.Yield()
		if ready() {
			return nil
		}
	}
	for {
		arm(w.parker)
		if ready() {
			return nil
		}
		if deadline != 0 && w.rt.Now() >= deadline {
			return ErrTimeout
		}
		w.parker.Park(deadline)
		if ready() {
			return nil
		}
	}
}

package sim

import "fjord/verbs"

// A World is a Runtime for those who belong to no host; a Host is one for its
// workers.
var (
	_ verbs.Runtime = (*World)(nil)
	_ verbs.Runtime = (*Host)(nil)
)

// Now returns the virtual time in nanoseconds.
func (w *World) Now() int64 { return w.now }

// Sleep suspends the caller for d nanoseconds. Outside of all workers it drives
// the world for so long.
func (w *World) Sleep(d int64) { w.sleep(max(d, 0)) }

func (w *World) sleep(d int64) {
	k := w.cur
	d = min(d, horizon)
	if k == nil {
		w.drive(w.now+max(d, 1), func() bool { return false })
		return
	}
	w.wait(k, workerAsleep, w.now+d)
}

// Rand returns random bits that follow from the seed.
func (w *World) Rand() uint64 { return w.user.Uint64() }

// Secret is Rand: in a simulation nobody guesses.
func (w *World) Secret() uint64 { return w.user.Uint64() }

// Go starts a worker on the host of the one that calls.
func (w *World) Go(f func()) {
	var h *Host
	if w.cur != nil {
		h = w.cur.host
	}
	if !w.closed {
		w.start(h, "", f)
	}
}

// yieldTime is what a Yield takes, so that time passes for those that spin.
const yieldTime = 20

// Yield lets the others run that are ready.
func (w *World) Yield() { w.sleep(yieldTime) }

// NewParker returns a place for one worker to sleep.
func (w *World) NewParker() verbs.Parker { return &parker{w: w} }

// Self identifies the running worker.
func (w *World) Self() uint64 {
	if w.cur == nil {
		return driverID
	}
	return w.cur.id
}

// Virtual is true.
func (w *World) Virtual() bool { return true }

// Now is the host's own clock: it begins and runs as HostOptions say.
func (h *Host) Now() int64 { return h.fromWorld(h.w.now) }

// Sleep suspends the caller for d nanoseconds of the host's clock.
func (h *Host) Sleep(d int64) { h.w.sleep(h.span(max(d, 0))) }

// Rand returns random bits that follow from the seed.
func (h *Host) Rand() uint64 { return h.w.Rand() }

// Secret is Rand.
func (h *Host) Secret() uint64 { return h.w.Secret() }

// Go starts a worker on the host. On one that has crashed nothing starts.
func (h *Host) Go(f func()) { h.GoNamed("", f) }

// GoNamed is Go for a worker that errors call by a name.
func (h *Host) GoNamed(name string, f func()) {
	if !h.crashed && !h.w.closed {
		h.w.start(h, name, f)
	}
}

// Yield lets the others run that are ready.
func (h *Host) Yield() { h.w.Yield() }

// NewParker returns a place for one worker to sleep; its deadlines are of the
// host's clock.
func (h *Host) NewParker() verbs.Parker { return &parker{w: h.w, host: h} }

// Self identifies the running worker.
func (h *Host) Self() uint64 { return h.w.Self() }

// Virtual is true.
func (h *Host) Virtual() bool { return true }

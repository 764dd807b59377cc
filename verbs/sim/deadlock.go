package sim

import (
	"fmt"
	"strings"
)

// DeadlockError says that nothing can happen any more although a worker waits, or
// that only requests happen that are retried for ever.
type DeadlockError struct {
	Now      int64 // virtual time, ns
	Livelock bool
	Waiting  []string // who waits, since when, and for what
}

// Error names who waits.
func (e *DeadlockError) Error() string {
	what := "deadlock: nothing can happen any more"
	if e.Livelock {
		what = fmt.Sprintf("livelock: %d events in a row gave no worker a turn", idleEvents)
	}
	if len(e.Waiting) == 0 {
		return fmt.Sprintf("sim: %s at %d ns; no worker waits, but whoever drives the world does", what, e.Now)
	}
	const most = 16
	text := fmt.Sprintf("sim: %s at %d ns:\n  %s", what, e.Now, strings.Join(e.Waiting[:min(len(e.Waiting), most)], "\n  "))
	if n := len(e.Waiting) - most; n > 0 {
		text += fmt.Sprintf("\n  and %d more", n)
	}
	return text
}

func (w *World) deadlock(livelock bool) error {
	e := &DeadlockError{Now: w.now, Livelock: livelock}
	for _, k := range w.alive {
		switch k.state {
		case workerParked, workerAsleep, workerReady, workerRunning:
			e.Waiting = append(e.Waiting, w.waits(k))
		case workerAbandoned, workerEnded:
		}
	}
	return e
}

// anyDue tells whether a worker goes on by itself some time.
func (w *World) anyDue() bool {
	for _, k := range w.alive {
		if k.until != 0 && (k.state == workerParked || k.state == workerAsleep) || k.held && k.state == workerReady {
			return true
		}
	}
	return false
}

func (w *World) waits(k *worker) string {
	s := fmt.Sprintf("%s is %s since %d ns", k, k.state, k.since)
	if k.held {
		s += ", held by the pause of its host"
	}
	if k.parker != nil && k.parker.armed != nil {
		s += ", for a completion on " + k.parker.armed.String()
	}
	return s
}

package bench

import "fjord/verbs"

// pauseSlice bounds one sleep of a paced worker, so that it sees a stop in time.
const pauseSlice = 50_000_000

// pacer spreads the transactions of one worker evenly: the n-th is due at
// origin + n·interval, whatever the ones before took. A worker that falls behind
// catches up.
type pacer struct {
	rt       verbs.Runtime
	origin   float64
	interval float64 // ns; 0: no pace
	n        float64
	woke     int64 // when the worker last came out of a sleep
}

// newPacer paces worker index of workers, that together run rate transactions
// per second from start on. Their schedules are shifted against each other.
func newPacer(rt verbs.Runtime, start int64, rate float64, index, workers int) pacer {
	if rate <= 0 {
		return pacer{}
	}
	interval := float64(workers) / rate * 1e9
	return pacer{rt: rt, origin: float64(start) + interval*float64(index)/float64(workers), interval: interval}
}

// wait sleeps until the next transaction is due and returns when it began to
// wait for its turn: the time from which its latency counts. It returns false
// as soon as stop does true, or if the transaction is due at end (0: none) or later.
func (p *pacer) wait(end int64, stop func() bool) (begin int64, ok bool) {
	due := int64(p.origin + p.n*p.interval)
	if end != 0 && due >= end {
		due, ok = end, false
	} else {
		p.n, ok = p.n+1, true
	}
	for now := p.rt.Now(); now < due; now = p.woke {
		if stop() {
			return 0, false
		}
		p.rt.Sleep(min(due-now, pauseSlice))
		p.woke = p.rt.Now()
	}
	return max(due, p.woke), ok
}

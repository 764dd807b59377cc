package script

import (
	"slices"

	"fjord/verbs"
)

// Chaos says how likely, at each step of a Shuffle, trouble is.
type Chaos struct {
	Tear     float64 // that a request of several words executes in pieces
	Overtake float64 // that a WRITE or atomic goes before READs and atomics that it may overtake
	Fail     float64 // that a QP fails; what was on its way may execute later
	Connect  float64 // that a connection cannot be made
	Steps    int     // bound; more is a failure of the test. 0: a million
}

// weight is how often something is chosen. It changes now and then, so that a
// run has those that hurry and those that lag.
type weight struct{ n int }

func (x *weight) draw(w *World) int {
	if x.n == 0 || w.rng.IntN(64) == 0 {
		x.n = 1 << (2 * w.rng.IntN(4))
	}
	return x.n
}

func (w *World) chance(p float64) bool { return p > 0 && w.rng.Float64() < p }

// Shuffle runs all tasks to their end: at each step the next to move is drawn, a
// task or a request of any QP. Then it lets every request execute that is left.
// It returns the number of steps.
func (w *World) Shuffle(c Chaos) int {
	w.tb.Helper()
	w.chaos = &c
	limit := c.Steps
	if limit == 0 {
		limit = 1_000_000
	}
	steps := 0
	for w.move() {
		if steps++; steps > limit {
			w.tb.Fatalf("script: tasks have not ended after %d steps:\n%s", limit, w.Stand())
		}
	}
	w.chaos = nil
	for _, t := range w.tasks {
		if t.state != taskDone && t.state != taskCrashed {
			w.tb.Fatalf("script: task %s waits for ever:\n%s", t.name, w.Stand())
		}
	}
	for _, q := range w.wires {
		q.run()
	}
	return steps
}

// move makes one step. It reports false when no task can ever go on.
func (w *World) move() bool {
	total, busy := 0, false
	sleepers := w.rng.IntN(4) == 0 // time passes slowly
	for pass := range 2 {
		for _, t := range w.tasks {
			if t.state == taskReady || t.state == taskAsleep && (sleepers || pass == 1) {
				total += t.draw(w)
			}
			busy = busy || t.state != taskDone && t.state != taskCrashed
		}
		for _, q := range w.wires {
			if q.movable() {
				total += q.draw(w)
			}
		}
		if !busy {
			return false // what is left of requests is not chosen for long
		}
		if total > 0 {
			pick := w.rng.IntN(total)
			for _, t := range w.tasks {
				if t.state == taskReady || t.state == taskAsleep && (sleepers || pass == 1) {
					if pick -= t.n; pick < 0 {
						w.resume(t)
						return true
					}
				}
			}
			for _, q := range w.wires {
				if q.movable() {
					if pick -= q.n; pick < 0 {
						q.advance()
						return true
					}
				}
			}
		}
	}
	return false
}

func (q *wire) movable() bool { return !q.dev.sync && (len(q.ghosts) > 0 || q.next() >= 0) }

// advance makes a step of a QP.
func (q *wire) advance() {
	w, c := q.w, q.w.chaos
	w.now++
	if len(q.ghosts) > 0 {
		if w.rng.IntN(8) == 0 {
			q.ghosts = nil // lost for good
		} else {
			q.haunt()
		}
		return
	}
	if w.chance(c.Fail) {
		late := w.rng.IntN(len(q.queue) + 1)
		if q.dev.sync {
			late = 0
		}
		q.fail(verbs.StatusRetryExcErr, late)
		return
	}
	i := q.next()
	if !q.dev.sync && w.chance(c.Overtake) {
		i = q.overtaker(i)
	}
	op := q.queue[i]
	if !op.judged && op.Len > 8 && w.chance(c.Tear) {
		op.pieces = w.tear(op)
		if q.dev.sync {
			slices.SortFunc(op.pieces, func(a, b piece) int { return a.from - b.from })
		}
	}
	q.step(i)
}

// overtaker returns a request behind i that may execute before it, or i.
func (q *wire) overtaker(i int) int {
	for j := i; j < len(q.queue); j++ {
		op := q.queue[j]
		switch {
		case op.executed:
		case op.Opcode == verbs.OpRead:
		case op.wr.Flags&verbs.FlagFence != 0:
			return i
		case j > i && q.w.rng.IntN(2) == 0:
			return j
		case op.Opcode == verbs.OpWrite:
			return i // nothing overtakes a WRITE
		}
	}
	return i
}

// tear cuts a request into pieces: some lines apart from the others, in any
// order, and some of them in the middle.
func (w *World) tear(op *Op) []piece {
	var groups [][]piece
	from := 0
	for _, l := range lines(op, nil) {
		if l.to < op.Len && w.rng.IntN(2) == 0 {
			continue // goes with the next
		}
		g := []piece{{from, l.to}}
		if words := (l.to - from) / 8; words > 1 && w.rng.IntN(2) == 0 {
			cut := from + 8*(1+w.rng.IntN(words-1))
			g = []piece{{from, cut}, {cut, l.to}}
		}
		groups = append(groups, g)
		from = l.to
	}
	var out []piece
	for len(groups) > 0 {
		i := w.rng.IntN(len(groups))
		out = append(out, groups[i][0])
		if groups[i] = groups[i][1:]; len(groups[i]) == 0 {
			groups = append(groups[:i], groups[i+1:]...)
		}
	}
	return out
}

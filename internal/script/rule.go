package script

import "fjord/verbs"

// Rule says what is to become of a request: the first that matches, unless Nth or
// All says otherwise. It meets each request once, when that would execute next.
type Rule struct {
	w     *World
	name  string
	match func(*Op) bool
	act   action
	order []int  // tear: the lines, in the order in which they execute
	stop  int    // tear: how many of them before it is held
	nth   uint64 // 0: every one
	met   uint64
	over  bool
	ops   []*Op
}

type action uint8

const (
	actHold action = iota
	actHoldAnswer
	actTear
	actFail
	actLose
	actStrand
	actCrash
	actCrashAfter
)

func (w *World) rule(name string, act action, match func(*Op) bool) *Rule {
	r := &Rule{w: w, name: name, act: act, match: match, nth: 1}
	w.rules = append(w.rules, r)
	return r
}

// Hold stops the request, and those behind it on its QP, before it executes.
func (w *World) Hold(name string, match func(*Op) bool) *Rule { return w.rule(name, actHold, match) }

// HoldAnswer lets the request execute, and holds its completion and what is
// behind it on its QP.
func (w *World) HoldAnswer(name string, match func(*Op) bool) *Rule {
	return w.rule(name, actHoldAnswer, match)
}

// Tear lets the request execute line by line, in an order that starts with the
// given ones, and holds it after the first stop of them. Line 0 is the one with
// the request's first byte.
func (w *World) Tear(name string, stop int, order []int, match func(*Op) bool) *Rule {
	r := w.rule(name, actTear, match)
	r.order, r.stop = order, stop
	return r
}

// Fail takes the request's QP to ERR in its place: it does not execute.
func (w *World) Fail(name string, match func(*Op) bool) *Rule { return w.rule(name, actFail, match) }

// Lose lets the request execute, but its answer is lost: its QP goes to ERR.
func (w *World) Lose(name string, match func(*Op) bool) *Rule { return w.rule(name, actLose, match) }

// Strand takes the request's QP to ERR, while the request and those behind it are
// still on their way: they execute at Release, unless the responder's QP has been
// destroyed by then.
func (w *World) Strand(name string, match func(*Op) bool) *Rule {
	return w.rule(name, actStrand, match)
}

// Crash ends the request's coordinator before it executes: all that it has
// posted vanishes, its tasks get no turn any more.
func (w *World) Crash(name string, match func(*Op) bool) *Rule { return w.rule(name, actCrash, match) }

// CrashAfter is Crash once the request has executed.
func (w *World) CrashAfter(name string, match func(*Op) bool) *Rule {
	return w.rule(name, actCrashAfter, match)
}

// Nth makes the rule one for the n-th request that matches.
func (r *Rule) Nth(n int) *Rule {
	r.nth = uint64(n)
	return r
}

// All makes the rule one for every request that matches, on any QP.
func (r *Rule) All() *Rule { return r.Nth(0) }

// Hit tells whether the rule has struck.
func (r *Rule) Hit() bool { return len(r.ops) > 0 }

// Await returns the first request that the rule has struck. It fails the test if
// there is none.
func (r *Rule) Await() *Op {
	r.w.tb.Helper()
	if !r.Hit() {
		r.w.tb.Fatalf("script: rule %q has met no request:\n%s", r.name, r.w.Stand())
	}
	return r.ops[0]
}

// Release ends the rule and lets what it holds go on. It is called by the test's
// goroutine.
func (r *Rule) Release() {
	r.over = true
	for _, o := range r.ops {
		if o.held == r {
			o.held = nil
			o.q.retire()
		}
		if r.w.chaos == nil {
			for len(o.q.ghosts) > 0 {
				o.q.haunt()
			}
			o.q.run()
		}
	}
}

// Step lets a torn request execute one more line, and holds it again.
func (r *Rule) Step() {
	for _, o := range r.ops {
		if o.held == r {
			o.held, o.stop = nil, 1
			o.q.step(o.q.next())
		}
	}
}

// judge asks the rules about a request that is to execute. It reports whether it
// must not.
func (w *World) judge(op *Op) bool {
	for _, r := range w.rules {
		if r.over || r.nth > 0 && r.met == r.nth || !r.match(op) {
			continue
		}
		if r.met++; r.met < r.nth {
			continue
		}
		r.ops = append(r.ops, op)
		switch r.act {
		case actHold, actFail, actStrand, actCrash:
			return w.strike(op, r)
		case actTear:
			op.pieces, op.stop, op.after = lines(op, r.order), r.stop, r
			if r.stop == 0 {
				op.held = r
				return true
			}
		case actHoldAnswer, actLose, actCrashAfter:
			op.after = r
		}
		return false
	}
	return false
}

// strike does what a rule is for. It reports whether the request, or what is
// behind it, must wait.
func (w *World) strike(op *Op, r *Rule) bool {
	switch r.act {
	case actHold, actHoldAnswer:
		if r.over {
			return false
		}
		op.held = r
	case actFail, actLose:
		op.q.fail(verbs.StatusRetryExcErr, 0)
	case actStrand:
		op.q.fail(verbs.StatusRetryExcErr, len(op.q.queue))
	case actCrash, actCrashAfter:
		op.q.dev.crash()
	case actTear:
		return false
	}
	return true
}

// lines cuts a request at the boundaries of lines.
func lines(op *Op, order []int) []piece {
	var all []piece
	for from := 0; from < op.Len; {
		to := min(op.Len, from+lineSize-int((op.Off+uint64(from))%lineSize))
		all = append(all, piece{from, to})
		from = to
	}
	out := make([]piece, 0, len(all))
	taken := make([]bool, len(all))
	for _, i := range order {
		if i < len(all) && !taken[i] {
			out, taken[i] = append(out, all[i]), true
		}
	}
	for i, p := range all {
		if !taken[i] {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		out = append(out, piece{})
	}
	return out
}

const lineSize = 64

// Crashed ends a coordinator as it is now: what it has posted and has not executed
// vanishes, and its tasks with it.
func (w *World) Crashed(coord int) {
	for _, q := range w.wires {
		if q.dev.index == coord {
			q.dev.crash()
		}
	}
}

// Bury ends tasks for good, those that wait included: of a coordinator that has crashed.
func (w *World) Bury(dead func(task string) bool) {
	for _, t := range w.tasks {
		if t.state != taskDone && dead(t.name) {
			t.state = taskCrashed
		}
	}
}

// crash ends a coordinator.
func (d *device) crash() {
	d.crashed = true
	for _, q := range d.w.wires {
		if q.dev == d {
			q.queue, q.ghosts, q.open = nil, nil, nil
		}
	}
}

// vanish is where tasks of a crashed coordinator end up.
func (w *World) vanish() {
	t := w.cur
	if t == nil {
		w.tb.Fatalf("script: the test's goroutine runs on a coordinator that has crashed\n%s", w.Stand())
	}
	if !t.kill {
		t.pause(taskCrashed)
	}
}

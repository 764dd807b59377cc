package serial

import (
	"fmt"
	"strings"
)

// Options bound a check. The zero value is good.
type Options struct {
	// Limit is the number of violations told in full; the rest are only counted. 0 means 16.
	Limit int
	// Steps bounds the search for places of absent reads and for the fate of unknown attempts, in
	// attempts and edges looked at, so that the verdict comes in seconds. 0 means 200 million.
	Steps int
}

// EnsureDefaults fills in what is zero.
func (o *Options) EnsureDefaults() {
	if o.Limit <= 0 {
		o.Limit = 16
	}
	if o.Steps <= 0 {
		o.Steps = 200_000_000
	}
}

// EdgeCounts are the edges of the dependency graph, by kind. Those of real time go through helpers.
type EdgeCounts struct{ WW, WR, RW, RealTime int }

// Result is the verdict on a history.
type Result struct {
	// OK: no violation was found. The history is strictly serializable unless Undecided.
	OK bool
	// Undecided: the search was given up at its bound of steps. There may be a violation, but only one in which
	// the reads of absent keys cannot all be placed, or in which every fate of the unknown attempts fails.
	Undecided bool

	Attempts, Committed, Aborted, Unknown int
	UnknownCommitted                      int // attempts of unknown outcome that must have committed, by what others saw
	Keys                                  int
	Edges                                 EdgeCounts
	Choices                               int // reads of absent keys for which real time leaves several absences

	Violations []Violation // the first Options.Limit
	Total      int         // violations found
}

// String is the verdict in one line.
func (r *Result) String() string {
	var b strings.Builder
	switch {
	case !r.OK:
		fmt.Fprintf(&b, "NOT strictly serializable: %d violation(s)", r.Total)
	case r.Undecided:
		b.WriteString("undecided: no violation found before the search was given up")
	default:
		b.WriteString("strictly serializable")
	}
	fmt.Fprintf(&b, "; %d attempts: %d committed, %d aborted, %d unknown (%d of them committed); %d keys; edges: %d ww, %d wr, %d rw, %d real-time",
		r.Attempts, r.Committed, r.Aborted, r.Unknown, r.UnknownCommitted, r.Keys,
		r.Edges.WW, r.Edges.WR, r.Edges.RW, r.Edges.RealTime)
	return b.String()
}

// Check decides whether h is strictly serializable: whether its committed attempts, and some of those of
// unknown outcome, have an order that real time allows, in which each saw exactly what those before it left.
// The history must not change while the violations are in use.
func Check(h *History, opt Options) Result {
	opt.EnsureDefaults()
	c := checker{ix: newIndex(h), opt: opt, steps: opt.Steps}
	root := c.run(nil)
	if root.total > 0 && !root.hard || root.undecided {
		// Every violation may vanish if some unknown attempt did commit.
		switch good, gaveUp := c.search(root, nil); {
		case good != nil:
			root = good
		case gaveUp:
			root.undecided, root.violations, root.total = true, nil, 0
		case c.worst != nil:
			// Every way out fails: show the first of them too.
			root.total += c.worst.total
			for _, v := range c.worst.violations {
				if len(root.violations) < opt.Limit {
					root.violations = append(root.violations, v)
				}
			}
		}
	}
	return c.result(root)
}

// checker tries one assumption after another about the unknown attempts.
type checker struct {
	ix    *index
	opt   Options
	steps int
	worst *run // the first run that fails for good
}

func (c *checker) run(taken []int32) *run {
	r := newRun(c.ix, c.opt, taken)
	r.check()
	c.steps -= len(c.ix.h.Attempts) + len(r.edges)
	return r
}

// search looks for an assumption under which the history is right, given a run without one. It knows
// for each failed run of which attempts one at least must have committed.
func (c *checker) search(failed *run, taken []int32) (good *run, gaveUp bool) {
	gaveUp = failed.undecided
	for _, a := range failed.soft {
		if c.steps < 0 {
			return nil, true
		}
		next := append(taken[:len(taken):len(taken)], a)
		r := c.run(next)
		switch {
		case r.total == 0 && !r.undecided:
			return r, false
		case r.hard:
			if c.worst == nil {
				c.worst = r
			}
			continue
		}
		g, up := c.search(r, next)
		if g != nil {
			return g, false
		}
		gaveUp = gaveUp || up
	}
	return nil, gaveUp
}

func (c *checker) result(r *run) Result {
	res := Result{
		OK: r.total == 0, Undecided: r.undecided,
		Attempts: len(c.ix.h.Attempts), Unknown: len(c.ix.unknown), Keys: len(c.ix.keys),
		Choices: len(r.choices), Violations: r.violations, Total: r.total,
	}
	for i := range c.ix.h.Attempts {
		switch c.ix.h.Attempts[i].Outcome {
		case Commit:
			res.Committed++
		case Abort:
			res.Aborted++
		case Unknown:
			if r.counted[i] {
				res.UnknownCommitted++
			}
		}
	}
	for i := range r.edges {
		switch r.edges[i].dep {
		case depWW:
			res.Edges.WW++
		case depWR:
			res.Edges.WR++
		case depRW:
			res.Edges.RW++
		case depRT:
			res.Edges.RealTime++
		}
	}
	return res
}

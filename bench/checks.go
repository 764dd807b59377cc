package bench

import (
	"fmt"
	"maps"
	"slices"

	"fjord/txn"
)

// Check is the result of one check after a run.
type Check struct {
	Name   string
	OK     bool
	Detail string // what was found; may be empty
}

// Checks are the results of all checks, in the order they were made.
type Checks struct{ list []Check }

// Add adds a result. A name that was added before keeps its worse result, so that
// no failure is covered up.
func (c *Checks) Add(name string, ok bool, format string, args ...any) {
	detail := fmt.Sprintf(format, args...)
	for i := range c.list {
		if c.list[i].Name == name {
			if c.list[i].OK {
				c.list[i] = Check{name, ok, detail}
			}
			return
		}
	}
	c.list = append(c.list, Check{name, ok, detail})
}

// List returns the results.
func (c *Checks) List() []Check { return c.list }

// OK reports whether all checks passed.
func (c *Checks) OK() bool {
	return !slices.ContainsFunc(c.list, func(k Check) bool { return !k.OK })
}

// addReport adds the checks of the engine.
func (c *Checks) addReport(r *txn.CheckReport) {
	for _, name := range slices.Sorted(maps.Keys(r.Checks)) {
		c.Add(name, r.Checks[name], "")
	}
}

// addCounts compares what the workers counted with what the engine did between
// two moments at which no transaction was running.
func (c *Checks) addCounts(total *tally, engine txn.Stats) {
	own := txn.Stats{Committed: total.committed, Unknown: total.aborted[reasonUnknown]}
	copy(own.Aborted[:], total.aborted)
	own.Cancelled = total.totalAborted() - own.Unknown
	for _, n := range own.Aborted {
		own.Cancelled -= n
	}
	ok := own.Committed == engine.Committed && own.Unknown == engine.Unknown &&
		own.Aborted == engine.Aborted && own.Cancelled == engine.Cancelled
	detail := ""
	if !ok {
		detail = fmt.Sprintf("committed %d, engine %d; conflicts %v, engine %v; cancelled %d, engine %d; unknown %d, engine %d",
			own.Committed, engine.Committed, own.Aborted, engine.Aborted, own.Cancelled, engine.Cancelled, own.Unknown, engine.Unknown)
	}
	c.Add("counts_match_engine", ok, "%s", detail)
}

package simtest

import (
	"errors"
	"slices"

	"fjord/txn"
)

// liveTransactions is how many transactions every worker has to get done when all is
// well again.
const liveTransactions = 2

// work runs transactions until both phases are over.
func (k *worker) work() {
	r := k.life.run
	for ; k.quota > 0 && r.phase == phaseSafety; k.quota-- {
		k.settle(k.step())
	}
	for r.phase == phaseSafety {
		r.world.Sleep(lookAgain)
	}
	for k.done < liveTransactions {
		err := k.step()
		k.settle(err)
		if err == nil || errors.Is(err, errUser) {
			k.done++
		} else {
			r.world.Sleep(lookAgain)
		}
	}
	k.ended = true
}

// step is one transaction of one of the workloads.
func (k *worker) step() error {
	list := k.life.run.workloads
	if len(list) == 4 && k.rng.IntN(6) == 0 {
		return across(k, list[0].(*bank), list[3].(*churn))
	}
	return list[k.rng.IntN(len(list))].step(k)
}

// settle judges how a transaction has ended.
func (k *worker) settle(err error) {
	r := k.life.run
	k.last = nil
	var unknown *txn.UnknownError
	kind := ""
	switch {
	case err == nil:
		return
	case errors.Is(err, errBroken):
		r.fail("rules: %v: %v", k.id, err)
	case errors.Is(err, errUser):
		r.errors["rolled back"]++
		return
	case errors.As(err, &unknown):
		kind = "unknown"
		k.life.ask(unknown.ID)
	case errors.Is(err, txn.ErrUnavailable):
		kind = "unavailable"
		k.life.ask(k.id) // perhaps it could not be undone
	case errors.Is(err, txn.ErrConflict):
		kind = "conflict"
	case errors.Is(err, txn.ErrFull):
		kind = "full"
	case errors.Is(err, txn.ErrTooLarge):
		kind = "too large"
	default:
		r.fail("errors: %s worker %d, transaction %v: %v", k.life.name, k.index, k.id, err)
	}
	k.last = err
	r.errors[kind]++
}

// ask has the outcome of a transaction found out.
func (c *life) ask(id txn.ID) {
	if id != 0 && !slices.Contains(c.asking, id) {
		c.asking = append(c.asking, id)
	}
}

// resolve finds outcomes out until no worker runs any more.
func (c *life) resolve() {
	r := c.run
	for {
		for _, id := range slices.Clone(c.asking) {
			if c.resolveOne(id) {
				c.asking = slices.DeleteFunc(c.asking, func(x txn.ID) bool { return x == id })
			}
		}
		if len(c.asking) == 0 && !slices.ContainsFunc(c.workers, func(k *worker) bool { return !k.ended }) {
			c.rested = true
			return
		}
		r.world.Sleep(lookAgain)
	}
}

// resolveOne tells whether there is nothing more to ask.
func (c *life) resolveOne(id txn.ID) bool {
	r := c.run
	o, err := c.db.Resolve(background, id)
	r.trace("%d %s: resolve %v: %v, %v", r.world.Now(), c.name, id, o, err)
	switch {
	case err == nil:
		r.resolved(id, o)
	case errors.Is(err, txn.ErrNotFound):
		// Another coordinator may know.
	case transient(err):
		c.asked = err
		return false
	default:
		r.fail("resolve: %v: %v", id, err)
	}
	return true
}

// resolved notes an outcome that was asked for.
func (r *run) resolved(id txn.ID, o txn.Outcome) {
	if !r.history.resolved(id, o) {
		r.fail("resolve: %v is said to be %v, and its client was told the contrary", id, o)
	}
}

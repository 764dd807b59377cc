package simtest

import (
	"errors"
	"fmt"
	"slices"

	"fjord/coord"
	"fjord/txn"
)

// loadBatch is how many keys are loaded in one transaction: few enough for the
// smallest log slot.
const loadBatch = 2

// load makes and fills the tables.
func (r *run) load() bool {
	c, err := r.newLife(-1, "loader")
	if err == nil {
		err = c.open()
	}
	for _, w := range r.workloads {
		if err == nil {
			c.tables[w.name()], err = c.db.CreateTable(background, w.schema())
		}
		k := &worker{life: c}
		for keys := range slices.Chunk(w.keys(), loadBatch) {
			if err == nil {
				err = k.update("load", func(t *tx) error { return w.load(t, keys) })
			}
		}
	}
	if err == nil {
		err = c.db.Close()
	}
	if err != nil {
		r.fail("load: %v", err)
		return false
	}
	c.closed = true
	if now := r.world.Now(); now >= startNS {
		r.fail("load: it is %d ns, and the plan begins at %d", now, startNS)
		return false
	}
	r.world.Sleep(startNS - r.world.Now())
	return true
}

// begin has a coordinator join, with workers that have so many transactions to run.
func (r *run) begin(index int, name string, quota int) {
	c, err := r.newLife(index, name)
	if err != nil {
		r.fail("build: %v", err)
		return
	}
	for i := range r.setup.Workers {
		n := uint64(len(r.lives)*maxWorkers + i)
		c.workers = append(c.workers, &worker{life: c, index: i, rng: stream(r.setup.Seed, streamWorker+n), quota: quota})
	}
	c.host.GoNamed(name, c.live)
}

// tick is how often the main worker looks.
const tick = 10_000

// safetyNS bounds the safety phase: a coordinator may be cut off for all of it.
const safetyNS = 6_000_000

// safety runs transactions while the plan strikes.
func (r *run) safety() {
	for i := range r.setup.Coordinators {
		r.begin(i, hostName(i), r.setup.Transactions)
	}
	r.world.Go(r.breakSome)
	for end := r.world.Now() + safetyNS; r.world.Now() < end && !r.worked(); r.world.Sleep(tick) {
		r.bury()
	}
}

// worked tells whether all that live have run what they had to.
func (r *run) worked() bool {
	for _, c := range r.lives {
		if c.closed || c.host.Crashed() && c.buried {
			continue
		}
		if c.host.Crashed() || c.db == nil {
			return false
		}
		for _, k := range c.workers {
			if k.quota > 0 {
				return false
			}
		}
	}
	return true
}

// bury has another coordinator join where one has crashed.
func (r *run) bury() {
	for _, c := range slices.Clone(r.lives) {
		if !c.host.Crashed() || c.buried {
			continue
		}
		c.buried = true
		r.trace("%d %s has crashed", r.world.Now(), c.name)
		r.begin(c.index, c.name+"'", max(1, r.setup.Transactions/2))
	}
}

// patience is how long the liveness phase may take.
func (r *run) patience() int64 {
	s := &r.setup
	return 20_000_000 + 60*(s.SuspectAfter+(4096<<s.Timeout)*int64(s.RetryCnt+1))
}

// within waits until something is so; false: it took too long.
func (r *run) within(deadline int64, so func() bool) bool {
	for !so() {
		if r.world.Now() >= deadline || len(r.failures) >= maxFailures {
			return false
		}
		r.bury()
		r.world.Sleep(tick)
	}
	return true
}

// liveness waits until everything has come to rest by itself.
func (r *run) liveness() bool {
	deadline := r.world.Now() + r.patience()
	ok := r.within(deadline, func() bool {
		return !slices.ContainsFunc(r.lives, func(c *life) bool { return c.index >= 0 && !c.host.Crashed() && !c.rested })
	})
	if !ok {
		r.blame()
		return false
	}
	if !r.within(deadline, func() bool { return len(r.dead()) == 0 }) {
		r.fail("liveness: dead coordinators %v were not recovered within %d ns", r.dead(), r.patience())
		return false
	}
	return r.reachable(deadline)
}

// dead lists the members that are no coordinator's any more.
func (r *run) dead() (ids []uint16) {
	members, err := r.cluster.Members(background)
	if err != nil {
		r.fail("liveness: members: %v", err)
	}
	for _, m := range members {
		if !slices.ContainsFunc(r.lives, func(c *life) bool {
			return !c.host.Crashed() && !c.closed && c.db != nil && c.db.Coordinator() == m.ID
		}) {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// blame names those who have not come to rest.
func (r *run) blame() {
	if dead := r.dead(); len(dead) > 0 {
		r.fail("liveness: dead coordinators %v were not recovered within %d ns", dead, r.patience())
	}
	for _, c := range r.lives {
		if c.index < 0 || c.host.Crashed() || c.rested {
			continue
		}
		if len(c.asking) > 0 {
			r.fail("liveness: %s has not found out for %d ns what became of %v: %v", c.name, r.patience(), c.asking, c.asked)
		}
		for _, k := range c.workers {
			if !k.ended {
				r.fail("liveness: %s worker %d has not proceeded for %d ns: %d transactions since, last error: %v", c.name, k.index, r.patience(), k.done, k.last)
			}
		}
	}
}

// reachable has a new coordinator lock every key.
func (r *run) reachable(deadline int64) bool {
	c, err := r.newLife(-1, "checker")
	if err == nil {
		err = c.open()
	}
	if err == nil {
		err = c.find()
	}
	if err != nil {
		r.fail("liveness: the checker cannot join: %v", err)
		return false
	}
	k := &worker{life: c}
	for _, w := range r.workloads {
		for _, key := range w.keys() {
			var err error
			if !r.within(deadline, func() bool {
				err = k.update("lock", func(t *tx) error {
					_, _, err := t.getForUpdate(w.name(), key)
					return err
				})
				return err == nil || !transient(err)
			}) || err != nil {
				r.fail("liveness: the key %q cannot be locked within %d ns: %v", key, r.patience(), err)
				return false
			}
		}
	}
	return true
}

// verdict looks at what is left when everybody has gone.
func (r *run) verdict() {
	c := r.lives[len(r.lives)-1]
	for _, o := range r.lives {
		if o != c && !o.closed && !o.host.Crashed() {
			if err := o.db.Close(); err != nil {
				r.fail("close: %s: %v", o.name, err)
			}
			o.closed = true
		}
	}
	// One that closes may be taken for dead meanwhile; then the checker is at its recovery.
	var members []coord.Seat
	var report *txn.CheckReport
	var err error
	if !r.within(r.world.Now()+r.patience(), func() bool {
		if members, err = r.cluster.Members(background); err != nil || len(members) > 1 {
			return false
		}
		report, err = c.db.Check(background)
		return !errors.Is(err, txn.ErrBusy)
	}) || err != nil {
		r.fail("close: members are %v, right is the checker alone; check: %v", members, err)
		return
	}
	r.ask(c)
	if !report.OK() {
		r.fail("check: %v", report.Details[:min(4, len(report.Details))])
	}
	for _, w := range r.workloads {
		all, err := c.readAll(w)
		if err != nil {
			r.fail("check: %v", err)
			continue
		}
		if err := w.verify(all); err != nil {
			r.fail("%v", err)
		}
		if n := report.Records[w.name()]; n != uint64(len(all)) {
			r.fail("records: %s has %d records, and %d keys are found", w.name(), n, len(all))
		}
	}
	if err := c.db.Close(); err != nil {
		r.fail("close: the checker: %v", err)
	}
	c.closed = true
}

// ask resolves what is still unknown: what dead coordinators had in hand, and what
// their clients could not find out.
func (r *run) ask(c *life) {
	for _, o := range r.lives {
		for _, id := range o.lost() {
			r.history.index[id] = len(r.history.attempts)
			r.history.attempts = append(r.history.attempts, o.flights[id].attempt(id))
			o.ended(id)
		}
	}
	var unknown []txn.ID // also of those who died before they could ask
	for id := range r.history.index {
		if r.history.unknown(id) {
			unknown = append(unknown, id)
		}
	}
	for _, o := range r.lives { // those that recovery may have taken for unfinished
		for _, id := range o.logged {
			if o.host.Crashed() || o.db.Coordinator() != id.Coordinator() {
				unknown = append(unknown, id)
			}
		}
	}
	slices.Sort(unknown)
	for _, id := range unknown {
		o, err := c.db.Resolve(background, id)
		r.trace("%d %s: resolve %v: %v, %v", r.world.Now(), c.name, id, o, err)
		switch {
		case err == nil:
			r.resolved(id, o)
		case !errors.Is(err, txn.ErrNotFound):
			r.fail("resolve: %v, when all is well: %v", id, err)
		}
	}
}

// readAll reads every key of a workload.
func (c *life) readAll(w workload) (map[string][]byte, error) {
	all := make(map[string][]byte)
	k := &worker{life: c}
	for keys := range slices.Chunk(w.keys(), 16) {
		err := k.view("final", func(t *tx) error {
			for _, key := range keys {
				b, ok, err := t.get(w.name(), key)
				if err != nil {
					return err
				}
				if ok {
					all[key] = slices.Clone(b)
				}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read all of %s: %w", w.name(), err)
		}
	}
	return all, nil
}

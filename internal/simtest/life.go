package simtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"fjord/lock"
	"fjord/txn"
	"fjord/verbs/sim"
)

// life is a coordinator from its joining to its end.
type life struct {
	run     *run
	index   int // whose place it has
	name    string
	host    *sim.Host
	clock   sim.Clock
	db      *txn.DB // nil: it has not joined yet
	tables  map[string]*txn.Table
	workers []*worker
	flights map[txn.ID]*flight
	logged  []txn.ID // transactions that have ended, and may stand in its log still
	keyless int      // cells in flights whose key is not known
	asking  []txn.ID // outcomes to be found out
	asked   error    // the last failure of that
	rested  bool     // all workers have ended, and all outcomes are known
	buried  bool
	closed  bool
}

// worker runs transactions of a life.
type worker struct {
	life  *life
	index int
	rng   *rand.Rand
	id    txn.ID // of its last attempt
	quota int    // transactions to run while the plan strikes
	done  int    // transactions that succeeded in the liveness phase
	ended bool
	last  error
}

// newLife adds a host for a coordinator. Nothing runs yet.
func (r *run) newLife(index int, name string) (*life, error) {
	c := &life{run: r, index: index, name: name, tables: make(map[string]*txn.Table), flights: make(map[txn.ID]*flight)}
	s := &r.setup
	o := sim.HostOptions{EventWait: s.EventWait, TurnNS: s.TurnNS}
	machine := ""
	if index >= 0 {
		c.clock = s.Clocks[index]
		o.Clock = c.clock
		switch at := s.Machines[index]; {
		case at < 0:
			machine = nodeName(-1 - at)
		case at != index:
			machine = hostName(at)
		}
	}
	var err error
	if h := r.world.Host(machine); h != nil {
		c.host, err = h.AddProcess(name, o)
	} else {
		c.host, err = r.world.AddHost(name, o)
	}
	r.lives = append(r.lives, c)
	return c, err
}

// open joins the cluster.
func (c *life) open() error {
	s := &c.run.setup
	strategy, err := lock.ByName(s.Lock)
	if err != nil {
		return err
	}
	o := txn.Options{Cluster: c.run.cluster, Sessions: s.Sessions, AddressCache: s.AddressCache, Lock: strategy, MaxRetries: s.MaxRetries,
		SuspectAfter: time.Duration(s.SuspectAfter), Recorder: recorder{c}, Logger: zap.New(&logCore{c})}
	if c.index < 0 && c.run.phase == phaseLoad {
		o.SuspectAfter = txn.NoSuspicion
	}
	c.run.opening = c
	db, err := txn.Open(background, o)
	c.run.opening = nil
	if err != nil {
		return err
	}
	c.db = db
	return nil
}

// find gets the handles of all tables.
func (c *life) find() error {
	for _, w := range c.run.workloads {
		t, err := c.db.Table(background, w.name())
		if err != nil {
			return err
		}
		c.tables[w.name()] = t
	}
	return nil
}

// lookAgain is how long a worker waits before it tries again what it has to get done.
const lookAgain = 20_000

// live is what a coordinator does: it joins, has its workers run, and finds out what
// became of transactions of unknown outcome.
func (c *life) live() {
	r := c.run
	for c.db == nil || len(c.tables) < len(r.workloads) {
		var err error
		if c.db == nil {
			err = c.open()
		} else {
			err = c.find()
		}
		if err != nil {
			r.trace("%d %s: %v", r.world.Now(), c.name, err)
			c.workers[0].last = err
			if !transient(err) {
				r.fail("errors: %s cannot begin: %v", c.name, err)
				return
			}
			r.world.Sleep(lookAgain)
		}
	}
	for _, k := range c.workers {
		c.host.GoNamed(fmt.Sprintf("%s worker %d", c.name, k.index), k.work)
	}
	c.resolve()
}

// transient tells whether an error may come of faults, and passes.
func transient(err error) bool {
	for _, e := range []error{txn.ErrUnavailable, txn.ErrConflict, txn.ErrFull, txn.ErrCommitUnknown, txn.ErrBusy} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// lost lists the transactions of a dead coordinator that had not ended.
func (c *life) lost() (ids []txn.ID) {
	if !c.host.Crashed() {
		return nil
	}
	for id := range c.flights {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// logCore counts what a coordinator logs.
type logCore struct{ life *life }

func (l *logCore) Enabled(v zapcore.Level) bool      { return v >= zapcore.WarnLevel }
func (l *logCore) With([]zapcore.Field) zapcore.Core { return l }
func (l *logCore) Sync() error                       { return nil }

func (l *logCore) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if l.Enabled(e.Level) {
		return c.AddCore(e, l)
	}
	return c
}

func (l *logCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	r := l.life.run
	r.events[e.Message]++
	if r.tracer != nil {
		m := zapcore.NewMapObjectEncoder()
		for _, f := range fields {
			f.AddTo(m)
		}
		var text []string
		for _, f := range fields {
			text = append(text, fmt.Sprintf("%s=%v", f.Key, m.Fields[f.Key]))
		}
		r.trace("%d %s: %s %s", r.world.Now(), l.life.name, e.Message, strings.Join(text, " "))
	}
	return nil
}

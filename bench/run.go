package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fjord/internal/serial"
	"fjord/txn"
	"fjord/verbs"
)

// Outputs are where a run reports to while it runs. All may be nil.
type Outputs struct {
	History    *History
	Registerer prometheus.Registerer
	Progress   *Progress
}

const (
	// tickInterval is how often the progress line is drawn, and a limit looked at.
	tickInterval = int64(500 * time.Millisecond)
	// virtualTickInterval is that in virtual time, of which little passes.
	virtualTickInterval = int64(time.Millisecond)
	// grace is how long transactions in progress may take to end once a part of
	// the run is over, before they are cancelled.
	grace = int64(10 * time.Second)
	// maxSelfCheck bounds the histories that a run checks itself: the checker
	// keeps about a kilobyte per attempt.
	maxSelfCheck = 1_000_000
)

// errInterrupted is the failure of a run whose context ended.
var errInterrupted = errors.New("interrupted")

// run is a run in progress.
type run struct {
	cfg       *Config
	bench     Benchmark
	types     []string
	rollbacks []*Rollback
	reasons   []string
	out       Outputs
	progress  *Progress

	rt      verbs.Runtime // of whoever drives the run
	tick    int64         // how often the progress line is drawn, and a limit looked at
	sim     *simulation   // nil: time is real
	dbs     []*txn.DB     // one for each compute node
	workers []*Worker
	cancel  context.CancelFunc // of the transactions

	stop atomic.Bool // everyone is to come to an end
	mu   sync.Mutex
	err  error // why the run failed, the first reason
}

// fail makes the run end, and fail.
func (r *run) fail(err error) {
	r.mu.Lock()
	if r.err == nil {
		r.err = err
	}
	r.mu.Unlock()
	r.stop.Store(true)
}

func (r *run) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Run runs b as c says. When ctx ends, the run stops early, but is checked and
// reported all the same, as failed. The error says that there is nothing to
// report: the database could not be opened or loaded.
func Run(ctx context.Context, b Benchmark, c *Config, out Outputs) (*Result, error) {
	r := &run{cfg: c, bench: b, types: b.Types(), rollbacks: b.Rollbacks(), out: out, progress: out.Progress}
	if r.progress == nil {
		r.progress = NewProgress(nil)
	}
	r.reasons = reasonNames(r.rollbacks)
	defer r.progress.clear()
	defer context.AfterFunc(ctx, func() { r.fail(errInterrupted) })()

	// Transactions outlive ctx, so that an interrupt cuts none of them short.
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	r.cancel = cancel

	if c.Provider == providerSim {
		return r.simulate(inner)
	}
	return r.inReal(inner)
}

// inReal is a run in the time of this process.
func (r *run) inReal(ctx context.Context) (*Result, error) {
	o, err := r.options()
	if err != nil {
		return nil, err
	}
	o.Registerer = r.out.Registerer
	db, err := txn.Open(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	r.dbs, r.rt, r.tick = []*txn.DB{db}, db.Runtime(), tickInterval
	return r.whole(ctx)
}

// whole is a run from the load to the checks. It closes the databases.
func (r *run) whole(ctx context.Context) (_ *Result, err error) {
	defer func() {
		if e := r.close(); err == nil {
			err = e
		}
	}()
	b, c := r.bench, r.cfg
	begin := r.rt.Now()
	l := &Loader{Ctx: ctx, DB: r.dbs[0], Others: r.dbs[1:], Seed: c.Seed, Loaders: min(c.perHost(), maxLoaders), run: r}
	if err := b.Load(l); err != nil {
		return nil, fmt.Errorf("loading: %w", err)
	}
	res := newResult(b, c)
	res.LoadSeconds = float64(r.rt.Now()-begin) / 1e9
	r.makeWorkers(ctx)

	if h := r.out.History; h != nil {
		h.start(header{Benchmark: b.Name(), Seed: c.Seed, Virtual: r.rt.Virtual(), Build: res.Build, Config: c.Values})
	}
	if c.Warmup > 0 {
		now := r.rt.Now()
		r.part("warm-up", &part{start: now, end: now + int64(c.Warmup), rate: c.MaxRate})
	}
	before, world := r.stats(), r.sim.snapshot()
	measured := &part{start: r.rt.Now(), txns: c.Txns, rate: c.MaxRate}
	if c.Txns == 0 {
		measured.end = measured.start + int64(c.Duration)
	}
	r.part("measuring", measured)
	delta := r.stats().Sub(before)

	res.Seconds = float64(r.lastEnd()-measured.start) / 1e9
	total := r.fill(res)
	res.Verbs = verbsOf(delta.Verbs)
	res.Simulation = r.sim.report(world, res.Seconds)
	r.check(context.WithoutCancel(ctx), res, total, delta)
	if err := r.failure(); err != nil {
		res.Interrupted = errors.Is(err, errInterrupted)
		res.Error = err.Error()
	}
	return res, nil
}

// options are those of the database that the run asks for.
func (r *run) options() (txn.Options, error) {
	o, err := r.cfg.options()
	if err != nil {
		return o, err
	}
	r.bench.Options(&o)
	if r.out.History != nil {
		o.Recorder = r.out.History
	}
	return o, nil
}

// close closes all databases and returns the first error.
func (r *run) close() (err error) {
	for _, db := range r.dbs {
		if e := db.Close(); e != nil && err == nil {
			err = fmt.Errorf("closing the database: %w", e)
		}
	}
	return err
}

// stats are the totals of all databases.
func (r *run) stats() txn.Stats {
	sum := r.dbs[0].Stats()
	for _, db := range r.dbs[1:] {
		sum = sum.Sub(txn.Stats{}.Sub(db.Stats())) // a sum, since counts are modulo 2^64
	}
	return sum
}

func (r *run) makeWorkers(ctx context.Context) {
	for i := range r.cfg.Coordinators {
		w := &Worker{Index: i, DB: r.dbs[i%len(r.dbs)], Rand: rand.New(rand.NewPCG(r.cfg.Seed, uint64(i)+1)), run: r, ctx: ctx}
		w.body = w.attempt
		w.tally = make([]tally, len(r.types))
		w.client = r.bench.NewClient(w)
		r.workers = append(r.workers, w)
	}
}

// part runs one part with all workers.
func (r *run) part(name string, p *part) {
	for _, w := range r.workers {
		w.reset()
	}
	before := r.stats()
	var over int64 // when this part was to be over
	on := func(i int) verbs.Runtime { return r.workers[i].DB.Runtime() }
	newGroup(r.rt).do(len(r.workers), on, func(i int) { r.workers[i].loop(p) }, r.tick, func() {
		now := r.rt.Now()
		if h := r.out.History; h != nil && h.Err() != nil {
			r.fail(h.Err())
		}
		switch {
		case over == 0 && r.stop.Load():
			over = now
		case over == 0 && p.end != 0 && now >= p.end:
			over = p.end
		case over != 0 && now > over+grace:
			r.fail(fmt.Errorf("transactions had not ended %v after the end of the %s part and were cancelled", time.Duration(grace), name))
			r.cancel()
		}
		r.progress.transactions(name, p, now, func() txn.Stats { return r.stats().Sub(before) })
	})
}

// lastEnd returns when the last worker ended its part.
func (r *run) lastEnd() int64 {
	var last int64
	for i, w := range r.workers {
		if i == 0 || w.ended > last {
			last = w.ended
		}
	}
	return last
}

// fill merges what the workers counted into res, and returns it in total.
func (r *run) fill(res *Result) *tally {
	total := newTally(len(r.reasons), digits(len(r.workers)))
	for i, name := range r.types {
		sum := newTally(len(r.reasons), digits(len(r.workers)))
		for _, w := range r.workers {
			sum.merge(&w.tally[i])
		}
		total.merge(&sum)
		res.Transactions[name] = sum.figures(r.reasons, res.Seconds)
	}
	res.Figures = total.figures(r.reasons, res.Seconds)
	res.types, res.reasons = r.types, r.reasons
	return &total
}

// check makes all checks. What keeps one from being made fails the run.
func (r *run) check(ctx context.Context, res *Result, total *tally, delta txn.Stats) {
	r.progress.line("checking")
	checks := &Checks{}
	checks.addCounts(total, delta)
	if h := r.out.History; h != nil {
		if err := h.Close(); err != nil {
			r.fail(err)
		} else if err := r.checkHistory(checks, res, h); err != nil {
			r.fail(fmt.Errorf("checking the history: %w", err))
		}
	}
	if err := r.bench.Check(ctx, r.dbs[0], checks); err != nil {
		r.fail(fmt.Errorf("checking: %w", err))
	}
	// The engine's own checks come last, so that they also see what the others did.
	report, err := r.dbs[0].Check(ctx)
	if err != nil {
		r.fail(fmt.Errorf("checking the memory nodes: %w", err))
	}
	if report != nil {
		checks.addReport(report)
		res.Details = report.Details
	}
	res.addChecks(checks)
}

// checkHistory reads the history back and decides whether it is strictly
// serializable, if it is short enough and a file that can be read again.
func (r *run) checkHistory(checks *Checks, res *Result, h *History) error {
	n := h.Attempts()
	if n > maxSelfCheck {
		res.Notes = append(res.Notes, fmt.Sprintf("serializable: not checked here, the history has %d attempts and the bound is %d", n, maxSelfCheck))
		return nil
	}
	if info, err := os.Stat(r.cfg.History); err != nil || !info.Mode().IsRegular() {
		res.Notes = append(res.Notes, "serializable: not checked here, the history is no regular file")
		return nil
	}
	defer debug.FreeOSMemory()
	f, err := os.Open(r.cfg.History)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	history, err := serial.ReadJSONL(f)
	if err != nil {
		return err
	}
	if len(history.Attempts) != int(n) {
		return fmt.Errorf("%d attempts were written, %d read back", n, len(history.Attempts))
	}
	verdict := serial.Check(history, serial.Options{})
	if verdict.Undecided {
		res.Notes = append(res.Notes, "serializable: "+verdict.String())
		return nil
	}
	checks.Add("serializable", verdict.OK, "%s", verdict.String())
	for i := range verdict.Violations {
		res.Notes = append(res.Notes, verdict.Violations[i].Explain())
	}
	return nil
}

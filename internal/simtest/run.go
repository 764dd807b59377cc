package simtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"fjord/coord"
	"fjord/internal/serial"
	"fjord/verbs"
	"fjord/verbs/sim"
)

// run is a run in progress.
type run struct {
	setup     Setup
	world     *sim.World
	cluster   *coord.Cluster
	layout    *coord.Layout
	workloads []workload
	history   *history
	stamps    []string // key by stamp
	lives     []*life
	opening   *life // whose device is opened next
	memories  []*verbs.Memory
	verbs     uint64
	chances   *rand.Rand // of connections
	refused   uint64
	broken    uint64
	hits      map[bool]uint64 // aims met: true are stops, false crashes
	aims      []Aim           // with Nth counted down
	accepted  []verbs.QP      // memory nodes' ends of connections
	outcomes  [3]uint64
	errors    map[string]uint64
	events    map[string]uint64 // what coordinators have logged
	phase     phase
	over      bool // nothing counts any more
	failures  []string
	tracer    func(string)
}

type phase int

const (
	phaseLoad phase = iota
	phaseSafety
	phaseLiveness
	phaseVerdict
)

// maxFailures is how many a run tells.
const maxFailures = 12

func (r *run) fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.trace("FAILURE %s", text)
	if len(r.failures) < maxFailures && !slices.Contains(r.failures, text) {
		r.failures = append(r.failures, text)
	}
}

func (r *run) trace(format string, args ...any) {
	if r.tracer != nil {
		r.tracer(fmt.Sprintf(format, args...))
	}
}

// Run runs what a seed draws.
func Run(seed uint64, o Options) (Result, error) {
	s, err := NewSetup(seed, o)
	if err != nil {
		return Result{}, err
	}
	return RunSetup(s, o.Trace)
}

// RunSetup runs a Setup. The error is about the Setup; what the run has found is in the
// Result.
func RunSetup(s Setup, trace func(string)) (Result, error) {
	nic, err := sim.NICByName(s.NIC)
	if err != nil {
		return Result{}, err
	}
	if s.NoInline {
		nic.MaxInline = 0
	}
	r := &run{setup: s, history: newHistory(), tracer: trace, errors: make(map[string]uint64),
		events: make(map[string]uint64), chances: stream(s.Seed, streamConnections), hits: make(map[bool]uint64)}
	wo := sim.Options{Seed: s.Seed, NIC: nic, Plan: *s.Plan.simulated()}
	if trace != nil {
		wo.Trace = func(x sim.Step) { trace(x.String()) }
	}
	if r.world, err = sim.New(wo); err != nil {
		return Result{}, err
	}
	r.workloads, r.aims = newWorkloads(&s), slices.Clone(s.Plan.Aims)
	began := wallClock()
	r.play()
	return r.result(wallClock() - began), nil
}

// play runs all phases, whatever becomes of them.
func (r *run) play() {
	defer r.end()
	defer func() {
		if p := recover(); p != nil {
			r.fail("panic: %s", firstLines(fmt.Sprint(p), 40))
		}
	}()
	if err := r.world.Run(r.phases); err != nil {
		r.fail("liveness: %v", err)
	}
}

func firstLines(s string, n int) string {
	lines := strings.SplitAfterN(s, "\n", n+1)
	return strings.TrimSpace(strings.Join(lines[:min(n, len(lines))], ""))
}

// end gives everything back.
func (r *run) end() {
	r.over = true
	r.world.Close()
	if r.cluster != nil {
		_ = r.cluster.Close() // nobody needs it any more
	}
	for _, m := range r.memories {
		_ = m.Free() // those of dead coordinators; the others' are freed already
	}
}

// phases is the main worker.
func (r *run) phases() {
	if !r.build() || !r.load() {
		return
	}
	r.phase = phaseSafety
	r.safety()
	r.phase = phaseLiveness
	r.world.Heal()
	if !r.liveness() {
		return
	}
	r.phase = phaseVerdict
	r.verdict()
}

// build starts the memory nodes.
func (r *run) build() bool {
	s := &r.setup
	cfg := coord.ClusterConfig{MemoryNodes: s.Nodes, Replicas: s.Copies, Coordinators: s.Coordinators + 2*s.Plan.crashes() + 3, Sessions: s.Sessions,
		LogSlot: s.LogSlot, HugePages: verbs.HugeNever, NodeMemory: 1 << 20}
	for range 8 {
		if cfg.Validate() == nil {
			break
		}
		cfg.NodeMemory *= 2
	}
	cfg.NodeMemory += uint64(s.Copies) << 20 // for the tables
	var err error
	if r.cluster, err = coord.NewCluster(cfg, r.newDevice); err == nil {
		r.layout, err = r.cluster.Layout(background)
	}
	if err != nil {
		r.fail("build: %v", err)
	}
	return err == nil
}

// newDevice opens the device of a memory node, or of the coordinator that is being
// opened.
func (r *run) newDevice(name string) (verbs.Device, error) {
	if c := r.opening; c != nil {
		r.opening = nil
		d, err := c.host.OpenDevice()
		if err != nil {
			return nil, err
		}
		return &device{d, c}, nil
	}
	h, err := r.world.AddHost(strings.Replace(name, "memory-", "m", 1), sim.HostOptions{})
	if err != nil {
		return nil, err
	}
	d, err := h.OpenDevice()
	if err != nil {
		return nil, err
	}
	return &node{d, r}, nil
}

// judge has the checker look at the history.
func (r *run) judge() serial.Result {
	h := &serial.History{Attempts: slices.Clone(r.history.attempts)}
	for _, c := range r.lives {
		for _, id := range c.lost() {
			h.Attempts = append(h.Attempts, c.flights[id].attempt(id))
		}
	}
	res := serial.Check(h, serial.Options{Limit: 3, Steps: 3_000_000})
	for i := range res.Violations {
		r.fail("serializable: %s", strings.TrimSpace(res.Violations[i].Explain()))
	}
	return res
}

package simtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"fjord/lock"
	"fjord/verbs/sim"
)

// Setup is what a run is made of. The same Setup gives the same run.
type Setup struct {
	Seed         uint64
	Workload     string
	Nodes        int // memory nodes
	Copies       int
	Coordinators int
	Workers      int // of each coordinator
	Transactions int // of each worker, while the plan strikes
	Sessions     int // of each coordinator
	ValueSize    int
	KeySize      int // of the table that churns
	Keys         int // of the table of random transactions
	Lock         string
	MaxRetries   int
	AddressCache int
	LogSlot      uint64
	SuspectAfter int64 // ns
	Timeout      uint8 // of the coordinators' QPs, as verbs.QPAttr
	RetryCnt     uint8
	NIC          string
	NoInline     bool
	EventWait    bool
	TurnNS       int64
	Machines     []int // for each coordinator the one whose machine it shares; itself: none; below 0: a memory node's
	Clocks       []sim.Clock
	Plan         Plan
}

// startNS is when the plan begins: by then the tables are loaded.
const startNS = 4_000_000

// Options change what a seed draws. Zero fields leave it as it is.
type Options struct {
	Workload     string
	Nodes        int
	Copies       int
	Coordinators int
	Workers      int
	Transactions int
	Plan         *Plan
	Trace        func(line string)
}

// Workloads lists what Options.Workload may be.
func Workloads() []string { return []string{"bank", "ring", "random", "churn", "mix"} }

// Validate says what is wrong with o.
func (o *Options) Validate() error {
	if o.Workload != "" && !slices.Contains(Workloads(), o.Workload) {
		return fmt.Errorf("no workload %q, there are %s", o.Workload, strings.Join(Workloads(), ", "))
	}
	for _, l := range []struct {
		name  string
		v, hi int
	}{
		{"memory nodes", o.Nodes, maxNodes},
		{"copies", o.Copies, maxCopies},
		{"coordinators", o.Coordinators, maxCoordinators},
		{"workers", o.Workers, maxWorkers},
		{"transactions", o.Transactions, maxTransactions},
	} {
		if l.v < 0 || l.v > l.hi {
			return fmt.Errorf("%s is %d, right is 1 to %d, or 0 for what the seed draws", l.name, l.v, l.hi)
		}
	}
	if o.Nodes > 0 && o.Copies > o.Nodes {
		return fmt.Errorf("copies is %d with %d memory nodes, right is as many at most", o.Copies, o.Nodes)
	}
	if o.Plan != nil {
		return o.Plan.validate()
	}
	return nil
}

// Bounds of what is drawn and of what may be asked for.
const (
	maxNodes        = 8
	maxCopies       = 5
	maxCoordinators = 8
	maxWorkers      = 16
	maxTransactions = 10_000
)

// stream gives every purpose random numbers of its own, so that what one draws does
// not depend on how much another has drawn.
func stream(seed, purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, purpose)) }

// Purposes of streams; workers have those from streamWorker on.
const (
	streamShape = iota
	streamSizes
	streamPlaces
	streamPlan
	streamAims
	streamConnections
	streamRules
	streamWorker = 1 << 16
)

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// between draws from lo to hi, both included.
func between(r *rand.Rand, lo, hi int) int { return lo + r.IntN(hi-lo+1) }

// NewSetup draws a Setup from a seed.
func NewSetup(seed uint64, o Options) (Setup, error) {
	if err := o.Validate(); err != nil {
		return Setup{}, err
	}
	s := Setup{Seed: seed}
	s.drawShape(stream(seed, streamShape), o)
	s.drawSizes(stream(seed, streamSizes))
	s.drawPlaces(stream(seed, streamPlaces))
	if o.Plan != nil {
		s.Plan = *o.Plan.clone()
		return s, s.Plan.validate(s.hosts()...)
	}
	return s, s.drawPlan()
}

func (s *Setup) drawShape(r *rand.Rand, o Options) {
	s.Workload = Workloads()[r.IntN(len(Workloads()))]
	s.Nodes = between(r, 1, 5)
	s.Copies = between(r, 1, 3)
	s.Coordinators = between(r, 1, 4)
	s.Workers = between(r, 1, 4)
	total := between(r, 60, 240)
	for _, x := range []struct {
		to    *int
		asked int
	}{{&s.Nodes, o.Nodes}, {&s.Copies, o.Copies}, {&s.Coordinators, o.Coordinators}, {&s.Workers, o.Workers}} {
		if x.asked > 0 {
			*x.to = x.asked
		}
	}
	s.Copies = min(s.Copies, s.Nodes)
	if o.Workload != "" {
		s.Workload = o.Workload
	}
	s.Transactions = max(2, total/(s.Coordinators*s.Workers))
	if o.Transactions > 0 {
		s.Transactions = o.Transactions
	}
}

func (s *Setup) drawSizes(r *rand.Rand) {
	s.Sessions = s.Workers + r.IntN(3)
	s.ValueSize = pick(r, 0, 8, 16, 24, 48, 100, 200, 400)
	s.KeySize = pick(r, 8, 8, 40, 300)
	s.Keys = between(r, 2, 6)
	s.Lock = pick(r, lock.Names()...)
	s.MaxRetries = pick(r, 1, 3, 10, 50, 1000)
	s.AddressCache = pick(r, 1, 8, 64, 1024)
	s.LogSlot = max(pick[uint64](r, 4096, 4096, 8192, 32768), uint64(s.Nodes*1280+512)) // to make a table takes so much
	s.SuspectAfter = pick[int64](r, 150_000, 300_000, 600_000)
	s.Timeout = pick[uint8](r, 3, 4, 5, 6)
	s.RetryCnt = pick[uint8](r, 1, 2, 3, 7)
	s.NIC = pick(r, "cx5", "cx6", "cx7")
	s.NoInline = r.IntN(8) == 0
	s.EventWait = r.IntN(4) == 0
	s.TurnNS = pick[int64](r, 0, 0, 100, 1000)
}

func (s *Setup) drawPlaces(r *rand.Rand) {
	for i := range maxCoordinators { // so that fewer coordinators stand where they did
		at := i
		switch k := r.IntN(6); {
		case k == 0 && i > 0:
			at = r.IntN(i)
		case k == 1:
			at = -1 - r.IntN(s.Nodes)
		}
		s.Machines = append(s.Machines, at)
		s.Clocks = append(s.Clocks, sim.Clock{Offset: r.Int64N(1_000_000), Rate: pick[int64](r, 0, 0, 500, -500, 20_000, -20_000)})
	}
	s.Machines, s.Clocks = s.Machines[:s.Coordinators], s.Clocks[:s.Coordinators]
}

func hostName(i int) string { return fmt.Sprintf("c%d", i) }
func nodeName(i int) string { return fmt.Sprintf("m%d", i) }

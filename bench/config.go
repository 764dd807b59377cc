package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"fjord/lock"
	"fjord/txn"
)

// Config is a run as the command line asks for it: the flags that all benchmarks
// share.
type Config struct {
	Provider     string
	NIC          string // of every host, with the provider sim; "" otherwise
	ComputeNodes int    // hosts that the coordinators are spread over
	Threads      int    // processors of each; 0: one for each coordinator, or those that there are
	MemoryNodes  int
	Replicas     int
	Coordinators int
	Duration     time.Duration // of the measured part; 0 with Txns
	Warmup       time.Duration
	Txns         int     // transactions of the measured part; 0: as many as fit into Duration
	MaxRate      float64 // transactions per second of all workers together; 0: no bound
	Lock         string
	Seed         uint64
	Directory    string
	JSON         string // files and an address; "" is none
	History      string
	Metrics      string
	Quiet        bool

	// Values is every flag's value, the benchmark's own included, as the report
	// has it.
	Values map[string]any
}

// Defaults and bounds of the shared flags.
const (
	defaultNodes        = 3
	defaultReplicas     = 3
	defaultCoordinators = 8
	defaultDuration     = 10 * time.Second
	defaultWarmup       = 2 * time.Second
	defaultSeed         = 1

	// A run in the simulator is as short as it can be told in.
	defaultNIC          = "cx6"
	defaultComputeNodes = 4
	defaultSimDuration  = 20 * time.Millisecond
	defaultSimWarmup    = 5 * time.Millisecond

	maxCoordinators = 4096 // as many sessions as a DB can have
	maxNodes        = 256  // as many as a cluster can have
	maxReplicas     = 8
	maxComputeNodes = 256
	maxThreads      = 4096
)

// Providers.
const (
	providerMem = "mem"
	providerSim = "sim"
)

// providers are the values of --provider; of these only mem and sim exist in this
// version.
var providers = []string{providerMem, "shm", "roce", "ibv", providerSim}

// nics are the values of --nic.
var nics = []string{"cx5", "cx6", "cx7"}

// register declares the shared flags.
func (c *Config) register(f *Flags) {
	f.String(&c.Provider, "provider", "NAME", providerMem, "verbs provider: "+strings.Join(providers, ", "), func(text string) string {
		switch {
		case text == providerMem, text == providerSim:
			return ""
		case slices.Contains(providers, text):
			return fmt.Sprintf("mem or sim: this version has no provider %s yet", text)
		}
		return "mem or sim, the providers of this version"
	})
	f.String(&c.NIC, "nic", "NAME", defaultNIC, "with --provider sim: network card of every host: "+strings.Join(nics, ", "), func(text string) string {
		if slices.Contains(nics, text) {
			return ""
		}
		return "one of " + strings.Join(nics, ", ")
	})
	f.Int(&c.ComputeNodes, "compute-nodes", defaultComputeNodes, 1, maxComputeNodes, "with --provider sim: hosts that the coordinators are spread over")
	f.Int(&c.Threads, "threads", 0, 0, maxThreads, "with --provider sim: processors of each compute node, shared by its coordinators; 0 is one for each coordinator")
	f.Int(&c.MemoryNodes, "memory-nodes", defaultNodes, 1, maxNodes, "memory nodes")
	f.Int(&c.Replicas, "replicas", defaultReplicas, 1, maxReplicas, "copies of everything, the primary included")
	f.Int(&c.Coordinators, "coordinators", defaultCoordinators, 1, maxCoordinators, "coordinators: workers that each run one transaction after the other")
	f.Duration(&c.Duration, "duration", defaultDuration, fmt.Sprintf("length of the measured part, in virtual time with --provider sim, %v there by default", defaultSimDuration))
	f.Duration(&c.Warmup, "warmup", defaultWarmup, fmt.Sprintf("warm-up before it, likewise, %v; none by default with --txns", defaultSimWarmup))
	f.Int(&c.Txns, "txns", 0, 0, math.MaxInt, "run exactly N transactions instead of --duration; 0 is off")
	f.Float(&c.MaxRate, "max-rate", 0, 0, math.MaxFloat64, "bound of all coordinators together in transactions per second; 0 is none")
	f.String(&c.Lock, "lock", "NAME", lock.CAS{}.Name(), "lock strategy: "+strings.Join(lock.Names(), ", "), func(text string) string {
		if slices.Contains(lock.Names(), text) {
			return ""
		}
		return "one of " + strings.Join(lock.Names(), ", ")
	})
	f.Uint64(&c.Seed, "seed", defaultSeed, "seed of all random choices")
	f.String(&c.Directory, "directory", "NAME", "", "directory; inproc, the same as none, is the only one of this version", func(text string) string {
		if text == "" || text == "inproc" {
			return ""
		}
		return "inproc, the only directory of this version"
	})
	f.String(&c.JSON, "json", "FILE", "", "write the report as JSON", nil)
	f.String(&c.History, "history", "FILE", "", "write every attempt after loading as JSON Lines", nil)
	f.String(&c.Metrics, "metrics", "ADDR", "", "serve Prometheus metrics at http://ADDR/metrics", nil)
	f.Bool(&c.Quiet, "quiet", false, "print nothing but errors")
	f.Check(func() {
		c.checkProvider(f)
		c.check(f)
	})
}

// checkProvider finds flags that do not go with the provider, and fills in its
// defaults.
func (c *Config) checkProvider(f *Flags) {
	if c.Provider != providerSim {
		for _, name := range []string{"nic", "compute-nodes", "threads"} {
			if f.Given(name) {
				f.Badf("--%s with --provider %s: right is --provider sim; what is not simulated has the hosts that there are", name, c.Provider)
			}
		}
		c.NIC, c.ComputeNodes, c.Threads = "", 1, 0
		return
	}
	if c.Metrics != "" {
		f.Badf("--metrics %q with --provider sim: right is --json: nobody can scrape while virtual time passes", c.Metrics)
	}
	if !f.Given("compute-nodes") {
		c.ComputeNodes = min(c.ComputeNodes, c.Coordinators)
	}
	if c.Txns == 0 && !f.Given("duration") {
		c.Duration = defaultSimDuration
	}
	if c.Txns == 0 && !f.Given("warmup") {
		c.Warmup = defaultSimWarmup
	}
}

// check finds contradictions, and fills in what depends on other flags.
func (c *Config) check(f *Flags) {
	switch nodes, copies := f.Given("memory-nodes"), f.Given("replicas"); {
	case c.Replicas <= c.MemoryNodes:
	case copies && !nodes:
		c.MemoryNodes = c.Replicas
	case nodes && !copies:
		c.Replicas = c.MemoryNodes
	default:
		f.Badf("--replicas %d: right is at most --memory-nodes %d, since each copy is on a node of its own", c.Replicas, c.MemoryNodes)
	}
	switch {
	case c.Txns > 0 && f.Given("duration"):
		f.Badf("--txns %d and --duration %v: right is one of them, --txns for a number of transactions, --duration for a length of time", c.Txns, c.Duration)
	case c.Txns > 0:
		c.Duration = 0
		if !f.Given("warmup") {
			c.Warmup = 0
		}
	case c.Duration == 0:
		f.Badf("--duration 0s: right is more than 0, or --txns for a number of transactions")
	}
}

// options are the database that c asks for.
func (c *Config) options() (txn.Options, error) {
	strategy, err := lock.ByName(c.Lock)
	if err != nil {
		return txn.Options{}, err
	}
	sessions := max(minSessions, c.perHost())
	return txn.Options{
		MemoryNodes: c.MemoryNodes,
		Replicas:    c.Replicas,
		Lock:        strategy,
		Sessions:    sessions,
		NodeMemory:  baseMemory + uint64(c.hosts()*sessions)*sessionMemory,
	}, nil
}

// hosts is how many compute nodes have a coordinator.
func (c *Config) hosts() int { return min(c.ComputeNodes, c.Coordinators) }

// perHost is how many coordinators a compute node has at most.
func (c *Config) perHost() int { return (c.Coordinators + c.hosts() - 1) / c.hosts() }

const (
	// minSessions leaves room for checks beside few coordinators.
	minSessions = 16
	// baseMemory of a memory node is for what is there without tables. Memory is
	// mapped, and only what is used of it is touched.
	baseMemory = 32 << 20
	// sessionMemory is more than the logs of one session take.
	sessionMemory = 1 << 20
)

// parse reads the command line of b.
func parse(b Benchmark, args []string) (*Config, *Flags, error) {
	c, f := &Config{}, newFlags(b.Name())
	c.register(f)
	b.Flags(f)
	err := f.parse(args)
	if err == nil {
		c.Values = f.values()
	}
	return c, f, err
}

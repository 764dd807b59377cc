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

	maxCoordinators = 4096 // as many sessions as a DB can have
	maxNodes        = 256  // as many as a cluster can have
	maxReplicas     = 8
)

// providers are the values of --provider; only the first exists in this version.
var providers = []string{"mem", "shm", "roce", "ibv", "sim"}

// register declares the shared flags.
func (c *Config) register(f *Flags) {
	f.String(&c.Provider, "provider", "NAME", "mem", "verbs provider: "+strings.Join(providers, ", "), func(text string) string {
		switch {
		case text == "mem":
			return ""
		case slices.Contains(providers, text):
			return fmt.Sprintf("mem: this version has no provider %s yet", text)
		}
		return "mem, the only provider of this version"
	})
	f.Int(&c.MemoryNodes, "memory-nodes", defaultNodes, 1, maxNodes, "memory nodes")
	f.Int(&c.Replicas, "replicas", defaultReplicas, 1, maxReplicas, "copies of everything, the primary included")
	f.Int(&c.Coordinators, "coordinators", defaultCoordinators, 1, maxCoordinators, "coordinators: workers that each run one transaction after the other")
	f.Duration(&c.Duration, "duration", defaultDuration, "length of the measured part")
	f.Duration(&c.Warmup, "warmup", defaultWarmup, "warm-up before it; none by default with --txns")
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
	f.Check(func() { c.check(f) })
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
	sessions := max(minSessions, c.Coordinators)
	return txn.Options{
		MemoryNodes: c.MemoryNodes,
		Replicas:    c.Replicas,
		Lock:        strategy,
		Sessions:    sessions,
		NodeMemory:  baseMemory + uint64(sessions)*sessionMemory,
	}, nil
}

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

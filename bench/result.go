package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"fjord/coord"
)

// Result is the report of a run. Its JSON is what --json writes.
type Result struct {
	Benchmark string         `json:"benchmark"`
	Config    map[string]any `json:"config"` // every flag's value by its name; times as text, like "10s"
	Build     Build          `json:"build"`
	Host      string         `json:"host"`
	Seed      uint64         `json:"seed"`
	// Seconds is the length of the measured part, until its last transaction ended.
	Seconds float64 `json:"seconds"`
	Figures
	Transactions map[string]Figures `json:"transactions"` // by type
	Verbs        Verbs              `json:"verbs"`
	Checks       map[string]bool    `json:"checks"`
	Simulation   *Simulation        `json:"simulation,omitempty"`
	Interrupted  bool               `json:"interrupted,omitempty"`
	Error        string             `json:"error,omitempty"` // why the run failed, if not by a check

	// What only the text tells.
	LoadSeconds float64  `json:"-"`
	RealSeconds float64  `json:"-"` // that a simulation took; 0 otherwise
	CheckList   []Check  `json:"-"`
	Details     []string `json:"-"` // of the engine's checks
	Notes       []string `json:"-"`

	types, reasons []string
	config         *Config
}

// Build says what was run.
type Build struct {
	Commit string `json:"commit"` // "unknown" if the build does not say; with "+dirty" if it was changed
	Go     string `json:"go"`
}

// Figures are the counts and latencies of the measured part, of one transaction
// type or of all. Attempted = Committed + the sum of Aborted; see the package.
type Figures struct {
	Attempted uint64            `json:"attempted"`
	Committed uint64            `json:"committed"`
	Aborted   map[string]uint64 `json:"aborted"` // every reason there can be, also those that did not occur
	TPS       float64           `json:"tps"`     // committed per second
	Latency   Latency           `json:"latency_us"`
}

// Verbs are totals of the measured part.
type Verbs struct {
	Read       uint64 `json:"read"`
	Write      uint64 `json:"write"`
	CAS        uint64 `json:"cas"`
	FAA        uint64 `json:"faa"`
	Doorbells  uint64 `json:"doorbells"`
	RoundTrips uint64 `json:"round_trips"`
	BytesOut   uint64 `json:"bytes_out"`
	BytesIn    uint64 `json:"bytes_in"`
}

func verbsOf(s coord.VerbStats) Verbs {
	return Verbs{s.Read, s.Write, s.CAS, s.FAA, s.Doorbells, s.RoundTrips, s.BytesOut, s.BytesIn}
}

func newResult(b Benchmark, c *Config) *Result {
	return &Result{
		Benchmark:    b.Name(),
		Config:       c.Values,
		Build:        build(),
		Host:         host(c),
		Seed:         c.Seed,
		Transactions: map[string]Figures{},
		Checks:       map[string]bool{},
		config:       c,
	}
}

func build() Build {
	b := Build{Commit: "unknown", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	dirty := false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	if dirty {
		b.Commit += "+dirty"
	}
	return b
}

// host says where the run was made, and what was simulated there.
func host(c *Config) string {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	text := fmt.Sprintf("%s %s/%s %d CPUs", name, runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if c.Provider == providerSim {
		text = fmt.Sprintf("simulated: %s, %s, %s NICs, virtual time; by %s", plural(c.hosts(), "compute node"), plural(c.MemoryNodes, "memory node"), c.NIC, text)
	}
	return text
}

func (r *Result) addChecks(c *Checks) {
	r.CheckList = c.List()
	for _, k := range r.CheckList {
		r.Checks[k.Name] = k.OK
	}
}

// Failure says why the run is not a good one: it failed, or a check did. It is nil
// if all went well.
func (r *Result) Failure() error {
	var errs []error
	if r.Error != "" {
		errs = append(errs, errors.New(r.Error))
	}
	for _, k := range r.CheckList {
		if !k.OK {
			text := "check failed: " + k.Name
			if k.Detail != "" {
				text += ": " + k.Detail
			}
			errs = append(errs, errors.New(text))
		}
	}
	return errors.Join(errs...)
}

// WriteJSON writes r as one indented object.
func (r *Result) WriteJSON(w io.Writer) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// BenchLine is r as a line of `go test -bench`, for benchstat.
func (r *Result) BenchLine() string {
	perOp := 0.0
	if r.Committed > 0 {
		perOp = r.Seconds * 1e9 / float64(r.Committed)
	}
	l := r.Latency
	provider := r.config.Provider
	if provider == providerSim {
		provider += "/nic=" + r.config.NIC
	}
	return fmt.Sprintf("Benchmark%s%s/provider=%s/replicas=%d/coordinators=%d-%d\t%d\t%.1f ns/op\t%.1f tps\t%.0f p50-ns\t%.0f p90-ns\t%.0f p99-ns\t%.0f p99.9-ns\t%.0f max-ns",
		strings.ToUpper(r.Benchmark[:1]), r.Benchmark[1:], provider, r.config.Replicas, r.config.Coordinators, runtime.GOMAXPROCS(0),
		r.Committed, perOp, r.TPS, l.P50*1e3, l.P90*1e3, l.P99*1e3, l.P999*1e3, l.Max*1e3)
}

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// root is the module of fjord.
const root = "../.."

var (
	coordinators = []int{1, 8, 32, 128, 512}
	threads      = []int{1, 8, 24, 48, 72, 96}
	kinds        = []string{"Amalgamate", "Balance", "DepositChecking", "SendPayment", "TransactSavings", "WriteCheck"}
	nics         = []string{"cx5", "cx6", "cx7"}
)

// inFlight is how many transactions a thread has in flight in the published
// layout.
const inFlight = 8

// short is how long a run is, in virtual time: some hundred transactions of each
// coordinator.
const short = "--duration 10ms --warmup 2ms"

// figures are all runs of the document, in the order of the lists above.
type figures struct {
	coordinators, threads, kinds, nics []report
}

// report is what is used of a report of SmallBank.
type report struct {
	TPS       float64           `json:"tps"`
	Attempted uint64            `json:"attempted"`
	Committed uint64            `json:"committed"`
	Aborted   map[string]uint64 `json:"aborted"`
	Latency   struct {
		Mean float64 `json:"mean"`
		P50  float64 `json:"p50"`
		P99  float64 `json:"p99"`
	} `json:"latency_us"`
	Verbs struct {
		Read       uint64 `json:"read"`
		Write      uint64 `json:"write"`
		CAS        uint64 `json:"cas"`
		Doorbells  uint64 `json:"doorbells"`
		RoundTrips uint64 `json:"round_trips"`
		BytesOut   uint64 `json:"bytes_out"`
		BytesIn    uint64 `json:"bytes_in"`
	} `json:"verbs"`
	Simulation struct {
		Turns      uint64  `json:"turns"`
		Verbs      uint64  `json:"verbs"`
		Processors float64 `json:"processors"`
		Nodes      []struct {
			Name  string             `json:"name"`
			Taken map[string]float64 `json:"taken"`
		} `json:"nodes"`
		Busiest struct {
			Name  string  `json:"name"`
			Taken float64 `json:"taken"`
		} `json:"busiest"`
	} `json:"simulation"`
}

// conflicts is the share of the attempts that met another transaction.
func (r *report) conflicts() float64 {
	n := r.Aborted["locked"] + r.Aborted["version"] + r.Aborted["pending"] + r.Aborted["insert"]
	return float64(n) / float64(r.Attempted)
}

// per is how much of a total falls to a committed transaction.
func (r *report) per(total uint64) float64 { return float64(total) / float64(r.Committed) }

// taken is the highest share for which a station of the memory nodes, or of the
// compute nodes, was taken.
func (r *report) taken(nodes, station string) (most float64) {
	for _, n := range r.Simulation.Nodes {
		if strings.HasPrefix(n.Name, nodes) {
			most = max(most, n.Taken[station])
		}
	}
	return most
}

// bench runs SmallBank with one command line after the other.
type bench struct {
	program, dir string
}

// measure makes all runs, but for those whose reports are in dir.
func measure(dir string) (*figures, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	b := &bench{program: filepath.Join(dir, "smallbank"), dir: dir}
	build := exec.Command("go", "build", "-o", b.program, "./bench/smallbank")
	build.Dir, build.Stderr = root, os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("build SmallBank: %w", err)
	}
	f := &figures{}
	for _, n := range coordinators {
		if err := b.add(&f.coordinators, spread(n, "cx6")); err != nil {
			return nil, err
		}
	}
	for _, n := range threads {
		if err := b.add(&f.threads, packed(n)); err != nil {
			return nil, err
		}
	}
	for _, kind := range kinds {
		if err := b.add(&f.kinds, alone(kind)); err != nil {
			return nil, err
		}
	}
	for _, nic := range nics {
		if err := b.add(&f.nics, spread(512, nic)); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// spread is the layout of 4 compute nodes with 16 processors each, and 3 memory
// nodes with 3 copies.
func spread(coordinators int, nic string) string {
	return fmt.Sprintf("--nic %s --compute-nodes 4 --threads 16 --memory-nodes 3 --replicas 3 --coordinators %d %s", nic, coordinators, short)
}

// packed is the layout of the published figures.
func packed(threads int) string {
	return fmt.Sprintf("--nic cx6 --compute-nodes 1 --threads %d --memory-nodes 2 --replicas 2 --coordinators %d %s", threads, threads*inFlight, short)
}

// alone is one coordinator that runs one transaction over and over.
func alone(kind string) string {
	return "--nic cx6 --memory-nodes 3 --replicas 3 --coordinators 1 --accounts 10000 --txns 2000 --only " + kind
}

// add runs SmallBank and appends its report.
func (b *bench) add(to *[]report, args string) error {
	file := filepath.Join(b.dir, strings.NewReplacer("--", "", " ", "-").Replace(args)+".json")
	text, err := os.ReadFile(file)
	if err != nil {
		began := time.Now()
		cmd := exec.Command(b.program, append(strings.Fields("--provider sim "+args), "--quiet", "--json", file)...)
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("smallbank %s: %w", args, err)
		}
		fmt.Printf("%6.1f s  %s\n", time.Since(began).Seconds(), args)
		if text, err = os.ReadFile(file); err != nil {
			return err
		}
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	*to = append(*to, r)
	return nil
}

// mega writes a rate in millions.
func mega(tps float64) string { return strconv.FormatFloat(tps/1e6, 'f', 2, 64) }

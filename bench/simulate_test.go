package bench

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"fjord/verbs/sim"
)

// simulated runs a toy in the simulator and returns its report.
func simulated(t *testing.T, b *toy, args ...string) *Result {
	t.Helper()
	config, _, err := parse(b, append([]string{"--provider", "sim"}, args...))
	if err != nil {
		t.Fatal(err)
	}
	res, err := Run(t.Context(), b, config, Outputs{})
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Failure(); err != nil {
		t.Fatal(err)
	}
	return res
}

func TestNICsAreThoseOfTheSimulator(t *testing.T) {
	for _, name := range nics {
		if _, err := sim.NICByName(name); err != nil {
			t.Error(err)
		}
	}
	if _, err := sim.NICByName("x"); err == nil || !strings.Contains(err.Error(), "right is one of "+strings.Join(nics, ", ")) {
		t.Errorf("%v is not what the simulator has: %v", nics, err)
	}
}

// The same seed gives the same report, but for the machine it was made on; another
// seed gives another.
func TestSimulatedReportsAreAlike(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	report := func(seed string) map[string]any {
		args := strings.Fields("--provider sim --coordinators 6 --compute-nodes 3 --threads 1 --duration 500us --warmup 100us --seed " + seed + " --json " + file)
		if status, _, stderr := execute(&toy{}, args...); status != ExitOK {
			t.Fatalf("status %d: %s", status, stderr)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var r map[string]any
		if err := json.Unmarshal(text, &r); err != nil {
			t.Fatal(err)
		}
		if host := r["host"].(string); !strings.HasPrefix(host, "simulated: 3 compute nodes, 3 memory nodes, cx6 NICs, virtual time; by ") {
			t.Errorf("host is %q", host)
		}
		for _, key := range []string{"host", "build"} {
			delete(r, key)
		}
		return r
	}
	a, b, c := report("1"), report("1"), report("2")
	if !reflect.DeepEqual(a, b) {
		t.Errorf("one seed, two reports:\n%v\n%v", a, b)
	}
	if reflect.DeepEqual(a["latency_us"], c["latency_us"]) {
		t.Error("two seeds, the same latencies")
	}
}

// All figures are in virtual time: a part is as long as was asked for, a
// transaction takes some microseconds, and the pace is kept.
func TestSimulatedTime(t *testing.T) {
	r := simulated(t, &toy{}, "--duration", "1ms", "--warmup", "100us", "--coordinators", "1")
	if r.Seconds < 1e-3 || r.Seconds > 1.1e-3 {
		t.Errorf("took %v s", r.Seconds)
	}
	if l := r.Latency; l.P50 < 3 || l.P50 > 15 || l.Max > 50 {
		t.Errorf("latencies are %+v us", l)
	}
	if want := float64(r.Committed) / r.Seconds; math.Abs(r.TPS-want) > 1 {
		t.Errorf("%v tps, want %v", r.TPS, want)
	}

	r = simulated(t, &toy{}, "--txns", "100", "--max-rate", "50000", "--coordinators", "4")
	if r.Seconds < 99*20e-6 || r.Seconds > 100*20e-6+100e-6 { // 100 transactions, 20 us apart
		t.Errorf("paced: took %v s", r.Seconds)
	}
}

// The NICs of the memory nodes have counted what the sessions say that they have
// posted.
func TestSimulatedCounters(t *testing.T) {
	b := &toy{}
	r := simulated(t, b, "--duration", "1ms", "--coordinators", "8", "--compute-nodes", "4", "--memory-nodes", "2", "--nic", "cx5")
	s := r.Simulation
	if s.NIC != "cx5" || s.ComputeNodes != 4 || len(s.Nodes) != 6 {
		t.Fatalf("simulation is %+v", s)
	}
	if b.warmed != 3*toyKeys {
		t.Errorf("%d keys warmed up, want %d on each of 3 further compute nodes", b.warmed, toyKeys)
	}
	var sum sim.Counters
	for i, n := range s.Nodes {
		memory := strings.HasPrefix(n.Name, "memory-")
		if memory != (i < 2) || memory != (n.RxWriteRequests > 0) || memory == (n.TxRequests > 0) {
			t.Errorf("node %d: %+v", i, n)
		}
		sum = plus(sum, n.Counters)
	}
	v := r.Verbs
	if sum.RxReadRequests != v.Read || sum.RxAtomicRequests != v.CAS {
		t.Errorf("%d reads, %d atomics received; %d, %d posted", sum.RxReadRequests, sum.RxAtomicRequests, v.Read, v.CAS)
	}
	// The unlocks of the last transactions of either part are still on their way.
	if d := int64(sum.RxWriteRequests) - int64(v.Write); d < -8 || d > 8 {
		t.Errorf("%d writes received, %d posted", sum.RxWriteRequests, v.Write)
	}
	if d := int64(s.Verbs) - int64(v.Read+v.Write+v.CAS); d != 0 {
		t.Errorf("the world saw %d verbs more than the sessions", d)
	}
	if s.Busiest.Taken <= 0 || s.Busiest.Taken > 1 || s.Processors <= 0 || s.Processors > 1 {
		t.Errorf("busiest is %+v, processors %v", s.Busiest, s.Processors)
	}
	var text strings.Builder
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"simulated cx5 NICs, 4 compute nodes, 2 memory nodes", "virtual time", "rx atomics", "\nmemory-1 ", "\ncompute-3 ", "\nbusiest: "} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, text.String())
		}
	}
	if !strings.Contains(r.BenchLine(), "/provider=sim/nic=cx5/") {
		t.Errorf("the line is %q", r.BenchLine())
	}
}

// Compute is not free: eight coordinators that share a processor are held up by it,
// and a newer NIC is a faster one.
func TestSimulatedProcessorsAndNICs(t *testing.T) {
	run := func(args string) *Result {
		return simulated(t, &toy{}, strings.Fields("--duration 1ms --warmup 0 --compute-nodes 1 "+args)...)
	}
	own, shared := run("--coordinators 8"), run("--coordinators 8 --threads 1")
	if shared.TPS > 0.9*own.TPS || shared.Simulation.Processors < 0.5 || shared.Simulation.Busiest.Name != "processors" {
		t.Errorf("%v tps with processors of their own, %v with one, busy for %v", own.TPS, shared.TPS, shared.Simulation.Processors)
	}
	old, current := run("--coordinators 1 --nic cx5"), run("--coordinators 1 --nic cx7")
	if old.Latency.P50 < 1.1*current.Latency.P50 {
		t.Errorf("p50 is %v us with cx5, %v with cx7", old.Latency.P50, current.Latency.P50)
	}
}

// What ends a run in real time ends one in virtual time.
func TestSimulatedRunThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		toy  *toy
		want string
	}{
		"load":        {&toy{loadErr: errLost}, "loading: lost my way"},
		"transaction": {&toy{failAfter: 50}, "lost my way"},
		"check":       {&toy{badCheck: true}, "check failed: counted"},
	} {
		if status, _, stderr := execute(c.toy, "--provider", "sim", "--txns", "1000"); status != ExitFailed || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: status %d, stderr %q, want %q", name, status, stderr, c.want)
		}
	}
	config, _, err := parse(&toy{}, []string{"--provider", "sim", "--duration", "1h", "--warmup", "0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	res, err := Run(ctx, &interrupting{toy: &toy{}, cancel: cancel}, config, Outputs{})
	if err != nil || !res.Interrupted || !res.Checks["counted"] || !res.Checks["no_locks"] {
		t.Errorf("interrupted: %v, %+v", err, res)
	}
}

// The meter reckons as the model charges. Both NICs' parameters are round here.
func TestMeter(t *testing.T) {
	nic := sim.NIC{WritePS: 10_000, ReadPS: 20_000, AckPS: 1_000, AtomicUnitNS: 100, LineMbps: 8_000, ReadMbps: 4_000,
		QPCache: [3]sim.CacheLevel{{Entries: 10, ReadPS: 5_000, WritePS: 1_000}, {Entries: 100, ReadPS: 50_000, WritePS: 2_000}}}
	m := meter{nic: &nic, header: 100, ps: 1e9}
	// A millisecond with 100 READs of 50 bytes, 200 WRITEs of 30 bytes, 100 CASes.
	c := sim.Counters{RxReadRequests: 100, RxWriteRequests: 200, RxAtomicRequests: 100, RxBytes: 6000, TxBytes: 5000}
	near := func(name string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is taken for %v, want %v", name, got, want)
		}
	}
	got := m.memory(&c, 5)
	near("send engine", got.SendEngine, (5000*2000+300*1000)/1e9) // the bytes of the READs take longer than their requests
	near("receive engine", got.ReceiveEngine, 400*10_000/1e9)
	near("wire in", got.WireIn, (6000+400*100)*1000/1e9)
	near("wire out", got.WireOut, (5000+400*100)*1000/1e9)
	near("atomic unit", got.AtomicUnit, 100*100_000/1e9)

	// Of 400 lookups half are no hit in the first cache, and 40 none in the second.
	c.QPCacheMiss = 200
	got = m.memory(&c, 20)
	near("receive engine", got.ReceiveEngine, (400*10_000+150*1_000)/1e9)
	c.QPCacheMiss = 400
	got = m.memory(&c, 200) // 380 of them are of the first
	near("receive engine", got.ReceiveEngine, (400*10_000+380*0.75*1_000+20*0.75*2_000)/1e9)

	c = sim.Counters{TxRequests: 400, TxBytes: 6000, RxBytes: 5000}
	got = m.compute(&c, &sim.Counters{RxReadRequests: 1, RxWriteRequests: 2, RxAtomicRequests: 1}, 5)
	near("send engine", got.SendEngine, 400*10_000/1e9)
	near("receive engine", got.ReceiveEngine, 400*1_000/1e9)
	near("wire out", got.WireOut, (6000+400*100)*1000/1e9)
	if got := m.compute(&sim.Counters{}, &sim.Counters{}, 1); got != (Stations{}) {
		t.Errorf("an idle NIC is taken for %+v", got)
	}
}

package bench

import (
	"fmt"
	"reflect"

	"fjord/verbs/sim"
)

// Simulation is what the world of a simulated run saw of its measured part.
type Simulation struct {
	NIC          string `json:"nic"`
	ComputeNodes int    `json:"compute_nodes"` // that have a coordinator
	Threads      int    `json:"threads"`       // processors of each; 0: one for each coordinator
	TurnNS       int64  `json:"turn_ns"`       // of a processor between two waits, doorbells aside
	Turns        uint64 `json:"turns"`
	Verbs        uint64 `json:"verbs"`
	// Processors is the share of the time for which those of the compute nodes were
	// taken.
	Processors float64 `json:"processors"`
	// Nodes are all hosts, first the memory nodes.
	Nodes []NodeCounters `json:"nodes"`
	// Busiest is the station, of a NIC or the processors, that was taken most.
	Busiest Station `json:"busiest"`
}

// NodeCounters are what the NIC of a host counted, and how much of the time its
// stations were taken.
type NodeCounters struct {
	Name string `json:"name"`
	sim.Counters
	Taken Stations `json:"taken"`
}

// Stations are the shares of the time for which each station of a NIC was taken:
// reckoned from its counters and the parameters of the model.
type Stations struct {
	SendEngine    float64 `json:"send_engine"`
	ReceiveEngine float64 `json:"receive_engine"`
	WireOut       float64 `json:"wire_out"`
	WireIn        float64 `json:"wire_in"`
	AtomicUnit    float64 `json:"atomic_unit"`
}

// Station is one of them.
type Station struct {
	Name  string  `json:"name"` // "memory-0 receive engine", "processors"
	Taken float64 `json:"taken"`
}

// snapshot is the state of a world's counts at one moment.
type snapshot struct {
	stats sim.Stats
	nodes []sim.Counters
}

func (s *simulation) hosts() []*sim.Host {
	return append(s.memory[:len(s.memory):len(s.memory)], s.compute...)
}

// snapshot takes one. Without a simulation there is nothing to count.
func (s *simulation) snapshot() snapshot {
	if s == nil {
		return snapshot{}
	}
	n := snapshot{stats: s.world.Stats()}
	for _, h := range s.hosts() {
		n.nodes = append(n.nodes, h.Counters())
	}
	return n
}

// report tells what happened since a snapshot, in so many seconds.
func (s *simulation) report(since snapshot, seconds float64) *Simulation {
	if s == nil {
		return nil
	}
	now := s.snapshot()
	r := &Simulation{NIC: s.nic.Name, ComputeNodes: len(s.compute), Threads: s.cfg.Threads, TurnNS: turnNS,
		Turns: now.stats.Turns - since.stats.Turns, Verbs: now.stats.Verbs - since.stats.Verbs}

	doorbells := now.stats.Doorbells - since.stats.Doorbells
	ns := float64(r.Turns)*turnNS + float64(doorbells)*float64(s.nic.DoorbellNS) + float64(r.Verbs)*float64(s.nic.PostPS)/1e3
	r.Processors = ratio(ns, float64(s.processors())*seconds*1e9)
	r.busiest("processors", r.Processors)

	m := meter{nic: &s.nic, header: float64(sim.DefaultNetwork().HeaderBytes), ps: seconds * 1e12}
	var served sim.Counters // by all memory nodes
	for i, h := range s.hosts() {
		n := NodeCounters{Name: h.Name(), Counters: minus(now.nodes[i], since.nodes[i])}
		if i < len(s.memory) {
			served = plus(served, n.Counters)
			n.Taken = m.memory(&n.Counters, s.cfg.Coordinators)
		} else {
			n.Taken = m.compute(&n.Counters, &served, s.cfg.perHost()*len(s.memory))
		}
		for _, t := range n.Taken.list() {
			r.busiest(n.Name+" "+t.Name, t.Taken)
		}
		r.Nodes = append(r.Nodes, n)
	}
	return r
}

// processors is how many can be at work.
func (s *simulation) processors() int {
	if t := s.cfg.Threads * len(s.compute); t > 0 && t < s.cfg.Coordinators {
		return t
	}
	return s.cfg.Coordinators
}

func (r *Simulation) busiest(name string, taken float64) {
	if r.Busiest.Name == "" || taken > r.Busiest.Taken {
		r.Busiest = Station{name, taken}
	}
}

func (t *Stations) list() []Station {
	return []Station{{"send engine", t.SendEngine}, {"receive engine", t.ReceiveEngine},
		{"wire out", t.WireOut}, {"wire in", t.WireIn}, {"atomic unit", t.AtomicUnit}}
}

// minus and plus reckon with every counter.
func minus(a, b sim.Counters) sim.Counters {
	return each(a, b, func(x, y uint64) uint64 { return x - y })
}

func plus(a, b sim.Counters) sim.Counters {
	return each(a, b, func(x, y uint64) uint64 { return x + y })
}

func each(a, b sim.Counters, f func(x, y uint64) uint64) sim.Counters {
	to, from := reflect.ValueOf(&a).Elem(), reflect.ValueOf(b)
	for i := range to.NumField() {
		to.Field(i).SetUint(f(to.Field(i).Uint(), from.Field(i).Uint()))
	}
	return a
}

func ratio(x, of float64) float64 {
	if of <= 0 {
		return 0
	}
	return x / of
}

// meter reckons how long the stations of a NIC were taken: what the model charges
// for each request (verbs/sim/engine.go), times their number.
type meter struct {
	nic    *sim.NIC
	header float64 // bytes of a packet
	ps     float64 // of the measured part
}

// memory is the meter of a memory node with so many QPs: it receives requests and
// sends answers.
func (m *meter) memory(c *sim.Counters, qps int) Stations {
	reads, atomics := float64(c.RxReadRequests), float64(c.RxAtomicRequests)
	all := reads + atomics + float64(c.RxWriteRequests+c.RxSendRequests)
	readMiss, writeMiss := m.contexts(all, float64(c.QPCacheMiss), ratio(reads, all), qps)
	fetch := max(reads*float64(m.nic.ReadPS)+readMiss, m.wire(float64(c.TxBytes), 0, float64(m.nic.ReadMbps)))
	return Stations{
		SendEngine:    ratio(fetch+(all-reads)*float64(m.nic.AckPS), m.ps),
		ReceiveEngine: ratio(all*float64(m.nic.WritePS)+writeMiss, m.ps),
		WireOut:       ratio(m.wire(float64(c.TxBytes), all, float64(m.nic.LineMbps)), m.ps),
		WireIn:        ratio(m.wire(float64(c.RxBytes), all, float64(m.nic.LineMbps)), m.ps),
		AtomicUnit:    ratio(atomics*float64(m.nic.AtomicUnitNS)*1e3, m.ps),
	}
}

// compute is the meter of a compute node with so many QPs: it sends requests, of
// the kinds that all memory nodes have served together, and receives answers.
func (m *meter) compute(c, served *sim.Counters, qps int) Stations {
	all := float64(c.TxRequests)
	reads := ratio(float64(served.RxReadRequests), float64(served.RxReadRequests+served.RxWriteRequests+served.RxAtomicRequests+served.RxSendRequests))
	readMiss, writeMiss := m.contexts(all, float64(c.QPCacheMiss), reads, qps)
	return Stations{
		SendEngine:    ratio(all*float64(m.nic.WritePS)+readMiss+writeMiss, m.ps),
		ReceiveEngine: ratio(all*float64(m.nic.AckPS), m.ps),
		WireOut:       ratio(m.wire(float64(c.TxBytes), all, float64(m.nic.LineMbps)), m.ps),
		WireIn:        ratio(m.wire(float64(c.RxBytes), all, float64(m.nic.LineMbps)), m.ps),
	}
}

// contexts is what misses of QP contexts have cost, in ps: of READs and of others.
// Of lookups a share meets the first cache in vain, in which so many QPs take
// turns; the misses beyond are those of the second.
func (m *meter) contexts(lookups, misses, reads float64, qps int) (read, write float64) {
	first := misses
	if entries := m.nic.QPCache[0].Entries; qps > m.nic.QPCache[1].Entries {
		first = min(misses, lookups*(1-float64(entries)/float64(qps)))
	}
	for i, n := range []float64{first, misses - first} {
		read += n * reads * float64(m.nic.QPCache[i].ReadPS)
		write += n * (1 - reads) * float64(m.nic.QPCache[i].WritePS)
	}
	return read, write
}

// wire is how long bytes in so many packets take at a rate.
func (m *meter) wire(bytes, packets, mbps float64) float64 {
	return (bytes + packets*m.header) * 8e6 / mbps
}

func (n *NodeCounters) row() []string {
	cells := []string{n.Name}
	for _, v := range []uint64{n.RxReadRequests, n.RxWriteRequests, n.RxAtomicRequests, n.TxRequests, n.DuplicateRequest, n.OutOfBuffer, n.QPCacheMiss, n.AtomicStalls} {
		cells = append(cells, thousands(v))
	}
	for _, t := range n.Taken.list() {
		cells = append(cells, fmt.Sprintf("%.0f %%", 100*t.Taken))
	}
	return cells
}

package bench

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"
)

// WriteText writes r for people; its last line is BenchLine.
func (r *Result) WriteText(w io.Writer) error {
	var b bytes.Buffer
	r.writeHead(&b)
	r.writeTransactions(&b)
	r.writeVerbs(&b)
	r.writeSimulation(&b)
	r.writeChecks(&b)
	fmt.Fprintln(&b, r.BenchLine())
	_, err := w.Write(b.Bytes())
	return err
}

func (r *Result) writeHead(b *bytes.Buffer) {
	c := r.config
	provider := c.Provider
	if c.Provider == providerSim {
		provider = fmt.Sprintf("simulated %s NICs, %s", c.NIC, plural(c.hosts(), "compute node"))
	}
	fmt.Fprintf(b, "%s on %s, %s, %s, %s, lock %s, seed %d\n", r.Benchmark, provider,
		plural(c.MemoryNodes, "memory node"), plural(c.Replicas, "replica"), plural(c.Coordinators, "coordinator"), c.Lock, r.Seed)
	if c.Provider == providerSim {
		fmt.Fprintf(b, "loaded in %.1f ms, warmed up for %v, measured for %.3f ms, all in virtual time; that took %.1f s", 1e3*r.LoadSeconds, c.Warmup, 1e3*r.Seconds, r.RealSeconds)
	} else {
		fmt.Fprintf(b, "loaded in %.2f s, warmed up for %v, measured for %.2f s", r.LoadSeconds, c.Warmup.Round(time.Millisecond), r.Seconds)
	}
	if r.Interrupted {
		b.WriteString(", interrupted")
	}
	b.WriteString("\n\n")
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (r *Result) writeTransactions(b *bytes.Buffer) {
	head := []string{"transaction", "committed"}
	var shown []string // the reasons that occurred
	for _, reason := range r.reasons {
		if r.Aborted[reason] > 0 {
			shown = append(shown, reason)
		}
	}
	head = append(head, shown...)
	head = append(head, "tps", "mean us", "p50", "p90", "p99", "p99.9", "max")
	rows := [][]string{head}
	row := func(name string, f *Figures) {
		cells := []string{name, thousands(f.Committed)}
		for _, reason := range shown {
			cells = append(cells, thousands(f.Aborted[reason]))
		}
		cells = append(cells, thousands(uint64(f.TPS+0.5)))
		l := f.Latency
		for _, us := range []float64{l.Mean, l.P50, l.P90, l.P99, l.P999, l.Max} {
			cells = append(cells, fmt.Sprintf("%.1f", us))
		}
		rows = append(rows, cells)
	}
	for _, name := range r.types {
		f := r.Transactions[name]
		row(name, &f)
	}
	row("all", &r.Figures)
	table(b, rows)
	fmt.Fprintf(b, "%s attempts: committed + aborted, each rerun counted\n\n", thousands(r.Attempted))
}

func (r *Result) writeVerbs(b *bytes.Buffer) {
	v := r.Verbs
	totals := []uint64{v.Read, v.Write, v.CAS, v.FAA, v.Doorbells, v.RoundTrips, v.BytesOut, v.BytesIn}
	all, per := []string{"total"}, []string{"per committed"}
	for _, n := range totals {
		all = append(all, thousands(n))
		if r.Committed > 0 {
			per = append(per, fmt.Sprintf("%.2f", float64(n)/float64(r.Committed)))
		} else {
			per = append(per, "-")
		}
	}
	table(b, [][]string{{"verbs", "read", "write", "cas", "faa", "doorbells", "round trips", "bytes out", "bytes in"}, all, per})
	b.WriteByte('\n')
}

func (r *Result) writeSimulation(b *bytes.Buffer) {
	s := r.Simulation
	if s == nil {
		return
	}
	rows := [][]string{{"NIC", "rx reads", "rx writes", "rx atomics", "tx requests", "duplicates", "out of buffer", "QP misses", "atomic stalls",
		"send", "receive", "wire out", "wire in", "atomics"}}
	for i := range s.Nodes {
		rows = append(rows, s.Nodes[i].row())
	}
	table(b, rows)
	fmt.Fprintf(b, "busiest: %s, taken for %.0f %% of the time; the processors of the compute nodes for %.0f %%\n\n", s.Busiest.Name, 100*s.Busiest.Taken, 100*s.Processors)
}

func (r *Result) writeChecks(b *bytes.Buffer) {
	width := len("checks")
	for _, k := range r.CheckList {
		width = max(width, len(k.Name))
	}
	b.WriteString("checks\n")
	for _, k := range r.CheckList {
		word := "pass"
		if !k.OK {
			word = "FAIL"
		}
		fmt.Fprintln(b, strings.TrimRight(fmt.Sprintf("  %-*s  %s  %s", width, k.Name, word, k.Detail), " "))
	}
	for _, text := range append(r.Details, r.Notes...) {
		fmt.Fprintf(b, "  %s\n", text)
	}
	if r.Error != "" {
		fmt.Fprintf(b, "  the run failed: %s\n", r.Error)
	}
	b.WriteByte('\n')
}

// table writes rows in columns: the first to the left, numbers to the right.
func table(b *bytes.Buffer, rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len(cell))
		}
	}
	for _, row := range rows {
		for i, cell := range row {
			if i == 0 {
				fmt.Fprintf(b, "%-*s", widths[i], cell)
			} else {
				fmt.Fprintf(b, "  %*s", widths[i], cell)
			}
		}
		b.WriteByte('\n')
	}
}

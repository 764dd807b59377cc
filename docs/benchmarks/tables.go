package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// tables are the generated parts of the document by name.
type tables map[string]string

// writeInto replaces what stands between the lines "<!-- begin NAME -->" and
// "<!-- end NAME -->".
func (t tables) writeInto(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for name, table := range t {
		if text, err = replace(text, name, table); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return os.WriteFile(file, text, 0o666)
}

func replace(text []byte, name, table string) ([]byte, error) {
	begin, end := "<!-- begin "+name+" -->\n", "<!-- end "+name+" -->"
	before, rest, ok := bytes.Cut(text, []byte(begin))
	_, after, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		return nil, fmt.Errorf("there is no %q with an end", strings.TrimSpace(begin))
	}
	return fmt.Appendf(nil, "%s%s%s%s%s", before, begin, table, end, after), nil
}

// table writes rows as Markdown: the first is the head, the first column is text.
func table(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString("|---" + strings.Repeat("|---:", len(row)-1) + "|\n")
		}
	}
	return b.String()
}

func us(x float64) string      { return fmt.Sprintf("%.1f", x) }
func percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }
func whole(x float64) string   { return fmt.Sprintf("%.0f %%", 100*x) }
func two(x float64) string     { return fmt.Sprintf("%.2f", x) }

// saturated is the share from which on a station is what bounds the throughput.
const saturated = 0.9

// busiest says what bounds a run.
func (r *report) busiest() string {
	b := r.Simulation.Busiest
	// Stations of the memory nodes are alike.
	name := b.Name
	for _, kind := range []string{"memory", "compute"} {
		if i := strings.IndexByte(name, ' '); i > 0 && strings.HasPrefix(name, kind) {
			name = kind + name[i:]
		}
	}
	if b.Taken < saturated {
		return fmt.Sprintf("none: round trips (%s: %s)", name, whole(b.Taken))
	}
	return fmt.Sprintf("%s: %s", name, whole(b.Taken))
}

func (f *figures) tables(published map[string][]point) tables {
	return tables{
		"coordinators": table(f.coordinatorRows()),
		"threads":      table(f.threadRows(published)),
		"stations":     table(f.stationRows()),
		"kinds":        table(f.kindRows()),
		"nics":         table(f.nicRows()),
	}
}

func (f *figures) coordinatorRows() [][]string {
	rows := [][]string{{"coordinators", "Mtxn/s", "p50, µs", "p99, µs", "aborted by conflicts", "rolled back", "round trips", "verbs", "bottleneck"}}
	for i, n := range coordinators {
		r := &f.coordinators[i]
		rows = append(rows, []string{fmt.Sprint(n), mega(r.TPS), us(r.Latency.P50), us(r.Latency.P99), percent(r.conflicts()),
			percent(float64(r.Aborted["insufficient_funds"]) / float64(r.Attempted)), two(r.per(r.Verbs.RoundTrips)), us(r.per(r.Simulation.Verbs)), r.busiest()})
	}
	return rows
}

func (f *figures) threadRows(published map[string][]point) [][]string {
	rows := [][]string{{"threads × 8", "fjord, simulated: Mtxn/s", "p50, µs", "p99, µs", "conflicts", "bottleneck",
		"FORD: Mtxn/s", "p50", "p99", "aborted", "SMART: Mtxn/s", "p50", "p99", "aborted"}}
	for i, n := range threads {
		r := &f.threads[i]
		row := []string{fmt.Sprint(n), mega(r.TPS), us(r.Latency.P50), us(r.Latency.P99), percent(r.conflicts()), r.busiest()}
		for _, system := range []string{"FORD", "SMART"} {
			p := at(published[system], n)
			row = append(row, two(p.committed), us(p.p50), us(p.p99), percent(p.aborted))
		}
		rows = append(rows, row)
	}
	return rows
}

func (f *figures) stationRows() [][]string {
	head := []string{"run", "processors"}
	for _, side := range []string{"compute", "memory"} {
		for _, s := range stations {
			if side == "memory" || s.key != "atomic_unit" {
				head = append(head, side+": "+s.name)
			}
		}
	}
	rows := [][]string{head}
	add := func(name string, r *report) {
		row := []string{name, whole(r.Simulation.Processors)}
		for _, side := range []string{"compute", "memory"} {
			for _, s := range stations {
				if side == "memory" || s.key != "atomic_unit" {
					row = append(row, whole(r.taken(side, s.key)))
				}
			}
		}
		rows = append(rows, row)
	}
	for i, n := range coordinators {
		add(fmt.Sprintf("4 + 3 nodes, coordinators: %d", n), &f.coordinators[i])
	}
	for i, n := range threads {
		add(fmt.Sprintf("1 + 2 nodes, threads: %d × 8", n), &f.threads[i])
	}
	return rows
}

var stations = []struct{ key, name string }{
	{"send_engine", "send engine"}, {"receive_engine", "receive engine"}, {"wire_out", "wire out"}, {"wire_in", "wire in"}, {"atomic_unit", "atomics"},
}

func (f *figures) kindRows() [][]string {
	rows := [][]string{{"transaction", "round trips", "doorbells", "READ", "CAS", "WRITE", "bytes out", "bytes in", "p50, µs"}}
	for i, kind := range kinds {
		r := &f.kinds[i]
		v := &r.Verbs
		rows = append(rows, []string{kind, two(r.per(v.RoundTrips)), two(r.per(v.Doorbells)), two(r.per(v.Read)), two(r.per(v.CAS)), two(r.per(v.Write)),
			fmt.Sprintf("%.0f", r.per(v.BytesOut)), fmt.Sprintf("%.0f", r.per(v.BytesIn)), us(r.Latency.P50)})
	}
	return rows
}

func (f *figures) nicRows() [][]string {
	rows := [][]string{{"NIC", "Mtxn/s", "p50, µs", "p99, µs", "aborted by conflicts", "bottleneck"}}
	for i, nic := range nics {
		r := &f.nics[i]
		rows = append(rows, []string{nic, mega(r.TPS), us(r.Latency.P50), us(r.Latency.P99), percent(r.conflicts()), r.busiest()})
	}
	return rows
}

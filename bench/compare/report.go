package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
)

// host is where the figures are from.
type host struct {
	Name       string `json:"name"`
	OS         string `json:"os"`
	Arch       string `json:"arch"`
	CPU        string `json:"cpu"`
	CPUs       int    `json:"cpus"`
	GOMAXPROCS int    `json:"gomaxprocs"`
}

func thisHost() host {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	return host{name, runtime.GOOS, runtime.GOARCH, cpuModel(), runtime.NumCPU(), runtime.GOMAXPROCS(0)}
}

// cpuModel asks Linux; elsewhere, and where a virtual machine hides it, it is "unknown".
func cpuModel() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// printHeader says what the tables below it were measured on and how.
func printHeader(w io.Writer, h host, cfg config) error {
	_, err := fmt.Fprintf(w, "host %s (%s, %d CPUs), %s %s/%s, GOMAXPROCS %d\n"+
		"SmallBank: committed/s, median of %d rounds of %v (after %v of warm-up), seed %d\n",
		h.Name, h.CPU, h.CPUs, runtime.Version(), h.OS, h.Arch, h.GOMAXPROCS,
		cfg.rounds, cfg.duration, cfg.warmup, cfg.seed)
	return err
}

// printGroup prints a group as a Markdown table with aligned columns.
func printGroup(w io.Writer, group []result, bases []string) error {
	bases = slices.DeleteFunc(slices.Clone(bases), func(b string) bool {
		_, ok := group[0].BaseOverThis[b]
		return !ok
	})
	header := []string{"engine", "committed/s", "lowest", "highest", "rolled back", "retries/1000"}
	for _, b := range bases {
		header = append(header, b+" ÷ this")
	}
	lines := [][]string{header}
	for _, r := range group {
		lines = append(lines, r.columns(bases))
	}

	var b strings.Builder
	plural := "s"
	if group[0].Goroutines == 1 {
		plural = ""
	}
	fmt.Fprintf(&b, "\n### %s, %d goroutine%s\n\n", group[0].Setting, group[0].Goroutines, plural)
	width := make([]int, len(header))
	for _, line := range lines {
		for i, text := range line {
			width[i] = max(width[i], len([]rune(text)))
		}
	}
	for n, line := range lines {
		for i, text := range line {
			if i == 0 {
				fmt.Fprintf(&b, "| %-*s |", width[i], text)
			} else {
				fmt.Fprintf(&b, " %*s |", width[i], text)
			}
		}
		b.WriteByte('\n')
		if n == 0 {
			for i := range line {
				if i == 0 {
					fmt.Fprintf(&b, "|%s|", strings.Repeat("-", width[i]+2))
				} else {
					fmt.Fprintf(&b, "%s:|", strings.Repeat("-", width[i]+1))
				}
			}
			b.WriteByte('\n')
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// columns is the engine's line of the table.
func (r result) columns(bases []string) []string {
	var committed, rolledBack, retries uint64
	rate := func(m measurement) float64 { return m.PerSecond }
	lowest, highest := rate(r.Rounds[0]), rate(r.Rounds[0])
	for _, m := range r.Rounds {
		committed += m.Committed
		rolledBack += m.RolledBack
		retries += m.Retries
		lowest, highest = min(lowest, rate(m)), max(highest, rate(m))
	}
	completed := float64(max(1, committed+rolledBack))
	name := r.Engine
	if !r.Conserved {
		name += " (CHECK FAILED)"
	}
	line := []string{
		name, thousands(r.PerSecond), thousands(lowest), thousands(highest),
		fmt.Sprintf("%.1f %%", 100*float64(rolledBack)/completed),
		fmt.Sprintf("%.1f", 1000*float64(retries)/completed),
	}
	for _, b := range bases {
		line = append(line, fmt.Sprintf("%.2f", r.BaseOverThis[b]))
	}
	return line
}

// thousands prints a whole number in groups of three digits.
func thousands(f float64) string {
	s := fmt.Sprintf("%.0f", f)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}

// report is the JSON object of a run. Names are those of fjord's other benchmarks where they have them.
type report struct {
	Benchmark string          `json:"benchmark"`
	Config    map[string]any  `json:"config"` // every flag's value
	Build     map[string]any  `json:"build"`
	Host      host            `json:"host"`
	Seed      uint64          `json:"seed"`
	Results   []result        `json:"results"`
	Checks    map[string]bool `json:"checks"`
}

func (r *report) add(group []result) {
	r.Results = append(r.Results, group...)
	for _, g := range group {
		r.Checks[fmt.Sprintf("conserved/%s/%s/%d", g.Engine, g.Setting, g.Goroutines)] = g.Conserved
	}
}

// passed tells whether every check held.
func (r *report) passed() bool {
	for _, ok := range r.Checks {
		if !ok {
			return false
		}
	}
	return true
}

func (r *report) write(file string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o644)
}

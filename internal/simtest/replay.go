package simtest

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
)

// Replay is the command that runs a seed again with these options; planFile is where the
// plan is, if they have one.
func Replay(seed uint64, o Options, planFile string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "go run ./cmd/fjord sim --seed %d", seed)
	if o.Workload != "" {
		fmt.Fprintf(&b, " --workload %s", o.Workload)
	}
	for _, x := range []struct {
		name string
		v    int
	}{{"memory-nodes", o.Nodes}, {"replicas", o.Copies}, {"coordinators", o.Coordinators}, {"workers", o.Workers}, {"txns", o.Transactions}} {
		if x.v != 0 {
			fmt.Fprintf(&b, " --%s %d", x.name, x.v)
		}
	}
	if o.Plan != nil {
		fmt.Fprintf(&b, " --plan %s", planFile)
	}
	return b.String()
}

// Commit is that of the build, "" if it is not known.
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	commit, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = " with changes"
		}
	}
	return commit + dirty
}

// Print writes what is wrong with a run, and how to run it again.
func (r *Result) Print(w io.Writer, o Options, planFile string) {
	s := &r.Setup
	fmt.Fprintf(w, "seed %d failed: %s on %d memory nodes, %d copies, %d coordinators × %d workers × %d transactions, values of %d bytes, %s, %s\n",
		s.Seed, s.Workload, s.Nodes, s.Copies, s.Coordinators, s.Workers, s.Transactions, s.ValueSize, s.Lock, s.NIC)
	for _, f := range r.Failures {
		fmt.Fprintf(w, "  - %s\n", strings.ReplaceAll(f, "\n", "\n    "))
	}
	if c := Commit(); c != "" {
		fmt.Fprintf(w, "  commit: %s\n", c)
	}
	fmt.Fprintf(w, "  replay: %s\n", Replay(s.Seed, o, planFile))
	if o.Plan == nil {
		return
	}
	fmt.Fprintf(w, "  %s:\n", planFile)
	text, err := json.MarshalIndent(o.Plan, "    ", "  ")
	if err != nil {
		panic(err) // a plan has nothing that JSON has not
	}
	fmt.Fprintf(w, "    %s\n", text)
}

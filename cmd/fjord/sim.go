package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"fjord/internal/simtest"
)

// simFlags are the flags of fjord sim.
type simFlags struct {
	seed   uint64
	seeds  int
	plan   string
	trace  string
	procs  int
	first  bool
	shrink bool
	opt    simtest.Options
}

func (f *simFlags) register(fs *flag.FlagSet) {
	fs.Uint64Var(&f.seed, "seed", 1, "run this seed, or begin with it")
	fs.IntVar(&f.seeds, "seeds", 1, "how many seeds to run")
	fs.StringVar(&f.opt.Workload, "workload", "", "run this workload: "+strings.Join(simtest.Workloads(), ", ")+"; none: the seed draws one")
	fs.StringVar(&f.plan, "plan", "", "take what goes wrong from this `file`, not from the seed")
	fs.StringVar(&f.trace, "trace", "", "write everything that happens to this `file`, - for the terminal; for a single seed")
	fs.IntVar(&f.opt.Nodes, "memory-nodes", 0, "memory nodes; 0: the seed draws, as with all that follow")
	fs.IntVar(&f.opt.Copies, "replicas", 0, "copies of everything")
	fs.IntVar(&f.opt.Coordinators, "coordinators", 0, "coordinators")
	fs.IntVar(&f.opt.Workers, "workers", 0, "workers of each coordinator")
	fs.IntVar(&f.opt.Transactions, "txns", 0, "transactions of each worker")
	fs.IntVar(&f.procs, "parallel", runtime.GOMAXPROCS(0), "runs at once")
	fs.BoolVar(&f.first, "first", false, "end at the first seed that fails")
	fs.BoolVar(&f.shrink, "shrink", true, "look for a smaller run that fails as well")
}

// check says which flag is wrong.
func (f *simFlags) check() error {
	switch {
	case f.seeds < 1:
		return fmt.Errorf("--seeds is %d, right is 1 or more", f.seeds)
	case f.procs < 1:
		return fmt.Errorf("--parallel is %d, right is 1 or more", f.procs)
	case f.trace != "" && f.seeds != 1:
		return fmt.Errorf("--trace is for a single seed, and --seeds is %d", f.seeds)
	}
	if f.plan != "" {
		p, err := readPlan(f.plan)
		if err != nil {
			return fmt.Errorf("--plan %s: %w", f.plan, err)
		}
		f.opt.Plan = &p
	}
	return f.opt.Validate()
}

func readPlan(name string) (simtest.Plan, error) {
	file, err := os.Open(name)
	if err != nil {
		return simtest.Plan{}, err
	}
	defer func() { _ = file.Close() }() // it was only read
	return simtest.ReadPlan(file)
}

// simulate is fjord sim.
func simulate(args []string, stdout, stderr io.Writer) int {
	var f simFlags
	fs := flag.NewFlagSet("fjord sim", flag.ContinueOnError)
	fs.SetOutput(stderr)
	f.register(fs)
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		return exitOK
	} else if err != nil {
		return exitBad // it was told
	}
	err := f.check()
	if err == nil && fs.NArg() > 0 {
		err = fmt.Errorf("%q is no flag", fs.Arg(0))
	}
	if err != nil {
		fmt.Fprintf(stderr, "fjord sim: %v\n", err)
		return exitBad
	}
	closeTrace, err := f.openTrace(stdout)
	if err != nil {
		fmt.Fprintf(stderr, "fjord sim: --trace: %v\n", err)
		return exitBad
	}
	debug.SetGCPercent(400) // worlds are small and short-lived
	c := simtest.Campaign{Options: f.opt, Start: f.seed, Seeds: f.seeds, Parallel: f.procs, First: f.first}
	totals, err := c.Run()
	if e := closeTrace(); err == nil && e != nil {
		err = fmt.Errorf("--trace: %w", e)
	}
	if err != nil { // a plan that names hosts that the seed has not
		fmt.Fprintf(stderr, "fjord sim: %v\n", err)
		return exitBad
	}
	totals.Print(stdout)
	for i := range totals.Failed {
		r := &totals.Failed[i]
		r.Print(stdout, f.opt, f.plan)
		if i == 0 && f.shrink {
			small, o := simtest.Shrink(*r, f.opt)
			fmt.Fprintf(stdout, "shrunk:\n")
			small.Print(stdout, o, "plan.json")
		}
	}
	if len(totals.Failed) > 0 {
		return exitFail
	}
	return exitOK
}

// openTrace has the run tell what happens, if that was asked for.
func (f *simFlags) openTrace(stdout io.Writer) (end func() error, err error) {
	if f.trace == "" {
		return func() error { return nil }, nil
	}
	to, closeFile := stdout, func() error { return nil }
	if f.trace != "-" {
		file, err := os.Create(f.trace)
		if err != nil {
			return nil, err
		}
		to, closeFile = file, file.Close
	}
	b := bufio.NewWriter(to)
	f.opt.Trace = func(line string) { fmt.Fprintln(b, line) }
	return func() error { return errors.Join(b.Flush(), closeFile()) }, nil
}

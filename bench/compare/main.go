package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// Exit statuses, as in fjord's other benchmarks.
const (
	exitPassed = 0
	exitFailed = 1 // a check failed, or the run broke off
	exitUsage  = 2
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	flags.SetOutput(stderr)
	cfg, jsonFile, err := parse(flags, args)
	if errors.Is(err, flag.ErrHelp) {
		return exitPassed
	}
	if err != nil {
		fmt.Fprintln(stderr, "compare:", err)
		return exitUsage
	}

	rep := &report{
		Benchmark: "compare",
		Config:    flagValues(flags),
		Build:     map[string]any{"go": runtime.Version(), "commit": commit()},
		Host:      thisHost(),
		Seed:      cfg.seed,
		Checks:    map[string]bool{},
	}
	err = printHeader(stdout, rep.Host, cfg)
	if err == nil {
		err = compare(cfg, stderr, func(group []result) error {
			rep.add(group)
			return printGroup(stdout, group, cfg.bases)
		})
	}
	// What was measured before an error is worth keeping.
	if jsonFile != "" {
		err = errors.Join(err, rep.write(jsonFile))
	}
	if err != nil {
		fmt.Fprintln(stderr, "compare:", err)
		return exitFailed
	}
	if !rep.passed() {
		fmt.Fprintln(stderr, "compare: a check has FAILED, see above")
		return exitFailed
	}
	return exitPassed
}

func parse(flags *flag.FlagSet, args []string) (cfg config, jsonFile string, err error) {
	flags.IntVar(&cfg.rounds, "rounds", 5, "rounds per setting and number of goroutines; in each, every engine is measured once")
	flags.DurationVar(&cfg.duration, "duration", time.Second, "measured time per engine and round")
	flags.DurationVar(&cfg.warmup, "warmup", 200*time.Millisecond, "time to run before measuring")
	flags.Uint64Var(&cfg.seed, "seed", 1, "seed of the transactions' inputs")
	flags.StringVar(&jsonFile, "json", "", "write the results to this `file`")
	engineList := flags.String("engines", "", "comma-separated `names` (default all)")
	settingList := flags.String("settings", "", "comma-separated `names` of uniform, hot, contended (default all)")
	goroutineList := flags.String("goroutines", "1,2,8", "comma-separated `numbers`")
	baseList := flags.String("base", "fjord-1,fjord-3", "comma-separated `names` of the engines that ratios refer to")
	if err := flags.Parse(args); err != nil {
		return cfg, "", err
	}
	if flags.NArg() > 0 {
		return cfg, "", fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if cfg.rounds < 1 || cfg.duration <= 0 || cfg.warmup < 0 {
		return cfg, "", errors.New("--rounds and --duration have to be positive, --warmup not negative")
	}
	if cfg.engines, err = pick(specs(), func(s spec) string { return s.name }, *engineList); err != nil {
		return cfg, "", fmt.Errorf("--engines: %w", err)
	}
	if cfg.settings, err = pick(settings(), func(s setting) string { return s.name }, *settingList); err != nil {
		return cfg, "", fmt.Errorf("--settings: %w", err)
	}
	for n := range strings.SplitSeq(*goroutineList, ",") {
		g, err := strconv.Atoi(n)
		if err != nil || g < 1 {
			return cfg, "", fmt.Errorf("--goroutines: %q is not a positive number", n)
		}
		cfg.goroutines = append(cfg.goroutines, g)
	}
	cfg.bases = strings.Split(*baseList, ",")
	return cfg, jsonFile, nil
}

// flagValues is every flag with its value, numbers as numbers.
func flagValues(flags *flag.FlagSet) map[string]any {
	values := map[string]any{}
	flags.VisitAll(func(f *flag.Flag) {
		switch v := f.Value.(flag.Getter).Get().(type) {
		case time.Duration:
			values[f.Name] = v.String()
		default:
			values[f.Name] = v
		}
	})
	return values
}

// commit is what the binary was built from, if it was built from a repository.
func commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}

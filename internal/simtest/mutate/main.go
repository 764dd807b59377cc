// Mutate takes guarding lines out of the engine, one at a time, in a copy of the module,
// and counts how many seeds of the simulation campaign it takes until that is found.
//
//	go run ./internal/simtest/mutate [-seeds 2000] [-only NAME,...] [-parallel N]
//
// It prints a table in Markdown. The exit status is 1 if a mutation was not found within
// the seeds, and 2 if one does not fit the source any more, or does not compile: then the
// table in mutations.go has to follow the source.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	f := flag.NewFlagSet("mutate", flag.ContinueOnError)
	f.SetOutput(stderr)
	seeds := f.Int("seeds", 2000, "seeds to try for each mutation")
	start := f.Uint64("start", 1, "the first of them")
	only := f.String("only", "", "these mutations only, by name, separated by commas")
	parallel := f.Int("parallel", runtime.GOMAXPROCS(0), "runs at once")
	root := f.String("root", ".", "the module")
	check := f.Bool("check", false, "only look whether all mutations fit the source")
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	list, err := choose(*only)
	if err == nil {
		err = fit(*root, list)
	}
	if err != nil {
		fmt.Fprintln(stderr, "mutate:", err)
		return 2
	}
	if *check {
		return 0
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		fmt.Fprintln(stderr, "mutate:", err)
		return 2
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is temporary
	if err := copyModule(*root, dir); err != nil {
		fmt.Fprintln(stderr, "mutate:", err)
		return 2
	}
	l := &lab{dir, *start, *seeds, *parallel}
	if _, err := l.build(context.Background(), original); err != nil {
		fmt.Fprintln(stderr, "mutate: the module as it is:", err)
		return 2
	}
	fmt.Fprintf(stdout, "| taken out | seeds until found | what was seen | s |\n|---|---|---|---|\n")
	status := 0
	for _, m := range list {
		began := time.Now()
		found, what, err := l.try(m)
		if err != nil {
			fmt.Fprintf(stderr, "mutate: %s: %v\n", m.name, err)
			status = 2
			continue
		}
		text := fmt.Sprint(found)
		if found == 0 {
			text, status = fmt.Sprintf("**not in %d**", *seeds), max(status, 1)
		}
		fmt.Fprintf(stdout, "| %s: %s | %s | %s | %.0f |\n", m.name, m.guard, text, what, time.Since(began).Seconds())
	}
	return status
}

// choose returns the mutations of those names, all if there are none.
func choose(only string) ([]mutation, error) {
	if only == "" {
		return mutations, nil
	}
	var list []mutation
	for _, name := range strings.Split(only, ",") {
		i := slices.IndexFunc(mutations, func(m mutation) bool { return m.name == name })
		if i < 0 {
			var all []string
			for _, m := range mutations {
				all = append(all, m.name)
			}
			return nil, fmt.Errorf("no mutation %q, there are %s", name, strings.Join(all, ", "))
		}
		list = append(list, mutations[i])
	}
	return list, nil
}

// fit checks that the text of every mutation stands in its file, once.
func fit(root string, list []mutation) error {
	var all []error
	for _, m := range list {
		for _, e := range m.edits {
			text, err := os.ReadFile(filepath.Join(root, e.file))
			if err != nil {
				all = append(all, fmt.Errorf("%s: %w", m.name, err))
			} else if n := bytes.Count(text, []byte(e.old)); n != 1 {
				all = append(all, fmt.Errorf("%s: this text is %d times in %s, right is once:\n%s", m.name, n, e.file, e.old))
			}
		}
	}
	return errors.Join(all...)
}

// copyModule copies the sources of the module.
func copyModule(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); rel != "." && (strings.HasPrefix(name, ".") || name == "bench" || name == "docs" || name == "bin") {
				return filepath.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		switch ext := filepath.Ext(path); {
		case ext == ".go" && !strings.HasSuffix(path, "_test.go"), ext == ".mod", ext == ".sum", ext == ".s":
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(to, rel), text, 0o644)
		}
		return nil
	})
}

// hang bounds a mutation in wall time: one that makes the engine spin without a verb is
// found by that.
const hang = 20 * time.Minute

var failed = regexp.MustCompile(`(?m)^seed (\d+) failed.*\n  - ([^\n]*)`)

// lab is a copy of the module, in which it is mutated.
type lab struct {
	dir             string
	start           uint64
	seeds, parallel int
}

// build makes a binary of the module as it is.
func (l *lab) build(ctx context.Context, name string) (binary string, err error) {
	binary = filepath.Join(l.dir, name)
	c := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", binary, "./cmd/fjord")
	c.Dir = l.dir
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("it does not compile: %w\n%s", err, out)
	}
	return binary, nil
}

// campaign runs seeds from one on, and returns the first that fails, and with what.
func (l *lab) campaign(ctx context.Context, binary string, from uint64, seeds int) (seed uint64, what string, err error) {
	c := exec.CommandContext(ctx, binary, "sim", "--first", "--shrink=false",
		"--seed", fmt.Sprint(from), "--seeds", fmt.Sprint(seeds), "--parallel", fmt.Sprint(l.parallel))
	out, err := c.CombinedOutput()
	if err == nil {
		return 0, "", nil
	}
	x := failed.FindSubmatch(out)
	if x == nil {
		return 0, "", fmt.Errorf("%w\n%s", err, out)
	}
	if _, err := fmt.Sscan(string(x[1]), &seed); err != nil {
		return 0, "", err
	}
	return seed, string(x[2]), nil
}

// try runs the campaign on a mutation, and undoes it. found is the number of seeds that
// it took, 0 if they were not enough. A seed that fails without the mutation does not
// count.
func (l *lab) try(m mutation) (found uint64, what string, err error) {
	undo, err := mutate(l.dir, m)
	if err != nil {
		return 0, "", err
	}
	defer func() { err = errors.Join(err, undo()) }()
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	binary, err := l.build(ctx, mutated)
	if err != nil {
		return 0, "", err
	}
	for from, end := l.start, l.start+uint64(l.seeds); from < end; {
		seed, what, err := l.campaign(ctx, binary, from, int(end-from))
		switch {
		case ctx.Err() != nil:
			return 1, fmt.Sprintf("it hangs for %v", hang), nil
		case err != nil:
			return 0, "", err
		case what == "":
			return 0, "", nil
		}
		if sound, _, err := l.campaign(ctx, filepath.Join(l.dir, original), seed, 1); err != nil {
			return 0, "", fmt.Errorf("without the mutation: %w", err)
		} else if sound == 0 {
			return seed - l.start + 1, brief(what), nil
		}
		from = seed + 1
	}
	return 0, "", nil
}

// Names of binaries.
const (
	original = "original.bin"
	mutated  = "mutated.bin"
)

// brief is a failure that fits into a table.
func brief(what string) string {
	what, _, _ = strings.Cut(what, "; right is")
	if len(what) > 110 {
		what = what[:110] + " …"
	}
	return strings.ReplaceAll(what, "|", "/")
}

// mutate changes the sources.
func mutate(dir string, m mutation) (undo func() error, err error) {
	before := make(map[string][]byte)
	for _, e := range m.edits {
		name := filepath.Join(dir, e.file)
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if before[name] == nil {
			before[name] = text
		}
		if err := os.WriteFile(name, bytes.Replace(text, []byte(e.old), []byte(e.new), 1), 0o644); err != nil {
			return nil, err
		}
	}
	return func() error {
		var all []error
		for name, text := range before {
			all = append(all, os.WriteFile(name, text, 0o644))
		}
		return errors.Join(all...)
	}, nil
}

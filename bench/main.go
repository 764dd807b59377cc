package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit statuses of a benchmark.
const (
	ExitOK     = 0 // the run and every check passed
	ExitFailed = 1 // the run or a check failed, or was interrupted
	ExitUsage  = 2 // the arguments were wrong, and nothing was run
)

// Main runs b with the command line args and returns the exit status. SIGINT and
// SIGTERM end the run early; it is checked and reported then, and failed. A second
// one ends the process.
func Main(b Benchmark, args []string, stdout, stderr io.Writer) int {
	c, f, err := parse(b, args)
	switch {
	case errors.Is(err, errHelp):
		f.help(stdout)
		return ExitOK
	case err != nil:
		return usage(b, stderr, err)
	}
	opts, err := c.options()
	if err == nil {
		b.Options(&opts)
		opts.EnsureDefaults()
		if err = opts.Validate(); err == nil && c.Provider == providerSim {
			err = c.cluster(&opts).Validate()
		}
	}
	if err != nil {
		return usage(b, stderr, err)
	}
	files, err := openFiles(c)
	if err != nil {
		return usage(b, stderr, err)
	}
	defer files.abandon()
	if err := files.run(b, c, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", b.Name(), err)
		return ExitFailed
	}
	return ExitOK
}

func usage(b Benchmark, stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "%s: bad arguments\n%v\n", b.Name(), err)
	return ExitUsage
}

// files are the outputs of a run other than stdout, opened before it begins.
type files struct {
	json    *os.File
	history *History
	metrics *metrics
}

// openFiles opens all outputs, and empties files only once all could be opened.
func openFiles(c *Config) (_ *files, err error) {
	f := &files{}
	var history *os.File
	defer func() {
		if err != nil {
			f.abandon()
		}
	}()
	if c.JSON != "" {
		if f.json, err = openOutput("json", c.JSON); err != nil {
			return nil, err
		}
	}
	if c.History != "" {
		if history, err = openOutput("history", c.History); err != nil {
			return nil, err
		}
		f.history = NewHistory(history)
	}
	if f.json != nil && history != nil && sameFile(f.json, history) {
		return nil, fmt.Errorf("--json %q and --history %q are one file: right is a file of its own for each", c.JSON, c.History)
	}
	if c.Metrics != "" {
		if f.metrics, err = serveMetrics(c.Metrics); err != nil {
			return nil, fmt.Errorf("--metrics %q: %w; right is a free address to listen on, like localhost:9090 or :0", c.Metrics, err)
		}
	}
	for _, file := range []*os.File{f.json, history} {
		if file != nil {
			_ = file.Truncate(0) // fails for pipes and devices, which have nothing to empty
		}
	}
	return f, nil
}

func openOutput(flag, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, fmt.Errorf("--%s %q: %w; right is a file that can be written", flag, path, err)
	}
	return f, nil
}

// sameFile reports whether a and b are one regular file.
func sameFile(a, b *os.File) bool {
	x, errX := a.Stat()
	y, errY := b.Stat()
	return errX == nil && errY == nil && x.Mode().IsRegular() && os.SameFile(x, y)
}

// abandon closes what is still open.
func (f *files) abandon() {
	if f.json != nil {
		_ = f.json.Close()
	}
	if f.history != nil {
		_ = f.history.Close()
	}
	if f.metrics != nil {
		_ = f.metrics.close()
	}
}

// run runs b and writes its reports.
func (f *files) run(b Benchmark, c *Config, stdout, stderr io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // so that the next signal ends the process

	out := Outputs{History: f.history}
	if f.metrics != nil {
		out.Registerer = f.metrics.registry
		if !c.Quiet {
			fmt.Fprintf(stderr, "metrics: http://%s/metrics\n", f.metrics.addr)
		}
	}
	if !c.Quiet {
		out.Progress = NewProgress(terminal(stderr))
	}
	res, err := Run(ctx, b, c, out)
	if res == nil {
		return err
	}
	if f.metrics != nil {
		err = errors.Join(err, f.metrics.close())
		f.metrics = nil
	}
	if err != nil && res.Error == "" {
		res.Error = err.Error()
	}
	if f.json != nil {
		jsonErr := errors.Join(res.WriteJSON(f.json), f.json.Close())
		f.json = nil
		if jsonErr != nil {
			err = errors.Join(err, fmt.Errorf("writing --json: %w", jsonErr))
		}
	}
	if !c.Quiet {
		if e := res.WriteText(stdout); e != nil {
			err = errors.Join(err, fmt.Errorf("writing the report: %w", e))
		}
	}
	return errors.Join(err, res.Failure())
}

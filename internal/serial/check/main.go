// Check reads histories of format fjord-history/1 and says whether they are strictly serializable.
// Several files are the parts of one history, written by several processes of one host.
//
// The exit status is 0 if the history is strictly serializable, 1 if it is not or if the search was
// given up, 2 if there is no history to judge.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"fjord/internal/serial"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.SetOutput(stderr)
	limit := flags.Int("limit", 16, "violations to explain; the rest are only counted")
	flags.Usage = func() {
		fmt.Fprintf(stderr, "usage: check [--limit N] FILE...\n\nFiles are histories of format %s. Several are the parts of one history, of processes that share a clock.\n", serial.Format)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() == 0 || *limit < 1 {
		flags.Usage()
		return 2
	}
	var parts []*serial.History
	for _, name := range flags.Args() {
		h, err := read(name)
		if err != nil {
			fmt.Fprintf(stderr, "%s: %v\n", name, err)
			return 2
		}
		parts = append(parts, h)
	}
	res := serial.Check(serial.Join(flags.Args(), parts), serial.Options{Limit: *limit})
	for i := range res.Violations {
		fmt.Fprintf(stdout, "%d. %s\n", i+1, res.Violations[i].Explain())
	}
	if more := res.Total - len(res.Violations); more > 0 {
		fmt.Fprintf(stdout, "and %d more\n\n", more)
	}
	fmt.Fprintln(stdout, res.String())
	if !res.OK || res.Undecided {
		return 1
	}
	return 0
}

func read(name string) (*serial.History, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return serial.ReadJSONL(f)
}

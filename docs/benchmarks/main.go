package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

const document = "../benchmarks.md"

func main() {
	dir := flag.String("reports", "", "directory for the reports of the runs; those that are there are not made again. None: a temporary one")
	flag.Parse()
	if err := run(*dir); err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	published, err := readPublished()
	if err != nil {
		return err
	}
	if dir == "" {
		if dir, err = os.MkdirTemp("", "fjord-benchmarks"); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	f, err := measure(dir)
	if err != nil {
		return err
	}
	if err := f.plot(published); err != nil {
		return err
	}
	return f.tables(published).writeInto(document)
}

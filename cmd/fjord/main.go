// Command fjord is the project's tool box.
//
//	go run ./cmd/fjord sim --seeds 1000
//
// The exit status is 0 if all went well, 1 if a check has failed, 2 if the arguments
// are wrong.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// Exit statuses.
const (
	exitOK   = 0
	exitFail = 1
	exitBad  = 2
)

// command is what comes behind the program's name.
type command struct {
	name, short string
	run         func(args []string, stdout, stderr io.Writer) int
}

var commands = []command{
	{"sim", "run the engine in the simulator, with faults, and check everything", simulate},
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		usage(stderr)
		return exitBad
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		usage(stdout)
		return exitOK
	}
	var names []string
	for _, c := range commands {
		if c.name == args[0] {
			return c.run(args[1:], stdout, stderr)
		}
		names = append(names, c.name)
	}
	fmt.Fprintf(stderr, "fjord: no command %q, there are %s\n", args[0], strings.Join(names, ", "))
	return exitBad
}

func usage(w io.Writer) {
	fmt.Fprintf(w, "usage: fjord COMMAND [flags]\n\n")
	for _, c := range commands {
		fmt.Fprintf(w, "  %-8s %s\n", c.name, c.short)
	}
	fmt.Fprintf(w, "\nfjord COMMAND --help lists a command's flags.\n")
}

package main

import (
	"fmt"
	"slices"
	"strings"
)

// engine is an opened store that holds the accounts of a ledger in both tables.
type engine interface {
	// worker makes what one goroutine needs. It is called before the clock starts.
	worker() (worker, error)
	// totals adds up all records. No worker is running.
	totals() (totals, error)
	close() error
}

// worker runs transactions for one goroutine.
type worker interface {
	// run executes o to its end, again after each conflict, and tells how often that was. It
	// reports false when apply asked for a rollback.
	run(o *op) (committed bool, retries int, err error)
}

// spec is an engine that can be asked for by name.
type spec struct {
	name          string
	maxGoroutines int // 0 is any number
	open          func(ledger) (engine, error)
}

// specs lists all engines in the order of the report.
func specs() []spec {
	return append(fjordSpecs(),
		spec{name: "occ", open: openOCC(mapIndex)},
		spec{name: "occ-array", open: openOCC(arrayIndex)},
		spec{name: "buntdb", open: openBunt},
		spec{name: "badger", open: openBadger},
		spec{name: "memdb", open: openMemdb},
		spec{name: "bbolt", open: openBolt},
		spec{name: "floor-1", maxGoroutines: 1, open: openFloor(1)},
		spec{name: "floor-3", maxGoroutines: 1, open: openFloor(3)},
	)
}

// pick returns the items of all whose names are in the comma-separated list, in the order of all. An
// empty list means all of them.
func pick[T any](all []T, name func(T) string, list string) ([]T, error) {
	if list == "" {
		return all, nil
	}
	wanted := strings.Split(list, ",")
	var picked []T
	var known []string
	for _, item := range all {
		known = append(known, name(item))
		if slices.Contains(wanted, name(item)) {
			picked = append(picked, item)
		}
	}
	for _, n := range wanted {
		if !slices.Contains(known, n) {
			return nil, fmt.Errorf("%q is none of %s", n, strings.Join(known, ", "))
		}
	}
	return picked, nil
}

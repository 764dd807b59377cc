// Command smallbank runs SmallBank on fjord: six short transactions on accounts
// with a savings and a checking balance, most of them on a few hot accounts.
// Afterwards it checks that no cent was lost or made.
//
//	go run ./bench/smallbank
//
// The benchmark is that of Alomari, Cahill, Fekete and Röhm ("The Cost of
// Serializability on Platforms That Use Snapshot Isolation", ICDE 2008), with
// the mix of H-Store. For the flags and reports see package fjord/bench.
package main

import (
	"os"

	"fjord/bench"
)

func main() { os.Exit(bench.Main(&bank{}, os.Args[1:], os.Stdout, os.Stderr)) }

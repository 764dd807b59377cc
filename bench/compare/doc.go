// Command compare runs the same SmallBank on several embedded engines, side by side, and prints
// committed transactions per second and how fjord stands to each.
//
// It is a module of its own, so that the peers stay out of the engine's go.mod. The README says how
// to read the figures, and what they do not say.
//
// The pieces, in the order of a run: bank.go holds the transactions and their inputs, engine.go what
// an engine has to offer, one file per engine its use in the way its makers recommend; cell.go
// measures one engine once, compare.go repeats that in interleaved rounds, report.go prints.
package main

//go:build race

package txn_test

// raceEnabled: the detector slows everything down, and allocates on its own.
const raceEnabled = true

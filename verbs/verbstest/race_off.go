//go:build !race

package verbstest

// raceEnabled: the detector slows everything down and allocates on its own.
const raceEnabled = false

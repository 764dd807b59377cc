//go:build race

package coord

// raceEnabled: the detector slows everything down, and allocates on its own.
const raceEnabled = true

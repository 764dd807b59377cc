//go:build !race

package flaws_test

const raceOn = false

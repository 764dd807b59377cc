// Package flaws_test shows, one by one, that the engine has none of the faults
// that FORD-like protocols are known for. Each test interleaves coordinators verb
// by verb over a scripted fabric (internal/script), and names the line that it
// guards. TestShuffle does the same at random.
package flaws_test

// Package house has no code. Its tests hold the rules that no package can hold
// alone: who may import whom, that the program in the README is one that is
// compiled and run, and that the documentation speaks of files, functions and
// tests that exist.
package house

// Command benchmarks makes the figures of docs/benchmarks.md. It runs SmallBank in
// the simulator, writes the tables into the document, and draws the plots beside
// itself:
//
//	go run .
//
// Every run is in virtual time and follows from its seed, so the figures are the
// same wherever they are made, as long as the code is.
package main

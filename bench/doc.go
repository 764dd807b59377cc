// Package bench is the harness of fjord's benchmarks: flags, run control,
// histograms, histories, reports. A benchmark implements Benchmark, and its main
// is one call of Main:
//
//	func main() { os.Exit(bench.Main(newBank(), os.Args[1:], os.Stdout, os.Stderr)) }
//
// # Order of a run
//
// Main parses the flags and opens every output file and the metrics address, so
// that a run never ends in a file that cannot be written. Run then opens the
// database, lets the benchmark load it, runs the warm-up, runs the measured part,
// and checks. Between two parts no transaction is in progress, so the verbs and
// the attempts of the measured part are exactly those of its transactions.
//
// # What is counted
//
// A transaction is one call of Client.Run; an attempt is one run of the function
// given to Worker.Update or Worker.View. Every attempt either commits or is
// aborted for one reason, so that always
//
//	attempted = committed + sum(aborted)
//
// The reasons are the engine's conflicts (locked, version, pending, insert),
// the benchmark's own rollbacks by their name (insufficient_funds), "unknown" (the
// outcome of the commit is not known), "cancelled" (a context ended it), and
// "error" (anything else; it also ends the run). An attempt that is rerun after a
// conflict counts as aborted, and its rerun as a further attempt.
//
// Latency is that of a whole transaction, reruns and their back-off included, and
// is kept for those transactions that committed: in nanoseconds, in one
// HdrHistogram per worker and type, of three digits (two with more than 256
// workers). These are merged at the end. Mean and maximum are exact. With
// --max-rate latency counts from the moment the transaction was due, unless the
// worker slept past that moment: waiting behind slow transactions is part of it (no
// coordinated omission), a late timer is not.
//
// # In the simulator
//
// With --provider sim the whole run, loading and checks included, is one of a
// sim.World: memory nodes on hosts of their own, coordinators spread over compute
// nodes that each have a database, all times virtual, and the same report from the
// same seed. What computes costs turnNS a turn. Result.Simulation has what every
// NIC counted in the measured part, and for how much of the time its stations were
// taken, so that one can say what bounds the throughput.
//
// # Who owns what
//
// A Worker, its Client and their buffers belong to one goroutine. All time is
// the database's Runtime.
package bench

// Package simtest is the simulation campaign: it runs the whole engine in verbs/sim,
// one world for each seed, and looks for anything that is lost, doubled or stuck.
//
//	res := simtest.Run(seed, simtest.Options{})
//	for _, f := range res.Failures { fmt.Println(f) }
//
// # A run
//
// From the seed follows a Setup: memory nodes, copies, coordinators and where they
// run, workers, sizes, strategies, the workload, and a plan of what goes wrong. A run
// of it has these phases:
//
//   - load: one coordinator makes the tables and fills them, undisturbed;
//   - safety: coordinators join, and their workers run transactions while the plan
//     strikes. Where one crashes, a new one joins in its place; the survivors recover
//     what it has left;
//   - liveness: World.Heal ends the plan, and within a bound of virtual time every
//     worker has to commit transactions, every outcome to be known, every dead
//     coordinator to be recovered, and every key to be free to lock;
//   - the verdict: all histories together are strictly serializable (internal/serial);
//     every value read is the one that the version's writer wrote; a coordinator that
//     joins last finds no lock, nothing pending, every sum valid, copies equal, and as
//     many records as there are keys; money is conserved, the ring intact.
//
// Outcomes that nobody was told are asked for with DB.Resolve. What a coordinator had
// in hand when it died is known from its posts, on which a run eavesdrops; where nobody
// can say what became of it, the checker tries both.
//
// # Failures
//
// The same seed gives the same run. A Result carries a hash that says so, the Setup,
// and Replay, the command that runs it again. Shrink looks for a smaller one that still
// fails.
package simtest

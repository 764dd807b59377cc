// Package serial decides whether a recorded history of transactions is strictly serializable, and if not,
// says in words why.
//
// Call ReadJSONL on the file that a benchmark wrote with --history (or fill a History in Go), then Check,
// then Explain of each Violation. The command is
//
//	go run ./internal/serial/check FILE...
//
// # Theory
//
// A history is strictly serializable if its committed transactions have one order in which each saw exactly
// what those before it left, and which agrees with real time: who ended before another began comes first
// (Papadimitriou, J. ACM 26(4), 1979; Herlihy and Wing, TOPLAS 12(3), 1990). To decide that from what clients
// saw is NP-complete in general, because the order in which the versions of a key were installed is not seen.
// fjord records it: each write names the version it replaced and the one it installed, and versions of a key
// only grow. What remains is Adya's direct serialization graph (A. Adya, Weak Consistency, MIT 1999; Adya,
// Liskov and O'Neil, ICDE 2000), built exactly:
//
//   - ww: T1 installed a version, T2 the next one of that key;
//   - wr: T1 installed the version that T2 read;
//   - rw: T1 read a version, T2 installed the next one;
//   - real time: T1 ended before T2 began. With a timeline of helper nodes these take O(n) edges, not O(n²).
//
// If versions are sound (no aborted, intermediate or unwritten version seen; every write replaced what was
// there), the history is strictly serializable exactly if the graph has no cycle. Components are found by
// Tarjan's algorithm, without recursion, and of each the worst class of cycle is told, as short as there is
// one: G0 (ww only), G1c (ww and wr), G-single (one rw), G2, and last those that need real time. The approach
// is that of Elle (Kingsbury and Alvaro, VLDB 2020), which has to infer what is recorded here.
//
// # Absence
//
// Version 0 says that a key was absent, not when. A key is absent before its first insert and behind each
// deletion, so such a read has a choice of absences; it follows the deletion that began its absence and
// precedes the insert that ended it. Real time leaves one in most cases. Of several, the graph may rule out
// all but one; what is left after that is searched, with backjumping, as the polygraphs of Cobra are (Tan,
// Zhao, Mu and Walfish, OSDI 2020). No edge is added that does not hold in every remaining case, so there are
// no false alarms. The search is complete, but for its bound of steps: then the Result says Undecided.
//
// A scan reads every key it lists, and reads as absent every other key of its range that the history
// knows of: that is how phantoms show. A scan may leave out what its own attempt had deleted before.
//
// # Initial versions
//
// One version of a key may have been loaded before the history begins: it is the one that the first recorded
// write replaced, or, of a key never written, the one version seen of it. Any other version that no recorded
// attempt wrote is a violation. It follows that a process that dies must not take its record with it: its last
// attempts belong in the history, as unknown.
//
// # Outcomes
//
// An aborted attempt's writes must never be seen, by anybody; a version that it planned may be issued again
// and committed by another. What it read need not be of one moment.
//
// An attempt of unknown outcome counts as committed if a committed one, or another that counts, read or
// replaced one of its versions, or if only its deletion explains an absence. Where several may explain what
// was seen, each is tried. Else it is left out, which can hide nothing: it was seen by nobody. It has no end
// in real time, since a recovery may settle it later.
//
// # What a recorder must write
//
// Reads are of the store: what an attempt saw before its own writes. Times are of one clock, begin taken
// before the first verb and end after the answer; a begin taken too early or an end too late hides violations,
// the contrary makes false ones. Attempts of one session do not overlap.
package serial

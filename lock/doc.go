// Package lock holds the lock word of a cell, the tokens that stand in it, and
// the strategies by which a transaction takes locks that others hold.
//
// A word is 0 when free, else the token of the transaction that holds it. It is
// taken by CAS(0→token) at the cell's primary and means something only there.
// The owner, and nobody else, frees it by writing 0; a word that may be somebody
// else's by now is only ever freed by CAS(seen token→0).
package lock

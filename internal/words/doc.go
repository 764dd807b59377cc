// Package words copies between private memory and memory that others read and
// write at the same time, as a NIC does: every aligned 8-byte word is read or
// written in one piece, and words in ascending order.
//
// Go's copy promises neither. sync/atomic promises more than is needed: on
// amd64 its stores are locked exchanges, eight of them for a cell of one cache
// line. There plain 8-byte moves are single-copy atomic and stay in order, so
// the amd64 build uses them, in assembly to keep the compiler from merging or
// reordering. All other builds, and -race, use sync/atomic.
package words

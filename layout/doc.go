// Package layout says what every byte in a memory node means. It is pure: functions over byte slices,
// no input or output, no clock, no state. Everything is little-endian, except the tuple keys of key.go,
// whose order is that of bytes.Compare.
//
// The formats are a contract between all coordinators and memory nodes of a cluster; LayoutVersion names
// the set of them, and the golden files in testdata hold every byte.
//
//	cell.go      the one format: lock, version, writer, sum, lengths, key, value in a 64-byte-aligned slot
//	addr.go      where a cell is: shard and offset
//	version.go   the version word with its pending and absent bits
//	sum.go       XXH64, whole and specialised to cells and log entries
//	hash.go      the hash of a key, which chooses its bucket
//	bucket.go    a hash bucket: one header cell and the record slots behind it
//	log.go       the undo log entry of one transaction at one memory node
//	region.go    the first page of a memory node's region
//	key.go       order-preserving encoding of tuples
//	catalog.go   the value of a catalog cell: a table's schema and place
//	freelist.go  the value of an allocation cursor: the free ranges of an extent
//	overflow.go  the value of an overflow cursor: the unused overflow buckets of a table
//
// # Order of calls
//
// A writer builds a cell in its own registered memory with EncodeCell (or puts key and value in place and
// calls SealCell) and WRITEs it from OffVersion on. A reader READs a slot, calls Verify, and only on Valid
// uses Key and Value. A Virgin slot was never written and stands for an absent cell of version 0; a Torn one
// is read again.
//
// # Memory
//
// Nothing here keeps a slice it was given, but for LogBuilder (until Finish) and LogEntry (as long as the
// caller keeps it). Key, Value and the images of a LogEntry are views of the caller's buffer: they change
// when it does. Encoders write into the caller's buffer and panic if it is too short, since its size follows
// from SlotSize, ImageSize, LogSize and the like. Decoders never panic, whatever the bytes. The accessors of
// cell.go are not decoders: they want a buffer that Verify called Valid or Virgin.
package layout

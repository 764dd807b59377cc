package layout

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// A log entry is the undo record of one transaction at one memory node. It lies in a slot of its session's;
// the slot is 64-byte-aligned, so token and state share a line.
//
//	0   token, u64
//	8   epoch, u64
//	16  state, u64: LogState
//	24  sum, u64
//	32  length of the entry, u32: a multiple of 8
//	36  cells of the transaction, u32
//	40  reserved, 24 bytes, zero
//	64  per cell: address u64, old version u64, new version u64, bytes of its old image u32: 0 if it is not kept here,
//	    and of its new one u32: 0 if that is not told
//	... the kept images, in the order of the list: cells from their offset 0, lock zero
//
// The sum is XXH64, seed 0, of token, epoch, the word of length and cells, a zero word, and the list. The state is
// outside, because it is overwritten in place by an 8-byte WRITE. So are the images: each carries its own sum,
// over its address and version among others, and the list says which these have to be. An image of version 0 is
// that of a cell never written, HeaderSize zeros, and takes no bytes.
const (
	LogOffToken  = 0
	LogOffEpoch  = 8
	LogOffState  = 16
	LogOffSum    = 24
	LogOffLength = 32
	LogOffCount  = 36

	// LogHeaderSize and LogCellSize are the bytes of the entry's fixed part, and of one cell in its list.
	LogHeaderSize = 64
	LogCellSize   = 32

	logOffReserved = 40

	// maxLogSize is the longest entry: one RDMA message, and its length fits the field.
	maxLogSize = math.MaxInt32 &^ 7
)

// LogState is the outcome of the transaction as far as the entry knows it.
type LogState uint64

// The states of a log entry.
const (
	LogOpen      LogState = 1 + iota // not settled: recovery judges by the cells
	LogCommitted                     // settled by recovery
	LogAborted                       // marked by the coordinator or by recovery
)

// String returns the name of the state.
func (s LogState) String() string {
	switch s {
	case LogOpen:
		return "open"
	case LogCommitted:
		return "committed"
	case LogAborted:
		return "aborted"
	}
	return fmt.Sprintf("LogState(%d)", uint64(s))
}

var (
	// ErrLogTooLarge: the entry does not fit into its slot. The same transaction will never fit; don't retry.
	ErrLogTooLarge = errors.New("layout: log entry too large for its slot")
	// ErrLogEmpty: the slot's header is all zero; it was never used.
	ErrLogEmpty = errors.New("layout: log slot is empty")
	// ErrLogCorrupt: the entry was not written whole, or the memory is rotten. It is wrapped with the reason.
	ErrLogCorrupt = errors.New("layout: log entry is corrupt")
)

// LogSize returns the bytes of an entry over this many cells, whose kept images, those of version 0 aside, have
// imageBytes bytes together. A transaction compares it with the slot before it writes anything.
func LogSize(cells, imageBytes int) int { return LogHeaderSize + cells*LogCellSize + imageBytes }

// LogBuilder writes a log entry into a caller's buffer: Begin, Add for every cell, Finish. It allocates nothing
// but for errors, never writes behind the buffer, and reports the first error at Finish. It is reused by Begin.
type LogBuilder struct {
	buf    []byte
	list   int // where the next cell goes
	images int // where the images begin, and the list ends
	n      int // where the next image goes
	err    error
}

// Begin starts an entry of this many cells in buf, forgetting any other.
func (l *LogBuilder) Begin(buf []byte, token, epoch uint64, cells int) {
	buf = buf[:min(len(buf), maxLogSize)]
	l.buf, l.list, l.images, l.err = buf, LogHeaderSize, LogHeaderSize, nil
	if len(buf) < LogHeaderSize || uint(cells) > uint(len(buf)-LogHeaderSize)/LogCellSize {
		l.n, l.err = 0, ErrLogTooLarge
		return
	}
	h := buf[:LogHeaderSize]
	binary.LittleEndian.PutUint64(h[LogOffToken:], token)
	binary.LittleEndian.PutUint64(h[LogOffEpoch:], epoch)
	binary.LittleEndian.PutUint64(h[LogOffState:], uint64(LogOpen))
	l.images += cells * LogCellSize
	l.n = l.images
}

// Add appends a cell, and its old image unless that is nil. The image begins at the cell's offset 0 and is a
// multiple of 8 bytes, HeaderSize at least; it is one that Verify finds valid, or virgin if old is 0, and has the
// version old. Its lock is not kept.
func (l *LogBuilder) Add(addr Addr, old, new Version, image []byte) {
	if l.list == l.images {
		l.refuse(errLogCells)
		return
	}
	c := l.buf[l.list:][:LogCellSize]
	binary.LittleEndian.PutUint64(c[0:], uint64(addr))
	binary.LittleEndian.PutUint64(c[8:], uint64(old))
	binary.LittleEndian.PutUint64(c[16:], uint64(new))
	binary.LittleEndian.PutUint64(c[24:], uint64(len(image))) // 31 bits: the new length comes with Covers
	l.list += LogCellSize
	if len(image) == 0 || old == 0 {
		return
	}
	if len(image) < HeaderSize || len(image)%8 != 0 {
		l.refuse(fmt.Errorf("layout: log: image of %d bytes, want a multiple of 8 from %d on", len(image), HeaderSize))
		return
	}
	if len(l.buf)-l.n < len(image) {
		l.refuse(ErrLogTooLarge)
		return
	}
	b := l.buf[l.n:][:len(image)]
	binary.LittleEndian.PutUint64(b[OffLock:], 0)
	copy(b[OffVersion:], image[OffVersion:])
	l.n += len(b)
}

// Covers says how many bytes the new image of the cell added last has, from its offset 0: who undoes the change
// must know how far it may have reached beyond the old image.
func (l *LogBuilder) Covers(n int) {
	if l.list > LogHeaderSize && l.list <= len(l.buf) {
		binary.LittleEndian.PutUint32(l.buf[l.list-4:], uint32(n))
	}
}

func (l *LogBuilder) refuse(err error) {
	if l.err == nil {
		l.err = err
	}
}

var errLogCells = errors.New("layout: log: not as many cells as were announced")

// Finish completes the entry and returns its length, or the first error; then the buffer holds no entry.
// ErrLogTooLarge is the only error of a correct caller.
func (l *LogBuilder) Finish() (n int, err error) {
	if l.list != l.images {
		l.refuse(errLogCells)
	}
	if l.err != nil {
		return 0, l.err
	}
	b := l.buf[:l.n]
	h := b[:LogHeaderSize]
	cells := uint64(l.images-LogHeaderSize) / LogCellSize
	binary.LittleEndian.PutUint64(h[LogOffLength:], uint64(l.n)|cells<<32) // length and cells in one word
	binary.LittleEndian.PutUint64(h[logOffReserved:], 0)
	binary.LittleEndian.PutUint64(h[logOffReserved+8:], 0)
	binary.LittleEndian.PutUint64(h[logOffReserved+16:], 0)
	binary.LittleEndian.PutUint64(h[LogOffSum:], logSum(b, l.images))
	return l.n, nil
}

// logSum is the sum of an entry in b whose list ends at an offset.
func logSum(b []byte, end int) uint64 {
	h := b[:LogHeaderSize]
	return framedSum(
		binary.LittleEndian.Uint64(h[LogOffToken:]),
		binary.LittleEndian.Uint64(h[LogOffEpoch:]),
		binary.LittleEndian.Uint64(h[LogOffLength:]),
		binary.LittleEndian.Uint64(h[logOffReserved:]),
		b[LogHeaderSize:end])
}

// LogEntry is a decoded entry. It is a view of the buffer it was decoded from.
type LogEntry struct {
	Token uint64
	Epoch uint64
	State LogState

	size   int
	cells  []byte
	images []byte
	kept   int
}

// LogCell is one cell of an entry's list.
type LogCell struct {
	Addr Addr
	Old  Version // before the transaction
	New  Version // after it, without Pending
}

// Size returns the bytes of the entry.
func (e *LogEntry) Size() int { return e.size }

// Cells returns the number of cells of the transaction.
func (e *LogEntry) Cells() int { return len(e.cells) / LogCellSize }

// Cell returns the cell at index i of the list.
func (e *LogEntry) Cell(i int) LogCell {
	c, _ := e.at(i)
	return c
}

// at returns a cell, and the bytes of its kept image.
func (e *LogEntry) at(i int) (LogCell, uint64) {
	b := e.cells[i*LogCellSize:][:LogCellSize]
	return LogCell{
		Addr: Addr(binary.LittleEndian.Uint64(b[0:])),
		Old:  Version(binary.LittleEndian.Uint64(b[8:])),
		New:  Version(binary.LittleEndian.Uint64(b[16:])),
	}, uint64(binary.LittleEndian.Uint32(b[24:]))
}

// Covered returns the bytes of the new image of the cell at index i of the list, 0 if that is not told.
func (e *LogEntry) Covered(i int) int {
	return int(binary.LittleEndian.Uint32(e.cells[i*LogCellSize+LogCellSize-4:]))
}

// ImageCount returns the number of old images that are kept in this entry.
func (e *LogEntry) ImageCount() int { return e.kept }

// virgin is the image of a cell that was never written.
var virgin [HeaderSize]byte

// Images calls yield with every kept image and the index of its cell, in the order of the list, until
// yield returns false. It is an iterator: for i, image := range e.Images.
func (e *LogEntry) Images(yield func(cell int, image []byte) bool) {
	rest := e.images
	for i := range e.Cells() {
		c, n := e.at(i)
		if n == 0 {
			continue
		}
		image := virgin[:]
		if c.Old != 0 {
			image, rest = rest[:n:n], rest[n:]
		}
		if !yield(i, image) {
			return
		}
	}
}

// DecodeLog reads the entry at the start of b, which may be longer, as a slot is. It returns ErrLogEmpty for
// a slot never used, and an error that wraps ErrLogCorrupt, with the reason, for anything but a whole entry.
// A slot that a shorter entry was written to, over a longer one, holds the shorter.
func DecodeLog(b []byte) (LogEntry, error) {
	if len(b) < LogHeaderSize {
		return LogEntry{}, corruptLog("%d bytes, a header has %d", len(b), LogHeaderSize)
	}
	h := b[:LogHeaderSize]
	if allZero(h) {
		return LogEntry{}, ErrLogEmpty
	}
	length := uint64(binary.LittleEndian.Uint32(h[LogOffLength:]))
	cells := uint64(binary.LittleEndian.Uint32(h[LogOffCount:]))
	if length < LogHeaderSize || length%8 != 0 || length > uint64(len(b)) {
		return LogEntry{}, corruptLog("length is %d, want a multiple of 8 from %d to %d", length, LogHeaderSize, len(b))
	}
	end := LogHeaderSize + cells*LogCellSize
	if end > length {
		return LogEntry{}, corruptLog("%d cells in an entry of %d bytes", cells, length)
	}
	b = b[:length:length]
	if got, want := binary.LittleEndian.Uint64(h[LogOffSum:]), logSum(b, int(end)); got != want {
		return LogEntry{}, corruptLog("sum is %#x, the bytes have %#x", got, want)
	}
	if !allZero(h[logOffReserved:]) {
		return LogEntry{}, corruptLog("reserved bytes are not zero")
	}
	e := LogEntry{
		Token:  binary.LittleEndian.Uint64(h[LogOffToken:]),
		Epoch:  binary.LittleEndian.Uint64(h[LogOffEpoch:]),
		State:  LogState(binary.LittleEndian.Uint64(h[LogOffState:])),
		size:   int(length),
		cells:  b[LogHeaderSize:end:end],
		images: b[end:],
	}
	switch e.State {
	case LogOpen, LogCommitted, LogAborted:
	default:
		return LogEntry{}, corruptLog("state is %d, want open (1), committed (2) or aborted (3)", uint64(e.State))
	}
	rest := e.images
	for i := range e.Cells() {
		c, n := e.at(i)
		if n == 0 {
			continue
		}
		e.kept++
		if c.Old == 0 {
			if n != HeaderSize {
				return LogEntry{}, corruptLog("the image of cell %d, never written, has %d bytes, want %d", i, n, HeaderSize)
			}
			continue
		}
		if n > uint64(len(rest)) {
			return LogEntry{}, corruptLog("the image of cell %d has %d bytes, %d are left", i, n, len(rest))
		}
		image := rest[:n:n]
		if Verify(image, c.Addr, len(image)) != Valid || n != uint64(ImageLen(image)) {
			return LogEntry{}, corruptLog("the image of cell %d, %v, was not sealed for it", i, c.Addr)
		}
		if v := CellVersion(image); v != c.Old {
			return LogEntry{}, corruptLog("the image of cell %d has version %v, want %v", i, v, c.Old)
		}
		if Lock(image) != 0 {
			return LogEntry{}, corruptLog("the image of cell %d has a lock", i)
		}
		rest = rest[n:]
	}
	if len(rest) != 0 {
		return LogEntry{}, corruptLog("%d bytes behind the last image", len(rest))
	}
	return e, nil
}

func corruptLog(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrLogCorrupt}, args...)...)
}

func allZero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}

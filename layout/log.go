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
//	40  images kept here, u32
//	44  reserved, 20 bytes, zero
//	64  per cell: address u64, old version u64, new version u64
//	... per image: index of its cell u32, length u32 (a multiple of 8), the cell from its offset 0, lock zero
//
// The sum is XXH64, seed 0, of the entry without its state and sum words. The state is outside, because it
// is overwritten in place by an 8-byte WRITE.
const (
	LogOffToken  = 0
	LogOffEpoch  = 8
	LogOffState  = 16
	LogOffSum    = 24
	LogOffLength = 32
	LogOffCount  = 36
	LogOffImages = 40

	// LogHeaderSize, LogCellSize and LogImageHeader are the bytes of the entry's fixed part, of one cell in
	// its list, and of what precedes an image.
	LogHeaderSize  = 64
	LogCellSize    = 24
	LogImageHeader = 8

	logOffReserved = 44
	logOffBody     = 48 // what the sum takes as its body; the words before it are its first stripe

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

// LogSize returns the bytes of an entry over this many cells, with this many images that together have
// imageBytes bytes. A transaction compares it with the slot before it writes anything.
func LogSize(cells, images, imageBytes int) int {
	return LogHeaderSize + cells*LogCellSize + images*LogImageHeader + imageBytes
}

// LogBuilder writes a log entry into a caller's buffer: Begin, then for every cell Add, or AddCell if its image
// is not kept at the node, then Finish. It allocates nothing but for errors, never writes behind the buffer,
// and reports the first error at Finish. It is reused by Begin.
type LogBuilder struct {
	buf    []byte
	list   int // where the next cell goes
	images int // where the images begin, and the list ends
	n      int // where the next image goes
	kept   uint64
	err    error
}

// Begin starts an entry of this many cells in buf, forgetting any other.
func (l *LogBuilder) Begin(buf []byte, token, epoch uint64, cells int) {
	buf = buf[:min(len(buf), maxLogSize)]
	l.buf, l.list, l.images, l.kept, l.err = buf, LogHeaderSize, LogHeaderSize, 0, nil
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

// AddCell appends a cell to the list.
func (l *LogBuilder) AddCell(addr Addr, old, new Version) {
	if l.list == l.images {
		l.refuse(errLogCells)
		return
	}
	b := l.buf[l.list:][:LogCellSize]
	binary.LittleEndian.PutUint64(b[0:], uint64(addr))
	binary.LittleEndian.PutUint64(b[8:], uint64(old))
	binary.LittleEndian.PutUint64(b[16:], uint64(new))
	l.list += LogCellSize
}

// Add appends a cell and its old image. That begins at the cell's offset 0 and is a multiple of 8 bytes,
// HeaderSize at least (a virgin cell is HeaderSize zeros); its lock is not kept.
func (l *LogBuilder) Add(addr Addr, old, new Version, image []byte) {
	switch {
	case l.err != nil:
	case l.list == l.images:
		l.err = errLogCells
	case len(image) < HeaderSize || len(image)%8 != 0:
		l.err = fmt.Errorf("layout: log: image of %d bytes, want a multiple of 8 from %d on", len(image), HeaderSize)
	case len(l.buf)-l.n < LogImageHeader+len(image):
		l.err = ErrLogTooLarge
	default:
		c := l.buf[l.list:][:LogCellSize]
		binary.LittleEndian.PutUint64(c[0:], uint64(addr))
		binary.LittleEndian.PutUint64(c[8:], uint64(old))
		binary.LittleEndian.PutUint64(c[16:], uint64(new))
		b := l.buf[l.n:][:LogImageHeader+len(image)]
		// Index and length in one word.
		binary.LittleEndian.PutUint64(b, uint64(l.list-LogHeaderSize)/LogCellSize|uint64(len(image))<<32)
		binary.LittleEndian.PutUint64(b[LogImageHeader+OffLock:], 0)
		copy(b[LogImageHeader+OffVersion:], image[OffVersion:])
		l.list += LogCellSize
		l.n += len(b)
		l.kept++
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
	binary.LittleEndian.PutUint64(h[LogOffLength:], uint64(l.n)|cells<<32) // two lengths in one word
	binary.LittleEndian.PutUint64(h[LogOffImages:], l.kept)
	binary.LittleEndian.PutUint64(h[logOffBody:], 0)
	binary.LittleEndian.PutUint64(h[logOffBody+8:], 0)
	binary.LittleEndian.PutUint64(h[LogOffSum:], logSum(b))
	return l.n, nil
}

// logSum is the sum of the entry that fills b: at least LogHeaderSize bytes, a multiple of 8.
func logSum(b []byte) uint64 {
	h := b[:LogHeaderSize]
	return framedSum(
		binary.LittleEndian.Uint64(h[LogOffToken:]),
		binary.LittleEndian.Uint64(h[LogOffEpoch:]),
		binary.LittleEndian.Uint64(h[LogOffLength:]),
		binary.LittleEndian.Uint64(h[LogOffImages:]),
		b[logOffBody:])
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
	b := e.cells[i*LogCellSize:][:LogCellSize]
	return LogCell{
		Addr: Addr(binary.LittleEndian.Uint64(b[0:])),
		Old:  Version(binary.LittleEndian.Uint64(b[8:])),
		New:  Version(binary.LittleEndian.Uint64(b[16:])),
	}
}

// ImageCount returns the number of old images that are kept in this entry.
func (e *LogEntry) ImageCount() int { return e.kept }

// Images calls yield with every kept image and the index of its cell, in the order they were added, until
// yield returns false. It is an iterator: for i, image := range e.Images.
func (e *LogEntry) Images(yield func(cell int, image []byte) bool) {
	for b := e.images; len(b) >= LogImageHeader; {
		i := binary.LittleEndian.Uint32(b[0:])
		end := LogImageHeader + int(binary.LittleEndian.Uint32(b[4:]))
		if !yield(int(i), b[LogImageHeader:end:end]) {
			return
		}
		b = b[end:]
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
	kept := uint64(binary.LittleEndian.Uint32(h[LogOffImages:]))
	if length < LogHeaderSize || length%8 != 0 || length > uint64(len(b)) {
		return LogEntry{}, corruptLog("length is %d, want a multiple of 8 from %d to %d", length, LogHeaderSize, len(b))
	}
	b = b[:length:length]
	if got, want := binary.LittleEndian.Uint64(h[LogOffSum:]), logSum(b); got != want {
		return LogEntry{}, corruptLog("sum is %#x, the bytes have %#x", got, want)
	}
	// The sum holds: what follows was written by a faulty or newer builder, not torn.
	if !allZero(h[logOffReserved:]) {
		return LogEntry{}, corruptLog("reserved bytes are not zero")
	}
	e := LogEntry{
		Token: binary.LittleEndian.Uint64(h[LogOffToken:]),
		Epoch: binary.LittleEndian.Uint64(h[LogOffEpoch:]),
		State: LogState(binary.LittleEndian.Uint64(h[LogOffState:])),
		size:  int(length),
		kept:  int(kept),
	}
	switch e.State {
	case LogOpen, LogCommitted, LogAborted:
	default:
		return LogEntry{}, corruptLog("state is %d, want open (1), committed (2) or aborted (3)", uint64(e.State))
	}
	end := LogHeaderSize + cells*LogCellSize
	if end > length {
		return LogEntry{}, corruptLog("%d cells in an entry of %d bytes", cells, length)
	}
	e.cells = b[LogHeaderSize:end:end]
	e.images = b[end:]
	rest := e.images
	for i := range kept {
		if len(rest) < LogImageHeader {
			return LogEntry{}, corruptLog("image %d of %d is missing", i, kept)
		}
		index := uint64(binary.LittleEndian.Uint32(rest[0:]))
		n := uint64(binary.LittleEndian.Uint32(rest[4:]))
		rest = rest[LogImageHeader:]
		if index >= cells {
			return LogEntry{}, corruptLog("image %d is of cell %d, the entry has %d cells", i, index, cells)
		}
		if n < HeaderSize || n%8 != 0 || n > uint64(len(rest)) {
			return LogEntry{}, corruptLog("image %d has length %d, want a multiple of 8 from %d to %d", i, n, HeaderSize, len(rest))
		}
		if binary.LittleEndian.Uint64(rest[OffLock:]) != 0 {
			return LogEntry{}, corruptLog("image %d has a lock", i)
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

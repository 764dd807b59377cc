package script

import (
	"fmt"

	"fjord/layout"
	"fjord/verbs"
)

// Op is a request on its way.
type Op struct {
	By     string // task that posted it; "" is the test's goroutine
	Coord  int    // its coordinator, by order of creation
	Node   int    // memory node it goes to
	Opcode verbs.Opcode
	Off    uint64 // in the node's region
	Len    int
	Swap   uint64 // CAS: what it puts there

	q        *wire
	seq      uint64
	wr       verbs.SendWR // with an SGL of its own
	payload  []byte       // inline
	begun    bool
	executed bool
	judged   bool
	held     *Rule
	after    *Rule   // what holds or strikes it once it has executed
	pieces   []piece // to execute, in this order
	stop     int     // pieces to execute before it is held; 0: none
}

// piece is a range of an op's bytes.
type piece struct{ from, to int }

// Place is a range of a node's region.
type Place struct {
	Node int
	Off  uint64
	Len  int
}

// Overlaps tells whether two ranges have a byte in common.
func (p Place) Overlaps(o Place) bool {
	return p.Node == o.Node && p.Off < o.Off+uint64(o.Len) && o.Off < p.Off+uint64(p.Len)
}

// Place returns where the request reads or writes.
func (o *Op) Place() Place { return Place{o.Node, o.Off, o.Len} }

// On tells whether the request has that opcode and touches that place.
func (o *Op) On(code verbs.Opcode, p Place) bool { return o.Opcode == code && o.Place().Overlaps(p) }

// InLog tells whether the request goes to the log area of its node.
func (o *Op) InLog() bool {
	h := &o.q.w.Layout.Header
	return o.Len > 0 && o.Off >= h.LogOffset && o.Off < h.LogOffset+h.LogBytes()
}

// InExtents tells whether the request goes to cells.
func (o *Op) InExtents() bool { return o.Len > 0 && o.Off >= o.q.w.Layout.Header.ExtentOffset }

// Executed tells whether it has executed.
func (o *Op) Executed() bool { return o.executed }

// String tells who does what where.
func (o *Op) String() string {
	by := o.By
	if by == "" {
		by = "test"
	}
	s := fmt.Sprintf("%s's %v of %d bytes at memory-%d", by, o.Opcode, o.Len, o.Node)
	l := o.q.w.Layout
	switch {
	case l == nil || !o.InExtents():
		s += fmt.Sprintf("+%#x", o.Off)
		if l != nil && o.InLog() {
			s += " (log)"
		}
	default:
		for shard := range l.Shards {
			for _, n := range l.Shards[shard].Replicas {
				if off := o.Off - l.ExtentOffset(shard); n == o.Node && off < l.Header.ExtentSize {
					s += fmt.Sprintf(" %v", layout.MakeAddr(uint16(shard), off))
				}
			}
		}
	}
	if o.executed {
		s += ", executed"
	} else if o.begun {
		s += ", executed in part"
	}
	return s
}

// At returns the place of a cell's bytes at its i-th replica: 0 is the primary.
func (w *World) At(a layout.Addr, replica, off, n int) Place {
	s := int(a.Shard())
	return Place{w.Layout.Shards[s].Replicas[replica], w.Layout.ExtentOffset(s) + a.Offset() + uint64(off), n}
}

// Lock, Version and Image are the parts of a cell at its primary that scripts
// are about: its lock word, its version word, and all from the version on.
func (w *World) Lock(a layout.Addr) Place { return w.At(a, 0, layout.OffLock, 8) }

// Version is the place of the version word at the primary.
func (w *World) Version(a layout.Addr) Place { return w.At(a, 0, layout.OffVersion, 8) }

// Image is the place of a cell's header at the primary, behind lock and version.
func (w *World) Image(a layout.Addr) Place {
	return w.At(a, 0, layout.OffWriter, layout.HeaderSize-layout.OffWriter)
}

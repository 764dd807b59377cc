package simtest

import (
	"encoding/binary"
	"slices"

	"fjord/internal/serial"
	"fjord/layout"
	"fjord/lock"
	"fjord/txn"
	"fjord/verbs"
)

// flight is a transaction whose log entry was posted and that has not ended: if its
// coordinator dies, this is all that is known of it.
type flight struct {
	begin int64
	cells []flightCell
}

type flightCell struct {
	addr     layout.Addr
	old, new layout.Version
	key      string // "" as long as none was seen
}

// overhear looks at a WRITE that a coordinator is about to post.
func (c *life) overhear(wr *verbs.SendWR) {
	l := c.run.layout
	for node := range l.Nodes {
		off := wr.RemoteAddr - l.Nodes[node].Base
		if off >= l.Header.RegionSize {
			continue
		}
		switch {
		case off >= l.Header.LogOffset && off < l.Header.ExtentOffset:
			c.overhearLog(payload(wr.SGL))
		case off >= l.Header.ExtentOffset && c.keyless > 0:
			c.overhearCell(node, off, wr.SGL)
		}
		return
	}
}

// overhearLog notes a log entry.
func (c *life) overhearLog(b []byte) {
	if len(b) < layout.LogHeaderSize {
		return
	}
	id := txn.ID(binary.LittleEndian.Uint64(b[layout.LogOffToken:]))
	f := c.flights[id]
	if _, told := c.run.history.index[id]; told || f != nil && f.named() {
		return // told: Resolve goes on with it
	}
	e, err := layout.DecodeLog(b)
	if err != nil || e.State != layout.LogOpen {
		return
	}
	if f == nil {
		f = &flight{begin: c.run.world.Now()}
		for i := range e.Cells() {
			x := e.Cell(i)
			f.cells = append(f.cells, flightCell{addr: x.Addr, old: x.Old, new: x.New})
		}
		c.keyless += len(f.cells)
		c.flights[id] = f
	}
	for i, img := range e.Images { // each node is sent those that it has copies of
		if x := &f.cells[i]; x.key == "" && len(img) > 0 && layout.CellKind(img) == layout.KindRecord && layout.KeyLen(img) > 0 {
			x.key = string(layout.Key(img))
			c.keyless--
		}
	}
}

// named tells whether all keys are known.
func (f *flight) named() bool {
	return !slices.ContainsFunc(f.cells, func(x flightCell) bool { return x.key == "" })
}

// overhearCell looks for the keys of records that were not there before.
func (c *life) overhearCell(node int, off uint64, sgl []verbs.SGE) {
	l := c.run.layout
	for shard := range l.Shards {
		if l.Shards[shard].Replicas[0] != node {
			continue
		}
		at := off - layout.OffVersion - l.ExtentOffset(shard)
		if at >= l.Header.ExtentSize || at%layout.CellAlign != 0 {
			continue
		}
		b := payload(sgl)
		if len(b) < layout.HeaderSize-layout.OffVersion {
			return
		}
		img := append(make([]byte, layout.OffVersion), b...)
		if layout.CellKind(img) != layout.KindRecord || layout.KeyLen(img) == 0 {
			return
		}
		f := c.flights[lock.Token(layout.Writer(img))]
		if f == nil {
			return
		}
		for i := range f.cells {
			if x := &f.cells[i]; x.key == "" && x.addr == layout.MakeAddr(uint16(shard), at) {
				x.key = string(layout.Key(img))
				c.keyless--
			}
		}
		return
	}
}

// ended forgets a transaction of which all is known.
func (c *life) ended(id txn.ID) {
	f := c.flights[id]
	if f == nil {
		return
	}
	for i := range f.cells {
		if f.cells[i].key == "" {
			c.keyless--
		}
	}
	delete(c.flights, id)
	c.logged = append(c.logged, id)
	c.logged = c.logged[max(0, len(c.logged)-maxLogged):]
}

// maxLogged is how many transactions that have ended are remembered of a coordinator:
// more than it has log slots.
const maxLogged = 24

// attempt makes an attempt of unknown outcome of a flight.
func (f *flight) attempt(id txn.ID) serial.Attempt {
	a := serial.Attempt{ID: id.String(), Session: "dead " + id.String(), Type: "died", Begin: f.begin, End: f.begin, Outcome: serial.Unknown, Reason: "coordinator died"}
	for _, x := range f.cells {
		table := tableOf(x.key)
		if table == "" {
			continue
		}
		w := serial.Write{Table: table, Key: x.key, Version: x.new.Counter(), Delete: x.new.IsAbsent()}
		if !x.old.IsAbsent() {
			w.Prev = x.old.Counter()
		}
		a.Writes = append(a.Writes, w)
	}
	return a
}

package coord

import (
	"cmp"
	"errors"
	"slices"

	"fjord/layout"
	"fjord/lock"
)

// readLogs reads the log areas of the dead coordinator at all nodes. What is no whole
// entry of its own is left out: a WRITE that was cut, remains of those who had the place
// before, rotten memory.
func (r *recovery) readLogs() ([]*entry, error) {
	known := make(map[lock.Token]*entry)
	if r.Place < 0 {
		return nil, nil
	}
	for node := range r.c.layout.Nodes {
		slots, err := r.readHeaders(node)
		if err != nil {
			return nil, err
		}
		for _, x := range slots {
			if err := r.ctx.Err(); err != nil {
				return nil, err
			}
			if err := r.readEntry(node, x, known); err != nil {
				return nil, err
			}
		}
	}
	all := make([]*entry, 0, len(known))
	for _, e := range known {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Compare(a.token, b.token) })
	return all, nil
}

// slotAt is a slot whose header looks like that of an entry.
type slotAt struct {
	va   uint64
	size int
}

// headerChunk is how many headers are read in one round trip.
const headerChunk = 256

// readHeaders reads the headers of the log area at a node, and returns the slots that may
// hold an entry of the dead coordinator.
func (r *recovery) readHeaders(node int) (slots []slotAt, err error) {
	l := r.c.layout
	first := l.Nodes[node].Base + l.Header.LogSlotAt(r.Place, 0, 0)
	total := int(l.Header.Sessions) * int(l.Header.LogSlots)
	for from := 0; from < total; from += headerChunk {
		n := min(headerChunk, total-from)
		r.s.Reset()
		b, ok := r.s.Alloc(n * layout.LogHeaderSize)
		if !ok {
			return nil, errNoLocal
		}
		for i := range n {
			r.s.Read(node, first+uint64(from+i)*l.Header.LogSlotSize, b.Slice(i*layout.LogHeaderSize, (i+1)*layout.LogHeaderSize))
		}
		if err := r.s.round(); err != nil {
			return nil, err
		}
		for i := range n {
			at := i * layout.LogHeaderSize
			if lock.Token(b.Word(at+layout.LogOffToken)).Coordinator() != r.ID {
				continue
			}
			size := b.Word(at+layout.LogOffLength) & (1<<32 - 1)
			if size < layout.LogHeaderSize || size%8 != 0 || size > l.Header.LogSlotSize {
				r.Rejected++
				continue
			}
			slots = append(slots, slotAt{first + uint64(from+i)*l.Header.LogSlotSize, int(size)})
		}
	}
	return slots, nil
}

// readEntry reads an entry and adds it to what is known of its transaction.
func (r *recovery) readEntry(node int, x slotAt, known map[lock.Token]*entry) error {
	r.s.Reset()
	b, ok := r.s.Alloc(x.size)
	if !ok {
		return errNoLocal
	}
	r.s.Read(node, x.va, b)
	if err := r.s.round(); err != nil {
		return err
	}
	l, err := layout.DecodeLog(slices.Clone(b.B()))
	if err != nil && !errors.Is(err, layout.ErrLogCorrupt) && !errors.Is(err, layout.ErrLogEmpty) {
		return err
	}
	if err != nil || !r.sane(&l) {
		r.Rejected++
		return nil
	}
	t := lock.Token(l.Token)
	e := known[t]
	if e == nil {
		e = &entry{token: t}
		for i := range l.Cells() {
			e.cells = append(e.cells, logCell{LogCell: l.Cell(i), covered: l.Covered(i)})
		}
		known[t] = e
	} else if !e.same(&l) {
		r.Rejected++ // one token, two transactions: there is no such thing
		return nil
	}
	for i, img := range l.Images {
		if c := &e.cells[i]; c.old == nil && r.c.Holds(node, c.Addr.Shard()) {
			c.old = img
		}
	}
	e.copies = append(e.copies, copyOf{node, x.va, l.State})
	return nil
}

// sane tells whether an entry, whose sum holds, is about cells that there are.
func (r *recovery) sane(l *layout.LogEntry) bool {
	h := &r.c.layout.Header
	for i := range l.Cells() {
		c := l.Cell(i)
		if int(c.Addr.Shard()) >= len(r.c.shards) || c.Addr.Offset()%layout.CellAlign != 0 || c.Addr.Offset() >= h.ExtentSize ||
			l.Covered(i) > r.longest(c.Addr) || c.New.IsPending() || c.New.Counter() <= c.Old.Counter() {
			return false
		}
	}
	for i, img := range l.Images {
		if len(img) > r.longest(l.Cell(i).Addr) {
			return false
		}
	}
	return true
}

// same tells whether a node's entry is about the same changes.
func (e *entry) same(l *layout.LogEntry) bool {
	if len(e.cells) != l.Cells() {
		return false
	}
	for i := range e.cells {
		if e.cells[i].LogCell != l.Cell(i) {
			return false
		}
	}
	return true
}

// inOrder returns entries so that, of those that share a cell, the one with the higher
// new version comes first: an older one is judged on repaired images.
func inOrder(all []*entry) []*entry {
	type use struct {
		e *entry
		v uint64
	}
	users := make(map[layout.Addr][]use)
	for _, e := range all {
		for i := range e.cells {
			c := &e.cells[i]
			users[c.Addr] = append(users[c.Addr], use{e, c.New.Counter()})
		}
	}
	before := make(map[*entry]int)      // how many have to come first
	behind := make(map[*entry][]*entry) // who waits for it
	for _, list := range users {
		slices.SortStableFunc(list, func(a, b use) int {
			return cmp.Or(cmp.Compare(b.v, a.v), cmp.Compare(b.e.token, a.e.token))
		})
		for i := 1; i < len(list); i++ {
			if a, b := list[i-1].e, list[i].e; a != b {
				behind[a] = append(behind[a], b)
				before[b]++
			}
		}
	}
	out := make([]*entry, 0, len(all))
	rest := slices.Clone(all)
	for len(rest) > 0 {
		// None is free only if entries contradict each other; then any order is as good.
		i := max(0, slices.IndexFunc(rest, func(e *entry) bool { return before[e] <= 0 }))
		e := rest[i]
		rest = slices.Delete(rest, i, i+1)
		out = append(out, e)
		for _, b := range behind[e] {
			before[b]--
		}
	}
	return out
}

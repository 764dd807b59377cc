package coord

import (
	"fjord/layout"
	"fjord/lock"
)

// look is what recovery finds of one copy of a cell.
type look struct {
	lock    uint64
	version layout.Version
	writer  uint64
	whole   bool // the sum holds, or it is virgin
}

// applied tells whether the copy has what a transaction wrote, or something newer. A
// version alone does not tell: a WRITE that was cut may have left it over the rest of
// the old image.
func (k *look) applied(c *logCell, t lock.Token) bool {
	v := k.version.WithoutPending()
	return v.Counter() > c.New.Counter() || v == c.New && k.writer == uint64(t) && k.whole
}

// lookChunk is how many cells are looked at in one round trip.
const lookChunk = 64

// lookAt reads every copy of every cell of an entry, the primary's first.
func (r *recovery) lookAt(e *entry) ([][]look, error) {
	all := make([][]look, 0, len(e.cells))
	for from := 0; from < len(e.cells); from += lookChunk {
		some, err := r.lookSome(e.cells[from:min(from+lookChunk, len(e.cells))])
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// lookSome reads the first line of every copy, which says how long the image is, and
// then the images.
func (r *recovery) lookSome(cells []logCell) ([][]look, error) {
	r.s.Reset()
	lines := make([][]Buf, len(cells))
	for i := range cells {
		a := cells[i].Addr
		for j := range r.c.Replicas(a.Shard()) {
			b, ok := r.s.Alloc(layout.CellAlign)
			if !ok {
				return nil, errNoLocal
			}
			lines[i] = append(lines[i], b)
			node, va := r.c.Replica(a, j)
			r.s.Read(node, va, b)
		}
	}
	if err := r.s.round(); err != nil {
		return nil, err
	}
	out := make([][]look, len(cells))
	for i := range cells {
		for j, line := range lines[i] {
			k, err := r.lookBehind(cells[i].Addr, j, line)
			if err != nil {
				return nil, err
			}
			out[i] = append(out[i], k)
		}
	}
	return out, nil
}

// lookBehind judges the copy of a cell whose first line was read.
func (r *recovery) lookBehind(a layout.Addr, replica int, line Buf) (look, error) {
	b := line.B()
	h := layout.ReadHeader(b)
	k := look{lock: h.Lock, version: h.Version, writer: h.Writer}
	n := layout.ImageLen(b)
	switch {
	case n <= len(b):
		k.whole = layout.Verify(b, a, len(b)) != layout.Torn
		return k, nil
	case n > r.longest(a):
		return k, nil // no such image fits: the header is torn
	}
	img, ok := r.s.Alloc(n)
	if !ok {
		return k, errNoLocal
	}
	node, va := r.c.Replica(a, replica)
	r.s.Read(node, va, img)
	if err := r.s.round(); err != nil {
		return k, err
	}
	// Nobody has changed it since the first line was read: it is locked, or another has
	// it by now, and then the lock has told.
	k.whole = layout.Verify(img.B(), a, n) == layout.Valid
	return k, nil
}

// longest bounds the image of a cell: by the end of its extent, and by the log slot,
// for a cell that does not fit there could not be changed.
func (r *recovery) longest(a layout.Addr) int {
	h := &r.c.layout.Header
	return int(min(h.ExtentSize-a.Offset(), h.LogSlotSize))
}

package sim

import (
	"slices"

	"fjord/verbs"
)

// piece is a range of a request's bytes that moves at one instant.
type piece struct{ from, to uint32 }

// lineSize is what words ascend within.
const lineSize = 64

// steps is how many instants a request's accesses are spread over, at most.
const steps = 24

// cut cuts packets from to end of a request into pieces: the lines that it touches,
// in any order, one of them perhaps in two. It returns how long they take.
func (c *conn) cut(w *World, r *request, from, end uint32) int64 {
	r.pieces, r.piece, r.partial = r.pieces[:0], 0, end < r.packets
	if r.refused != verbs.StatusSuccess || r.length == 0 || r.opcode != verbs.OpRead && r.opcode != verbs.OpWrite && r.opcode != verbs.OpWriteImm {
		return 0
	}
	mtu := c.line.mtu
	lo, hi := min(from*mtu, r.length), min(end*mtu, r.length)
	if r.opcode == verbs.OpRead {
		r.data = slices.Grow(r.data[:0], int(r.length))[:r.length]
	}
	r.whole = piece{lo, hi}
	for at := lo; at < hi; {
		to := min(hi, at+lineSize-uint32((r.off+uint64(at))%lineSize))
		r.pieces = append(r.pieces, piece{at, to})
		at = to
	}
	w.shuffle(r)
	if r.short {
		r.short, r.partial = false, true
		w.shorten(r)
	}
	n := len(r.pieces)
	if n == 1 {
		r.whole = r.pieces[0]
		r.pieces = r.pieces[:0]
		return 0
	}
	r.batch = (n + steps - 1) / steps
	rounds := int64((n+r.batch-1)/r.batch) - 1
	m := &c.q.dev.host.nic.model
	span := w.sched.below(2*min(m.LineGapNS*int64(n-1), m.MaxSpreadNS)+1) + w.plan.spread(c, r.opcode)
	r.step = span / max(rounds, 1)
	return r.step * rounds
}

// shuffle puts a request's lines into any order, and now and then cuts one of them
// between two words: the later part moves later.
func (w *World) shuffle(r *request) {
	p := r.pieces
	for i := len(p) - 1; i > 0; i-- {
		j := w.sched.below(int64(i + 1))
		p[i], p[j] = p[j], p[i]
	}
	if w.sched.below(8) != 0 {
		return
	}
	i := int(w.sched.below(int64(len(p))))
	at := r.off + uint64(p[i].from)
	words := int64((r.off+uint64(p[i].to)-1)/8 - at/8) // borders between words
	if words == 0 {
		return
	}
	border := uint32((at/8+1+uint64(w.sched.below(words)))*8 - r.off)
	later := piece{border, p[i].to}
	p[i].to = border
	j := i + 1 + int(w.sched.below(int64(len(p)-i)))
	r.pieces = slices.Insert(p, j, later)
}

// shorten lets only some of a WRITE's pieces land, the last of them in part.
func (w *World) shorten(r *request) {
	n := int(w.sched.below(int64(len(r.pieces)))) + 1
	r.pieces = r.pieces[:n]
	last := &r.pieces[n-1]
	at := r.off + uint64(last.from)
	words := int64((r.off+uint64(last.to)-1)/8 - at/8)
	if words > 0 {
		last.to = uint32((at/8+1+uint64(w.sched.below(words)))*8 - r.off)
	}
}

// pieces moves the next pieces of a WRITE or READ. It returns true when there are
// no more.
func (c *conn) pieces(w *World, r *request) bool {
	if r.length == 0 {
		return true
	}
	if r.mr.bytes == nil {
		r.refused = verbs.StatusRemAccessErr
		return true
	}
	memory := r.mr.bytes[r.off : r.off+uint64(r.length)]
	if len(r.pieces) == 0 {
		r.move(memory, r.whole)
		return true
	}
	stop := min(r.piece+r.batch, len(r.pieces))
	for ; r.piece < stop; r.piece++ {
		r.move(memory, r.pieces[r.piece])
	}
	if stop == len(r.pieces) {
		return true
	}
	r.refs++
	w.at(w.now+r.step, event{on: r, kind: evAccess})
	return false
}

func (r *request) move(memory []byte, p piece) {
	if r.opcode == verbs.OpRead {
		copy(r.data[p.from:p.to], memory[p.from:p.to])
	} else {
		copy(memory[p.from:p.to], r.data[p.from:p.to])
	}
}

package sim

import (
	"encoding/binary"
	"unsafe"

	"fjord/verbs"
)

// request is a work request on its way. The requester's queue, each event about it
// and the responder while it serves it hold a reference.
type request struct {
	line *line
	refs int32

	seq        uint64 // position in the send queue, from 1
	id         uint64
	remote     uint64
	compareAdd uint64
	swap       uint64
	rkey, imm  uint32
	length     uint32
	opcode     verbs.Opcode
	flags      verbs.SendFlags
	nsge       int
	sge        [2]verbs.SGE
	more       []verbs.SGE // all pieces, if they are more than two

	// At the requester.
	posted   int64  // ps at which the NIC knows of it
	psn      uint32 // of its first packet
	packets  uint32 // PSNs that it takes
	sends    uint32 // how often it was sent
	sent     bool
	answered bool
	heldUp   bool // its sender has crashed, and it took longer
	taken    bool // the payload has been taken out of its buffers
	status   verbs.Status
	data     []byte // payload, or what a READ has fetched
	result   uint64 // what an atomic has found

	// At the responder.
	conn    *conn // that serves it now
	next    *request
	mr      *mr
	off     uint64 // of its target in mr
	recv    uint64 // the receive that it consumes
	refused verbs.Status
	over    bool   // served, to be answered
	again   bool   // served before
	serving uint32 // which sending is, or was, served
	partial bool   // not all of it is there, so there is no answer
	short   bool   // its sender crashes within it: only a part lands
	began   int64  // when it accesses memory, and is done
	ended   int64
	leaves  int64 // ps before which the answer does not leave
	delay   int64 // ps that the NIC lost looking for its QP
	whole   piece
	pieces  []piece // in the order of access; empty: whole, at once
	piece   int     // next
	batch   int     // pieces that move at one instant
	step    int64   // ns from instant to instant
}

// pool keeps requests that are done with.
type pool struct{ free []*request }

// keepData is the largest payload buffer that is kept for later requests.
const keepData = 64 << 10

func (p *pool) get() *request {
	n := len(p.free)
	if n == 0 {
		return &request{refs: 1}
	}
	r := p.free[n-1]
	p.free = p.free[:n-1]
	r.refs = 1
	return r
}

// drop gives a reference back.
func (w *World) drop(r *request) {
	if r.refs--; r.refs > 0 {
		return
	}
	if r.refs < 0 {
		panic("sim: a request was dropped once too often")
	}
	data, pieces, more := r.data[:0], r.pieces[:0], r.more[:0]
	if cap(data) > keepData {
		data = nil
	}
	*r = request{data: data, pieces: pieces, more: more}
	w.pool.free = append(w.pool.free, r)
}

// set takes a work request over.
func (r *request) set(wr *verbs.SendWR) {
	r.id, r.remote, r.rkey = wr.ID, wr.RemoteAddr, wr.RKey
	r.compareAdd, r.swap, r.imm = wr.CompareAdd, wr.Swap, wr.Imm
	r.opcode, r.flags = wr.Opcode, wr.Flags
	if r.nsge = len(wr.SGL); r.nsge <= len(r.sge) {
		copy(r.sge[:], wr.SGL)
	} else {
		r.more = append(r.more[:0], wr.SGL...)
	}
	n := verbs.Length(wr.SGL)
	r.length = uint32(min(n, maxMsg+1)) // more is refused as well
	if wr.Flags&verbs.FlagInline != 0 {
		for i := range wr.SGL {
			if s := &wr.SGL[i]; s.Length > 0 {
				r.data = append(r.data, unsafe.Slice(raw(s), s.Length)...)
			}
		}
		r.taken = true
	}
}

// raw is a piece of an inline payload: any memory of the caller, whose key is not
// looked at. (Written so that checkptr, which is on with -race, lets it pass.)
func raw(s *verbs.SGE) *byte { return *(**byte)(unsafe.Pointer(&s.Addr)) }

func (r *request) sgl() []verbs.SGE {
	if r.nsge <= len(r.sge) {
		return r.sge[:r.nsge]
	}
	return r.more
}

// fetches tells of a request whether it brings something back: those count
// against MaxRdAtomic, and others may overtake them.
func (r *request) fetches() bool {
	return r.opcode == verbs.OpRead || r.opcode == verbs.OpCAS || r.opcode == verbs.OpFAA
}

// receives tells of a request whether it consumes a receive.
func (r *request) receives() bool {
	return r.opcode == verbs.OpSend || r.opcode == verbs.OpSendImm || r.opcode == verbs.OpWriteImm
}

// local returns the bytes that a piece of a request names, or why it may not.
func (q *qp) local(s *verbs.SGE, write bool) ([]byte, verbs.Status) {
	if s.Length == 0 {
		return nil, verbs.StatusSuccess // names no memory
	}
	m := q.dev.mrs.get(s.LKey)
	if m == nil || m.pd != q.pd || write && m.access&verbs.AccessLocalWrite == 0 {
		return nil, verbs.StatusLocProtErr
	}
	off, ok := m.at(s.Addr, uint64(s.Length))
	if !ok {
		return nil, verbs.StatusLocProtErr
	}
	return m.bytes[off : off+uint64(s.Length)], verbs.StatusSuccess
}

// check finds what is wrong with a request on its own side.
func (q *qp) check(r *request) verbs.Status {
	if r.opcode == verbs.OpCAS || r.opcode == verbs.OpFAA {
		if r.nsge != 1 || r.length != 8 {
			return verbs.StatusLocLenErr
		}
	}
	if r.fetches() && q.attr.MaxRdAtomic == 0 {
		return verbs.StatusLocQPOpErr
	}
	if !r.taken {
		sgl := r.sgl()
		for i := range sgl {
			if _, st := q.local(&sgl[i], r.fetches()); st != verbs.StatusSuccess {
				return st
			}
		}
	}
	if r.length > maxMsg {
		return verbs.StatusLocLenErr
	}
	return verbs.StatusSuccess
}

// gather takes the payload out of its buffers. That happens as late as the NIC
// might, so that a buffer which is used again too early is found out.
func (q *qp) gather(r *request) {
	if r.taken || r.fetches() {
		return
	}
	r.taken = true
	sgl := r.sgl()
	for i := range sgl {
		b, st := q.local(&sgl[i], false)
		if st != verbs.StatusSuccess {
			panic("sim: a region has gone before the payloads in it were taken")
		}
		r.data = append(r.data, b...)
	}
}

// scatter puts what a request has brought back into its buffers.
func (q *qp) scatter(r *request) verbs.Status {
	var word [8]byte
	from := r.data
	if r.opcode != verbs.OpRead {
		binary.NativeEndian.PutUint64(word[:], r.result)
		from = word[:]
	}
	sgl := r.sgl()
	for i := range sgl {
		b, st := q.local(&sgl[i], true)
		if st != verbs.StatusSuccess {
			return st
		}
		from = from[copy(b, from):]
	}
	return verbs.StatusSuccess
}

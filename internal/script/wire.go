package script

import (
	"fmt"
	"slices"
	"unsafe"

	"fjord/verbs"
)

// wire is a QP whose requests the world executes one by one, on the QP of the
// provider below.
type wire struct {
	verbs.QP // the provider's
	answers  verbs.CQ
	w        *World
	dev      *device
	pd       *pd
	send     *cq
	init     verbs.QPInit
	node     int

	queue  []*Op
	posted uint64
	known  uint64 // the poster has polled completions up to here
	open   []*Op  // READs and atomics behind that
	failed bool   // in ERR
	closed bool
	ghosts []*Op // requests of a failed QP that may still execute
	weight
}

func (q *wire) State() verbs.QPState {
	if q.failed {
		return verbs.StateErr
	}
	return q.QP.State()
}

func (q *wire) Modify(a verbs.QPAttr, mask verbs.AttrMask) error {
	if mask&verbs.AttrDest != 0 {
		q.node = q.w.gids[a.DestGID]
	}
	return q.QP.Modify(a, mask)
}

func (q *wire) Close() error {
	q.closed, q.queue, q.ghosts, q.open = true, nil, nil, nil
	q.send.forget(q)
	q.w.wires = slices.DeleteFunc(q.w.wires, func(o *wire) bool { return o == q })
	err := q.QP.Close()
	_ = q.answers.Close() // its only QP is gone
	return err
}

func (q *wire) PostRecv([]verbs.RecvWR) (int, error) { return 0, verbs.ErrUnsupported }

// PostSend queues requests. Without a Shuffle they execute at once, as far as
// the rules let them.
func (q *wire) PostSend(wrs []verbs.SendWR) (int, error) {
	w := q.w
	if q.dev.crashed {
		w.vanish()
		return len(wrs), nil
	}
	if st := q.State(); q.closed || st != verbs.StateRTS && st != verbs.StateErr {
		return 0, fmt.Errorf("%w: PostSend in %v", verbs.ErrState, st)
	}
	for i := range wrs {
		if q.posted-q.known >= uint64(q.init.MaxSendWR) {
			return i, fmt.Errorf("%w: send queue of %d", verbs.ErrQueueFull, q.init.MaxSendWR)
		}
		switch wrs[i].Opcode {
		case verbs.OpWrite, verbs.OpRead, verbs.OpCAS, verbs.OpFAA:
		case verbs.OpSend, verbs.OpSendImm, verbs.OpWriteImm, verbs.OpInvalid:
			return i, fmt.Errorf("%w: %v in a script", verbs.ErrUnsupported, wrs[i].Opcode)
		}
		op := q.take(&wrs[i])
		if w.tracing {
			w.trace = append(w.trace, op)
		}
		if q.failed {
			q.complete(op, verbs.StatusWRFlushErr)
			continue
		}
		if !q.dev.sync {
			q.watch(op)
		}
		q.queue = append(q.queue, op)
	}
	if w.chaos == nil {
		q.run()
	} else if q.dev.sync {
		for q.next() >= 0 {
			w.cur.ending()
			w.cur.pause(taskReady)
			q.advance()
		}
	}
	if q.dev.crashed {
		w.vanish()
	}
	return len(wrs), nil
}

// take makes an op of a request: the caller may use the request again.
func (q *wire) take(wr *verbs.SendWR) *Op {
	w := q.w
	q.posted++
	op := &Op{Coord: q.dev.index, Node: q.node, Opcode: wr.Opcode, Swap: wr.Swap, q: q, seq: q.posted, wr: *wr}
	if w.cur != nil {
		op.By = w.cur.name
	}
	if mr := w.nodes[q.node].mr; mr != nil {
		op.Off = wr.RemoteAddr - mr.Addr()
	}
	op.wr.SGL = slices.Clone(wr.SGL)
	for _, s := range wr.SGL {
		op.Len += int(s.Length)
	}
	if wr.Flags&verbs.FlagInline != 0 {
		op.payload = gather(wr.SGL)
	}
	op.pieces = []piece{{0, op.Len}}
	return op
}

// gather copies a payload out of its buffers.
func gather(sgl []verbs.SGE) []byte {
	b := []byte{}
	for i := range sgl {
		if n := sgl[i].Length; n > 0 {
			b = append(b, unsafe.Slice(*(**byte)(unsafe.Pointer(&sgl[i].Addr)), n)...)
		}
	}
	return b
}

// watch looks for WRITEs whose order behind a READ or atomic is open.
func (q *wire) watch(op *Op) {
	q.open = slices.DeleteFunc(q.open, func(o *Op) bool { return o.seq <= q.known })
	if op.Opcode == verbs.OpWrite && op.wr.Flags&verbs.FlagFence == 0 {
		for _, o := range q.open {
			if o.Place().Overlaps(op.Place()) {
				q.w.hazards = append(q.w.hazards, fmt.Sprintf("%v, posted behind %v", op, o))
			}
		}
	}
	if op.Opcode != verbs.OpWrite {
		q.open = append(q.open, op)
	}
}

// run executes what the rules let through.
func (q *wire) run() {
	for {
		i := q.next()
		if i < 0 {
			return
		}
		q.step(i)
	}
}

// next returns the first request that has not executed, -1 if there is none or
// something is held.
func (q *wire) next() int {
	for i, op := range q.queue {
		if op.held != nil {
			return -1
		}
		if !op.executed {
			return i
		}
	}
	return -1
}

// step executes a piece of a request, or does to it what a rule says.
func (q *wire) step(i int) {
	op := q.queue[i]
	if !op.judged {
		op.judged = true
		if q.w.judge(op) {
			return
		}
	}
	st := q.exec(op, op.pieces[0])
	if st != verbs.StatusSuccess {
		q.fail(st, 0)
		return
	}
	op.pieces, op.begun = op.pieces[1:], true
	if op.stop > 0 {
		if op.stop--; op.stop == 0 && len(op.pieces) > 0 {
			op.held = op.after
			return
		}
	}
	if len(op.pieces) > 0 {
		return
	}
	op.executed = true
	if r := op.after; r != nil && r.act != actTear {
		op.after = nil
		if q.w.strike(op, r) {
			return
		}
	}
	q.retire()
}

// retire hands out the completions of what has executed, in order.
func (q *wire) retire() {
	for len(q.queue) > 0 && q.queue[0].executed && q.queue[0].held == nil {
		op := q.queue[0]
		q.queue = q.queue[1:]
		if op.wr.Flags&verbs.FlagSignaled != 0 || q.init.SignalAll {
			q.complete(op, verbs.StatusSuccess)
		}
	}
}

func (q *wire) complete(op *Op, st verbs.Status) {
	wc := verbs.WC{ID: op.wr.ID, QPN: q.Num(), Status: st, Opcode: op.Opcode.Completion()}
	if st == verbs.StatusSuccess && op.Opcode != verbs.OpWrite {
		wc.ByteLen = uint32(op.Len)
	}
	q.send.push(completion{wc, q, op.seq})
}

// fail takes the QP to ERR: the first request in the queue gets the status, those
// behind it are flushed. The first late of them are on their way none the less.
func (q *wire) fail(st verbs.Status, late int) {
	q.failed = true
	for i, op := range q.queue {
		if i < late && !op.executed {
			if op.Opcode == verbs.OpWrite && op.payload == nil {
				op.payload = gather(op.wr.SGL)
			}
			q.ghosts = append(q.ghosts, op)
		}
		q.complete(op, st)
		st = verbs.StatusWRFlushErr
	}
	q.queue = nil
}

// haunt executes a piece of a request that has failed already.
func (q *wire) haunt() {
	op := q.ghosts[0]
	st := verbs.StatusSuccess
	if op.Opcode != verbs.OpRead && op.Len > 0 {
		if op.Opcode != verbs.OpWrite {
			op.wr.SGL[0].Addr, op.wr.SGL[0].LKey = q.pd.scratch.Addr(), q.pd.scratch.LKey()
		} else if p := &op.pieces[0]; p.to-p.from > ghostPiece {
			op.pieces = append([]piece{{p.from, p.from + ghostPiece}, {p.from + ghostPiece, p.to}}, op.pieces[1:]...)
		}
		st = q.exec(op, op.pieces[0])
		op.pieces = op.pieces[1:]
	} else {
		op.pieces = nil
	}
	switch {
	case st != verbs.StatusSuccess: // the responder's QP is gone
		q.ghosts = nil
	case len(op.pieces) == 0:
		q.ghosts = q.ghosts[1:]
	}
}

// ghostPiece is what a payload without a buffer is cut into: as much as is sure
// to fit inline.
const ghostPiece = 512

// exec executes a piece of a request at the provider.
func (q *wire) exec(op *Op, p piece) verbs.Status {
	wr := op.wr
	wr.Flags = wr.Flags&^verbs.FlagInline | verbs.FlagSignaled
	switch {
	case op.payload != nil:
		wr.SGL = nil
		if p.to > p.from {
			b := op.payload[p.from:p.to]
			wr.SGL = []verbs.SGE{{Addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))), Length: uint32(len(b))}}
			wr.Flags |= verbs.FlagInline
		}
	case p.to-p.from < op.Len:
		wr.SGL = part(wr.SGL, p)
	}
	wr.RemoteAddr += uint64(p.from)
	if _, err := q.QP.PostSend([]verbs.SendWR{wr}); err != nil {
		q.w.tb.Fatalf("script: %v: %v", op, err)
	}
	var wcs [1]verbs.WC
	for range 1 << 20 {
		if q.answers.Poll(wcs[:]) == 1 {
			return wcs[0].Status
		}
	}
	q.w.tb.Fatalf("script: %v: the provider does not complete it", op)
	return verbs.StatusGeneralErr
}

// part returns the scatter list of a piece.
func part(sgl []verbs.SGE, p piece) []verbs.SGE {
	var out []verbs.SGE
	at := 0
	for _, s := range sgl {
		from, to := max(p.from, at), min(p.to, at+int(s.Length))
		if from < to {
			out = append(out, verbs.SGE{Addr: s.Addr + uint64(from-at), Length: uint32(to - from), LKey: s.LKey})
		}
		at += int(s.Length)
	}
	return out
}

package mem

import (
	"sync/atomic"
	"unsafe"

	"fjord/internal/words"
	"fjord/verbs"
)

// pair is the two regions that a QP was found to work between. Both have every
// right that a request may need. Of the local one not more than maxMsg bytes are
// used, so that no request is too long that lies in it.
type pair struct {
	local, remote span
	of            [2]*mr // nil: no pair was found
}

// span is what has to be known of a region: here, and not behind a pointer.
type span struct {
	base unsafe.Pointer
	va   uint64
	size uint64
	key  uint32
}

// uneven are the bits of an offset that are set when it is not that of a whole word,
// or of memory below the region.
const uneven = 1<<63 | 7

const remoteRights = verbs.AccessRemoteRead | verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic

// PostSend executes requests, in order, in the calling goroutine. It does so right
// here as long as they are of the common kind: one-sided, whole aligned words, one
// piece (a WRITE: any number), between the two regions of the QP's pair. At the
// first that is anything else, or wrong in any way, post takes over.
func (q *qp) PostSend(wrs []verbs.SendWR) (int, error) {
	q.mu.Lock()
	wrs = wrs[:len(wrs):len(wrs)]
	if len(wrs) == 0 || !q.ready(len(wrs)) {
		return q.post(wrs, 0)
	}
	if len(wrs) > 2 && wrs[0].Opcode != verbs.OpWrite { // what is written was read before, and is near
		q.prefetch(wrs)
	}
	n, lm, rm := 0, &q.pair.local, &q.pair.remote
	for wr := &wrs[0]; ; wr = &wrs[n] {
		if len(wr.SGL) != 1 {
			if !q.quickPieces(wr) {
				break
			}
		} else {
			s := &wr.SGL[0]
			size, from, to := uint64(s.Length), s.Addr-lm.va, wr.RemoteAddr-rm.va
			if s.LKey != lm.key || wr.RKey != rm.key || (from|to|size)&uneven != 0 || from+size > lm.size || to+size > rm.size {
				break
			}
			op := wr.Opcode
			if wr.Flags != 0 {
				if wr.Flags&verbs.FlagSignaled != 0 {
					q.signaled = true
				}
				if wr.Flags&verbs.FlagInline != 0 && (op != verbs.OpWrite || size > uint64(q.init.MaxInline)) {
					break
				}
			}
			local, remote := unsafe.Add(lm.base, from), unsafe.Add(rm.base, to)
			if op == verbs.OpWrite {
				words.StoreWords(remote, local, int(size>>3))
			} else if op == verbs.OpRead {
				words.LoadWords(local, remote, int(size>>3))
			} else if op == verbs.OpCAS && size == 8 {
				*(*uint64)(local) = words.CAS((*uint64)(remote), wr.CompareAdd, wr.Swap)
			} else {
				break
			}
		}
		n++
		if n >= len(wrs) {
			break
		}
	}
	q.posted += uint64(n)
	if q.signaled || n < len(wrs) {
		return q.post(wrs, n)
	}
	q.mu.Unlock()
	return n, nil
}

// OpenWindow lends the peer's region of the QP's pair.
func (q *qp) OpenWindow(rkey uint32) (verbs.Window, bool) {
	q.mu.Lock()
	if r := &q.pair.remote; q.ready(0) && r.key == rkey {
		return verbs.Window{Base: r.base, VA: r.va, Size: r.size}, true
	}
	q.mu.Unlock()
	return verbs.Window{}, false
}

// CloseWindow ends the loan.
func (q *qp) CloseWindow() { q.mu.Unlock() }

// ready tells that n requests may be executed as they come: the QP is in RTS, its
// peer was found and serves, nothing waits before them, and there are a pair and
// slots. Under mu.
func (q *qp) ready(n int) bool {
	p := q.peer
	if p == nil || q.pair.of[0] == nil || len(q.stalled) > 0 {
		return false
	}
	if q.posted+uint64(n) > atomic.LoadUint64(&q.sqDone)+uint64(q.init.MaxSendWR) {
		return false
	}
	if q.State() != verbs.StateRTS {
		return false
	}
	if st := p.State(); st != verbs.StateRTS && st != verbs.StateRTR {
		return false
	}
	if p.conn.Load() != q.peerConn { // after the state, see target
		return false
	}
	return verbs.Access(p.access.Load())&remoteRights == remoteRights
}

// quickPieces executes a WRITE of several pieces, if all of them are as PostSend
// wants the first.
func (q *qp) quickPieces(wr *verbs.SendWR) bool {
	lm, rm := &q.pair.local, &q.pair.remote
	to := wr.RemoteAddr - rm.va
	if wr.Opcode != verbs.OpWrite || len(wr.SGL) == 0 || len(wr.SGL) > q.init.MaxSendSGE || wr.RKey != rm.key || to&uneven != 0 {
		return false
	}
	total := uint64(0)
	for i := range wr.SGL {
		s := &wr.SGL[i]
		from, size := s.Addr-lm.va, uint64(s.Length)
		if s.LKey != lm.key || (from|size)&uneven != 0 || from+size > lm.size {
			return false
		}
		total += size
	}
	if to+total > rm.size || total > maxMsg || wr.Flags&verbs.FlagInline != 0 && total > uint64(q.init.MaxInline) {
		return false
	}
	if wr.Flags&verbs.FlagSignaled != 0 {
		q.signaled = true
	}
	for i := range wr.SGL {
		s := &wr.SGL[i]
		words.StoreWords(unsafe.Add(rm.base, to), unsafe.Add(lm.base, s.Addr-lm.va), int(s.Length>>3))
		to += uint64(s.Length)
	}
	return true
}

// prefetch has the lines of a doorbell's later requests on their way while the
// first is worked on.
func (q *qp) prefetch(wrs []verbs.SendWR) {
	last := wrs[0].RemoteAddr
	for i := 1; i < len(wrs); i++ {
		if at := wrs[i].RemoteAddr; at^last >= 64 {
			if off := at - q.pair.remote.va; off < q.pair.remote.size {
				words.Prefetch(unsafe.Add(q.pair.remote.base, off))
			}
			last = at
		}
	}
}

// findPair makes the regions of a request the QP's pair, if there is nothing the
// matter with them. Under mu.
func (q *qp) findPair(wr *verbs.SendWR) {
	if len(wr.SGL) == 0 || q.init.MaxSendSGE == 0 {
		return
	}
	lm, rm := q.dev.mrs.Load().get(wr.SGL[0].LKey), q.peer.dev.mrs.Load().get(wr.RKey)
	if lm != nil && rm != nil && lm.pd == q.pd && rm.pd == q.peer.pd &&
		lm.access&verbs.AccessLocalWrite != 0 && rm.access&remoteRights == remoteRights {
		q.pair = pair{lm.span, rm.span, [2]*mr{lm, rm}}
		q.pair.local.size = min(lm.size, maxMsg)
	}
}

// forget drops a pair of which m is one. Under mu.
func (q *qp) forget(m *mr) {
	if q.pair.of[0] == m || q.pair.of[1] == m {
		q.pair = pair{}
	}
}

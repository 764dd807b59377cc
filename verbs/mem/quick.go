package mem

import (
	"sync/atomic"
	"unsafe"

	"fjord/internal/words"
	"fjord/verbs"
)

// quick executes the leading requests that are of the common kind: one-sided,
// whole aligned words, one piece (a WRITE: any number), between the two regions
// that were used last. It returns how many; execute takes over at the first that
// is anything else, or wrong in any way. Under mu, in RTS, with nothing stalled.
func (q *qp) quick(wrs []verbs.SendWR, p *qp) int {
	lm, rm := q.lastLocal, q.lastRemote
	if lm == nil || rm == nil || rm.pd != p.pd || lm.gone.Load() || rm.gone.Load() {
		if lm, rm = q.regions(&wrs[0], p); lm == nil {
			return 0
		}
	}
	rights := rm.access & verbs.Access(p.access.Load())
	if lm.access&verbs.AccessLocalWrite == 0 {
		rights &= verbs.AccessRemoteWrite // nothing can be read into it
	}
	if room := uint64(q.init.MaxSendWR) - (q.posted - q.freed); room < uint64(len(wrs)) {
		wrs = wrs[:room]
	}
	for i := 1; i < len(wrs); i++ { // the lines are on their way while the first is worked on
		if at := wrs[i].RemoteAddr - rm.va; at < rm.size && wrs[i].RemoteAddr^wrs[i-1].RemoteAddr >= 64 {
			words.Prefetch(unsafe.Add(rm.base, at))
		}
	}
	n := 0
	for n < len(wrs) {
		wr := &wrs[n]
		if !quickOne(wr, lm, rm, rights, q.init.MaxInline) &&
			(wr.Opcode != verbs.OpWrite || !q.quickPieces(wr, lm, rm, rights)) {
			break
		}
		n++
		if wr.Flags&verbs.FlagSignaled != 0 || q.init.SignalAll {
			q.complete(wr, q.posted+uint64(n), verbs.StatusSuccess)
		}
	}
	q.posted += uint64(n)
	return n
}

// quickOne executes a request of one piece.
func quickOne(wr *verbs.SendWR, lm, rm *mr, rights verbs.Access, maxInline uint32) bool {
	if len(wr.SGL) != 1 {
		return false
	}
	s := &wr.SGL[0]
	size, from, to := uint64(s.Length), s.Addr-lm.va, wr.RemoteAddr-rm.va
	if s.LKey != lm.key || wr.RKey != rm.key || size > maxMsg || from > lm.size || from+size > lm.size || to > rm.size || to+size > rm.size || (from|to|size)&7 != 0 {
		return false
	}
	local, remote := unsafe.Add(lm.base, from), unsafe.Add(rm.base, to)
	if wr.Flags&verbs.FlagInline != 0 && (wr.Opcode != verbs.OpWrite || s.Length > maxInline) {
		return false
	}
	switch wr.Opcode {
	case verbs.OpWrite:
		if rights&verbs.AccessRemoteWrite == 0 {
			return false
		}
		words.StoreWords(remote, local, int(size>>3))
	case verbs.OpRead:
		if rights&verbs.AccessRemoteRead == 0 {
			return false
		}
		words.LoadWords(local, remote, int(size>>3))
	case verbs.OpCAS:
		if size != 8 || rights&verbs.AccessRemoteAtomic == 0 {
			return false
		}
		*(*uint64)(local) = swap((*uint64)(remote), wr.CompareAdd, wr.Swap)
	case verbs.OpInvalid, verbs.OpWriteImm, verbs.OpSend, verbs.OpSendImm, verbs.OpFAA:
		return false
	default:
		return false
	}
	return true
}

// quickPieces executes a WRITE of several pieces, if all of them are as quick
// wants the first.
func (q *qp) quickPieces(wr *verbs.SendWR, lm, rm *mr, rights verbs.Access) bool {
	to := wr.RemoteAddr - rm.va
	if rights&verbs.AccessRemoteWrite == 0 || len(wr.SGL) < 2 || len(wr.SGL) > q.init.MaxSendSGE || wr.RKey != rm.key || to > rm.size || to&7 != 0 {
		return false
	}
	total := uint64(0)
	for i := range wr.SGL {
		s := &wr.SGL[i]
		from, size := s.Addr-lm.va, uint64(s.Length)
		if s.LKey != lm.key || from > lm.size || size > lm.size-from || (from|size)&7 != 0 {
			return false
		}
		total += size
	}
	if total > rm.size-to || total > maxMsg ||
		wr.Flags&verbs.FlagInline != 0 && total > uint64(q.init.MaxInline) {
		return false
	}
	for i := range wr.SGL {
		s := &wr.SGL[i]
		words.StoreWords(unsafe.Add(rm.base, to), unsafe.Add(lm.base, s.Addr-lm.va), int(s.Length>>3))
		to += uint64(s.Length)
	}
	return true
}

// regions finds the two regions of a request, for quick to go on with; nil if
// there is anything the matter with them.
func (q *qp) regions(wr *verbs.SendWR, p *qp) (lm, rm *mr) {
	if len(wr.SGL) == 0 || q.init.MaxSendSGE == 0 {
		return nil, nil
	}
	lm, rm = q.dev.mrs.Load().get(wr.SGL[0].LKey), p.dev.mrs.Load().get(wr.RKey)
	if lm == nil || rm == nil || lm.pd != q.pd || rm.pd != p.pd {
		return nil, nil
	}
	q.lastLocal, q.lastRemote = lm, rm
	return lm, rm
}

// swap is compare and swap; it returns the word that it found.
func swap(word *uint64, expect, with uint64) uint64 {
	for !atomic.CompareAndSwapUint64(word, expect, with) {
		if old := atomic.LoadUint64(word); old != expect {
			return old
		}
	}
	return expect
}

package serial

import (
	"cmp"
	"math"
	"slices"
)

// period is a stretch of a key's life in which it was absent: behind place start of its chain and
// before place end. start is -1 if the key was absent at first, end is the length of the chain if it
// stayed so. Deletions of what was absent already do not cut a period.
type period struct {
	start, end int32
	after      int64 // a reader that ended before this ended before a writer up to start began
	before     int64 // a reader that began after this began after a writer from end on had ended
}

// choice is a read of an absent key that real time allows in several periods of it.
type choice struct {
	att, key int32
	lo, hi   int32 // periods, both included
	scan     bool
}

func (r *run) periodsOf(key int32) []period {
	if ps := r.periods[key]; ps != nil {
		return ps
	}
	c := r.chainOf(key)
	ps := []period{}
	after := int64(math.MinInt64)
	absent := r.initial[key] == 0
	if absent {
		ps = append(ps, period{start: -1, after: after})
	}
	for i, w := range c {
		after = max(after, r.begin(r.writer(w)))
		switch del := r.ix.writes[w].del; {
		case del && !absent:
			ps = append(ps, period{start: int32(i), after: after})
			absent = true
		case !del && absent:
			ps[len(ps)-1].end = int32(i)
			absent = false
		}
	}
	if absent {
		ps[len(ps)-1].end = int32(len(c))
	}
	before, i := int64(math.MaxInt64), len(c)
	for p := len(ps) - 1; p >= 0; p-- {
		for i > int(ps[p].end) {
			i--
			before = min(before, r.end(r.writer(c[i])))
		}
		ps[p].before = before
	}
	r.periods[key] = ps
	return ps
}

// findAbsent adds the edges of a read that found its key absent: it follows the deletion that began
// the absence and precedes the insert that ended it. Of several absences, real time leaves those from
// lo to hi; the read surely follows the beginning of lo and precedes the end of hi.
func (r *run) findAbsent(a, key int32, scan bool) {
	if r.broken[key] {
		return
	}
	c := r.chainOf(key)
	if len(c) == 0 && r.initial[key] == 0 {
		return
	}
	ps := r.periodsOf(key)
	if len(ps) == 0 && r.ix.own(a, key) < 0 {
		r.needDelete(r.deleters(key, r.end(a)), a, key, func() Violation {
			t := r.tell(a)
			t.say("%s found %s absent%s, which it was never: it had version %d before the history, and nobody deleted it",
				t.name(a), r.ix.name(key), t.scanned(a, key, scan), r.initial[key])
			return t.violation(ImpossibleAbsence, "")
		})
		return
	}
	if w := r.ix.own(a, key); w >= 0 {
		// What it replaced says it all, and is held against the chain anyway. A scan may leave out what
		// the attempt itself had deleted before.
		if x := &r.ix.writes[w]; x.prev != 0 && !(scan && x.del) {
			r.report(nil, func() Violation {
				t := r.tell(a)
				t.say("%s found %s absent%s, and yet it %s", t.name(a), r.ix.name(key), t.scanned(a, key, scan), x.did(r.ix.name(key)))
				if p := r.pos[w]; p > 0 {
					t.say("%s had written that", t.name(r.writer(c[p-1])))
				}
				return t.violation(ImpossibleAbsence, "")
			})
		}
		return
	}
	begin, end := r.begin(a), r.end(a)
	lo, _ := slices.BinarySearchFunc(ps, begin, func(p period, t int64) int { return cmp.Compare(p.before, t) })
	hi, _ := slices.BinarySearchFunc(ps, end, func(p period, t int64) int {
		if p.after <= t {
			return -1
		}
		return 1
	})
	hi--
	if lo > hi {
		if options := r.deleters(key, end); len(options) == 1 {
			r.take(options[0], reason{whyDeleted, a, key, 0})
			r.again = true
			return
		}
		// No absence fits. The edges of the last one that was over too early, or of the first that
		// came too late, make a cycle with real time that says so.
		lo = max(lo-1, 0)
		hi = lo
	} else if lo < hi {
		r.choices = append(r.choices, choice{a, key, int32(lo), int32(hi), scan})
		r.absent[key] = true
	}
	r.edgeAfter(a, key, ps[lo].start, scan)
	r.edgeBefore(a, key, ps[hi].end, scan)
}

// edgeAfter says that a read found a key absent in a period begun by place start of its chain. Of
// scans, edges that real time implies are left out: a scan finds every dead key of its range.
func (r *run) edgeAfter(a, key, start int32, scan bool) {
	if start < 0 {
		return
	}
	d := r.writer(r.chainOf(key)[start])
	if d != a && !(scan && r.end(d) < r.begin(a)) {
		r.edges = append(r.edges, edge{d, a, key, depWR, true, scan})
		r.absent[key] = true
	}
}

// edgeBefore is the same for the place that ended the period.
func (r *run) edgeBefore(a, key, end int32, scan bool) {
	c := r.chainOf(key)
	if int(end) >= len(c) {
		return
	}
	i := r.writer(c[end])
	if i != a && !(scan && r.end(a) < r.begin(i)) {
		r.edges = append(r.edges, edge{a, i, key, depRW, true, scan})
		r.absent[key] = true
	}
}

// blockSize is the number of neighbouring keys that a scan can pass over at once.
const blockSize = 64

// block sums up neighbouring keys of a table, so that a scan need not look at each key that is dead
// or unborn for it by real time.
type block struct {
	born int64 // the first of them was inserted by an attempt that began then
	dead int64 // the last of them was deleted for good by an attempt that ended then
}

func (r *run) sumBlocks() {
	r.blocks = make([][]block, len(r.ix.tables))
	for t, keys := range r.ix.sorted {
		bs := make([]block, (len(keys)+blockSize-1)/blockSize)
		for i, key := range keys {
			b := &bs[i/blockSize]
			if i%blockSize == 0 {
				*b = block{math.MaxInt64, math.MinInt64}
			}
			c := r.chainOf(key)
			switch {
			case r.initial[key] != 0:
				b.born = math.MinInt64
			case len(c) > 0:
				b.born = min(b.born, r.begin(r.writer(c[0])))
			}
			switch {
			case len(c) > 0 && r.ix.writes[c[len(c)-1]].del:
				for _, w := range c {
					b.dead = max(b.dead, r.end(r.writer(w)))
				}
			case len(c) > 0 || r.initial[key] != 0:
				b.dead = math.MaxInt64
			}
		}
		r.blocks[t] = bs
	}
}

// findGaps treats a scan as a read of every key of its range that it does not list.
func (r *run) findGaps(a int32, s *Scan, listed []int32) {
	t, ok := r.ix.tabID[s.Table]
	if !ok {
		return
	}
	if r.stamp == nil {
		r.stamp = make([]int32, len(r.ix.keys))
	}
	r.stamps++
	for _, k := range listed {
		r.stamp[k] = r.stamps
	}
	keys := r.ix.sorted[t]
	find := func(k string) int {
		i, _ := slices.BinarySearchFunc(keys, k, func(x int32, k string) int { return cmp.Compare(r.ix.keys[x].key, k) })
		return i
	}
	i, end := find(s.From), len(keys)
	if s.To != "" {
		end = find(s.To)
	}
	begin, done := r.begin(a), r.end(a)
	for i < end {
		if b := r.blocks[t][i/blockSize]; done < b.born || b.dead < begin {
			i = (i/blockSize + 1) * blockSize
			continue
		}
		for stop := min(end, (i/blockSize+1)*blockSize); i < stop; i++ {
			if r.stamp[keys[i]] != r.stamps {
				r.findAbsent(a, keys[i], true)
			}
		}
	}
}

func (t *teller) scanned(a, key int32, scan bool) string {
	if !scan {
		return ""
	}
	ix := t.r.ix
	for i := range ix.h.Attempts[a].Scans {
		s := &ix.h.Attempts[a].Scans[i]
		k := ix.keys[key]
		if ix.tables[k.table] == s.Table && k.key >= s.From && (s.To == "" || k.key < s.To) {
			return " in its scan of " + s.bounds()
		}
	}
	return ""
}

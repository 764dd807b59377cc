package serial

import (
	"cmp"
	"fmt"
	"slices"
)

// index is the history in numbers: attempts, tables and keys are small integers, and the writes of a
// key lie together in order of version. It holds every attempt, whatever its outcome, and never
// changes once built; what depends on the fate of unknown attempts is in run.
type index struct {
	h      *History
	tables []string
	tabID  map[string]int32
	keyID  []map[string]int32 // per table
	keys   []keyName

	sorted [][]int32 // per table: its keys in byte order

	// refs are the key ids of an attempt's reads, then of its scans' keys, in the order of the
	// attempt's slices; those of attempt a are refs[refOff[a]:refOff[a+1]].
	refs   []int32
	refOff []int

	// writes of attempt a are writes[writeOff[a]:writeOff[a+1]], one per key, by key.
	writes   []write
	writeOff []int32

	// byKey[keyOff[k]:keyOff[k+1]] are the writes of key k by version, then attempt.
	byKey  []int32
	keyOff []int32

	// middle holds versions that their own attempt replaced again: never to be seen by others.
	middle map[keyVersion][]int32

	unknown      []int32           // attempts of unknown outcome
	maybe        []bool            // keys that one of them wrote
	maybeDeleted map[int32][]int32 // per key, deletions by them
	origin       int64             // the earliest begin

	faults []fault // recording errors, the first maxFaults of them
	faulty int     // how many there are
}

type keyName struct {
	table int32
	key   string
}

type keyVersion struct {
	key int32
	ver uint64
}

// write is an attempt's whole effect on one key.
type write struct {
	att, key  int32
	prev, ver uint64
	first     uint64 // ver, or the first version of several
	del       bool
}

// fault is a recording error: what the history says cannot be, whatever the store did.
type fault struct {
	atts []int32 // T1, T2, ... of the text
	text string
}

// maxFaults bounds the recording errors kept: a broken recorder breaks every line.
const maxFaults = 100

func (ix *index) fault(atts []int32, format string, args ...any) {
	ix.faulty++
	if len(ix.faults) < maxFaults {
		ix.faults = append(ix.faults, fault{atts, fmt.Sprintf(format, args...)})
	}
}

func newIndex(h *History) *index {
	n := len(h.Attempts)
	ix := &index{
		h:        h,
		tabID:    map[string]int32{},
		refOff:   make([]int, n+1),
		writeOff: make([]int32, n+1),
		middle:   map[keyVersion][]int32{},
	}
	refs, writes := 0, 0
	for i := range h.Attempts {
		a := &h.Attempts[i]
		refs += len(a.Reads)
		writes += len(a.Writes)
		for j := range a.Scans {
			refs += len(a.Scans[j].Keys)
		}
	}
	ix.refs = make([]int32, 0, refs)
	ix.writes = make([]write, 0, writes)
	var steps []write
	for i := range h.Attempts {
		a := &h.Attempts[i]
		for j := range a.Reads {
			ix.refs = append(ix.refs, ix.key(a.Reads[j].Table, a.Reads[j].Key))
		}
		for j := range a.Scans {
			s := &a.Scans[j]
			for _, k := range s.Keys {
				ix.refs = append(ix.refs, ix.key(s.Table, k.Key))
				if k.Key < s.From || s.To != "" && k.Key >= s.To {
					ix.fault([]int32{int32(i)}, "T1 scanned %s and lists key %s, which is outside", s.bounds(), hexKey(k.Key))
				}
			}
		}
		steps = steps[:0]
		for j := range a.Writes {
			w := &a.Writes[j]
			steps = append(steps, write{int32(i), ix.key(w.Table, w.Key), w.Prev, w.Version, w.Version, w.Delete})
		}
		ix.fold(a, steps)
		ix.refOff[i+1] = len(ix.refs)
		ix.writeOff[i+1] = int32(len(ix.writes))
		if a.Begin > a.End {
			ix.fault([]int32{int32(i)}, "T1 began at %d ns, after it ended at %d ns", a.Begin, a.End)
		}
		if a.Outcome != Commit && a.Outcome != Abort && a.Outcome != Unknown {
			ix.fault([]int32{int32(i)}, "T1 has no outcome")
		}
	}
	ix.groupWrites()
	ix.listUnknown()
	ix.sortKeys()
	ix.checkSessions()
	return ix
}

func (ix *index) key(table, key string) int32 {
	t, ok := ix.tabID[table]
	if !ok {
		t = int32(len(ix.tables))
		ix.tabID[table] = t
		ix.tables = append(ix.tables, table)
		ix.keyID = append(ix.keyID, map[string]int32{})
	}
	k, ok := ix.keyID[t][key]
	if !ok {
		k = int32(len(ix.keys))
		ix.keyID[t][key] = k
		ix.keys = append(ix.keys, keyName{t, key})
	}
	return k
}

// fold appends one write per key: an attempt's steps on a key become its last version over its first prev.
func (ix *index) fold(a *Attempt, steps []write) {
	slices.SortStableFunc(steps, func(x, y write) int {
		return cmp.Or(cmp.Compare(x.key, y.key), cmp.Compare(x.ver, y.ver))
	})
	for _, w := range steps {
		last := len(ix.writes) - 1
		if last < 0 || ix.writes[last].att != w.att || ix.writes[last].key != w.key {
			ix.writes = append(ix.writes, w)
			continue
		}
		before := &ix.writes[last]
		// What an aborted attempt planned is of no interest but for the versions.
		if a.Outcome != Abort && (w.prev != before.state() || w.ver == before.ver || before.ver <= before.prev) {
			ix.fault([]int32{w.att}, "T1 wrote %s as version %d over %d and then as version %d over %d: its own writes do not chain",
				ix.name(w.key), before.ver, before.prev, w.ver, w.prev)
		}
		at := keyVersion{w.key, before.ver}
		ix.middle[at] = append(ix.middle[at], w.att)
		before.ver, before.del = w.ver, w.del
	}
}

// state is the version that a reader sees once w is in place.
func (w *write) state() uint64 {
	if w.del {
		return 0
	}
	return w.ver
}

func (ix *index) groupWrites() {
	ix.keyOff = make([]int32, len(ix.keys)+1)
	for i := range ix.writes {
		ix.keyOff[ix.writes[i].key+1]++
	}
	for k := range ix.keys {
		ix.keyOff[k+1] += ix.keyOff[k]
	}
	next := slices.Clone(ix.keyOff)
	ix.byKey = make([]int32, len(ix.writes))
	for i := range ix.writes {
		k := ix.writes[i].key
		ix.byKey[next[k]] = int32(i)
		next[k]++
	}
	for k := range ix.keys {
		slices.SortFunc(ix.byKey[ix.keyOff[k]:ix.keyOff[k+1]], func(x, y int32) int {
			return cmp.Or(cmp.Compare(ix.writes[x].ver, ix.writes[y].ver), cmp.Compare(x, y))
		})
	}
}

func (ix *index) listUnknown() {
	ix.maybe = make([]bool, len(ix.keys))
	ix.maybeDeleted = map[int32][]int32{}
	for i := range ix.h.Attempts {
		at := &ix.h.Attempts[i]
		if i == 0 || at.Begin < ix.origin {
			ix.origin = at.Begin
		}
		if at.Outcome != Unknown {
			continue
		}
		ix.unknown = append(ix.unknown, int32(i))
		for w := ix.writeOff[i]; w < ix.writeOff[i+1]; w++ {
			x := &ix.writes[w]
			ix.maybe[x.key] = true
			if x.del && x.prev != 0 {
				ix.maybeDeleted[x.key] = append(ix.maybeDeleted[x.key], w)
			}
		}
	}
}

func (ix *index) sortKeys() {
	ix.sorted = make([][]int32, len(ix.tables))
	scanned := make([]bool, len(ix.tables))
	for i := range ix.h.Attempts {
		for j := range ix.h.Attempts[i].Scans {
			if t, ok := ix.tabID[ix.h.Attempts[i].Scans[j].Table]; ok {
				scanned[t] = true
			}
		}
	}
	for k := range ix.keys {
		if t := ix.keys[k].table; scanned[t] {
			ix.sorted[t] = append(ix.sorted[t], int32(k))
		}
	}
	for _, ks := range ix.sorted {
		slices.SortFunc(ks, func(x, y int32) int { return cmp.Compare(ix.keys[x].key, ix.keys[y].key) })
	}
}

// checkSessions reports attempts of one session that overlap.
func (ix *index) checkSessions() {
	atts := ix.h.Attempts
	ids := map[string]int32{}
	session := make([]int32, len(atts))
	order := make([]int32, len(atts))
	var last []int32 // per session: the latest attempt, in the order of the slice
	byTime := func(x, y int32) int {
		return cmp.Or(cmp.Compare(atts[x].Begin, atts[y].Begin), cmp.Compare(atts[x].End, atts[y].End))
	}
	ordered := true
	for i := range atts {
		order[i] = int32(i)
		s, ok := ids[atts[i].Session]
		if !ok {
			s = int32(len(ids))
			ids[atts[i].Session] = s
			last = append(last, int32(i))
		}
		session[i] = s
		ordered = ordered && byTime(last[s], int32(i)) <= 0
		last[s] = int32(i)
	}
	if !ordered {
		slices.SortStableFunc(order, byTime)
	}
	open := make([]int32, len(ids)) // per session: the attempt that ends last so far
	for s := range open {
		open[s] = -1
	}
	for _, i := range order {
		o := &open[session[i]]
		if *o >= 0 && atts[i].Begin < atts[*o].End {
			ix.fault([]int32{*o, i}, "T2 began %s before T1 of the same session ended", duration(atts[*o].End-atts[i].Begin))
		}
		if *o < 0 || atts[i].End > atts[*o].End {
			*o = i
		}
	}
}

// versions returns the writes that install ver at key.
func (ix *index) versions(key int32, ver uint64) []int32 {
	ws := ix.byKey[ix.keyOff[key]:ix.keyOff[key+1]]
	lo, _ := slices.BinarySearchFunc(ws, ver, func(w int32, v uint64) int { return cmp.Compare(ix.writes[w].ver, v) })
	hi := lo
	for hi < len(ws) && ix.writes[ws[hi]].ver == ver {
		hi++
	}
	return ws[lo:hi]
}

// inMiddle returns an attempt that installed ver at key and replaced it again itself, or -1: by itself if
// it is one of them, else one that did not abort, if any.
func (ix *index) inMiddle(by, key int32, ver uint64) int32 {
	found := int32(-1)
	for _, a := range ix.middle[keyVersion{key, ver}] {
		if a == by {
			return a
		}
		if found < 0 || ix.h.Attempts[found].Outcome == Abort {
			found = a
		}
	}
	return found
}

// own returns attempt a's write of key, or -1.
func (ix *index) own(a, key int32) int32 {
	lo, hi := ix.writeOff[a], ix.writeOff[a+1]
	i, ok := slices.BinarySearchFunc(ix.writes[lo:hi], key, func(w write, k int32) int { return cmp.Compare(w.key, k) })
	if !ok {
		return -1
	}
	return lo + int32(i)
}

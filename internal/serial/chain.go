package serial

import (
	"fmt"
	"slices"
)

// makeChains lines up the counted writes of every key.
func (r *run) makeChains() {
	ix := r.ix
	r.chain = r.chain[:0]
	if r.pos == nil {
		r.chain = make([]int32, 0, len(ix.writes))
		r.chainOff = make([]int32, len(ix.keys)+1)
		r.pos = make([]int32, len(ix.writes))
	}
	for k := range ix.keys {
		start := len(r.chain)
		for _, w := range ix.byKey[ix.keyOff[k]:ix.keyOff[k+1]] {
			r.pos[w] = -1
			if r.counted[ix.writes[w].att] {
				r.pos[w] = int32(len(r.chain) - start)
				r.chain = append(r.chain, w)
			}
		}
		r.chainOff[k+1] = int32(len(r.chain))
	}
	r.broken = make([]bool, len(ix.keys))
	r.initial = make([]uint64, len(ix.keys))
	for k := range ix.keys {
		if c := r.chainOf(int32(k)); len(c) > 0 {
			if p := ix.writes[c[0]].prev; p != 0 && r.unwritten(int32(k), p) {
				r.initial[k] = p
			}
		}
	}
	// A key without counted writes had the version that was seen of it all along.
	for _, outcome := range [...]Outcome{Commit, Abort} {
		for i := range ix.h.Attempts {
			counted := r.counted[i]
			if counted != (outcome == Commit) || !counted && ix.h.Attempts[i].Outcome != Abort {
				continue
			}
			r.eachRef(int32(i), func(key int32, ver uint64, _ bool) {
				if ver != 0 && r.initial[key] == 0 && len(r.chainOf(key)) == 0 && r.unwritten(key, ver) {
					r.initial[key] = ver
				}
			})
		}
	}
}

// unwritten says that no attempt of any outcome installed ver at key.
func (r *run) unwritten(key int32, ver uint64) bool {
	return len(r.ix.versions(key, ver)) == 0 && r.ix.inMiddle(-1, key, ver) < 0
}

// resolve finds the place in the chain of key at which version ver was installed, -1 for the initial one. If
// there is none, nobody should have seen it, and it reports that.
func (r *run) resolve(by, key int32, ver uint64, how seenHow) (int, bool) {
	ix := r.ix
	ws := ix.versions(key, ver)
	aborted, deleted, maybe := int32(-1), int32(-1), false
	for _, w := range ws {
		x := &ix.writes[w]
		switch {
		case r.pos[w] >= 0 && (!x.del || x.att == by):
			return int(r.pos[w]), true
		case r.pos[w] >= 0:
			deleted = x.att
		case x.att == by:
			return 0, false // its own, though it aborted
		case ix.h.Attempts[x.att].Outcome == Abort:
			aborted = x.att
		case !x.del:
			maybe = true
		}
	}
	middle := ix.inMiddle(by, key, ver)
	if middle == by {
		return 0, false
	}
	if len(ws) == 0 && middle < 0 && r.initial[key] == ver {
		return -1, true
	}
	r.broken[key] = r.broken[key] || how == seenReplace
	if r.open[key] {
		return 0, false
	}
	did := func(t *teller) string { return t.name(by) + " " + how.did(ix.name(key), ver) }
	switch {
	case maybe && (deleted < 0 || !r.counted[by]):
		// A counted reader has made the writer count, or checkDemands reports it; of an aborted one nothing
		// follows.
	case deleted >= 0:
		r.report(nil, func() Violation {
			t := r.tell(by)
			t.say("%s, but with that version %s deleted the key, so there was nothing to see", did(t), t.name(deleted))
			return t.violation(PhantomVersion, "")
		})
	case middle >= 0 && ix.h.Attempts[middle].Outcome != Abort:
		r.report(nil, func() Violation {
			t := r.tell(by)
			t.say("%s, which %s wrote and replaced again itself: others may only see its last version", did(t), t.name(middle))
			return t.violation(IntermediateRead, "")
		})
	case len(ws) > 0 && aborted < 0:
		r.report(nil, func() Violation {
			t := r.tell(by, ix.writes[ws[0]].att)
			t.say("%s, with which only %s, of unknown outcome, may have deleted the key: there was nothing to see", did(t), t.name(ix.writes[ws[0]].att))
			return t.violation(PhantomVersion, "")
		})
	case middle >= 0 || aborted >= 0:
		r.report(nil, func() Violation {
			t := r.tell(by)
			t.say("%s, which only %s wrote, and %s aborted", did(t), t.name(max(aborted, middle)), t.name(max(aborted, middle)))
			return t.violation(AbortedRead, "dirty read")
		})
	default:
		r.needInitial(by, key, ver, did)
	}
	return 0, false
}

// needInitial reports a version that nobody wrote and that is not the initial one either, unless an
// unknown attempt may have deleted it before the chain begins.
func (r *run) needInitial(by, key int32, ver uint64, did func(*teller) string) {
	var options []int32
	first := uint64(0)
	if c := r.chainOf(key); len(c) > 0 && r.ix.writes[c[0]].prev == 0 {
		first = r.ix.writes[c[0]].ver
		options = r.deletersBetween(key, ver, first)
	}
	r.needDelete(options, by, key, func() Violation {
		t := r.tell(by)
		switch initial := r.initial[key]; {
		case initial != 0:
			t.say("%s, but no recorded attempt wrote that, and the version from before the history was %d", did(t), initial)
		case first != 0:
			t.say("%s, but no recorded attempt wrote that, and the key was absent before the history: version %d was its first", did(t), first)
		default:
			t.say("%s, but no recorded attempt wrote that", did(t))
		}
		return t.violation(PhantomVersion, "")
	})
}

// deletersBetween are the unknown attempts, not in the chain, that may have deleted key with a version between
// the two.
func (r *run) deletersBetween(key int32, low, high uint64) []int32 {
	var out []int32
	for _, w := range r.ix.maybeDeleted[key] {
		if x := &r.ix.writes[w]; r.pos[w] < 0 && x.ver > low && x.ver < high && r.fits(x) {
			out = append(out, x.att)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (h seenHow) did(key string, ver uint64) string {
	if h == seenReplace {
		return fmt.Sprintf("replaced version %d of %s", ver, key)
	}
	return fmt.Sprintf("read %s at version %d", key, ver)
}

func versionOf(key string, ver uint64) string { return fmt.Sprintf("version %d of %s", ver, key) }

// checkChains holds every counted write against the one before it.
func (r *run) checkChains() {
	for k := range r.ix.keys {
		if r.open[int32(k)] {
			continue
		}
		c := r.chainOf(int32(k))
		for i, w := range c {
			x := &r.ix.writes[w]
			if x.ver <= x.prev || x.ver == 0 {
				r.broken[k] = true
				r.report(nil, func() Violation {
					t := r.tell(x.att)
					t.say("%s wrote %s as version %d over version %d: versions of a key only grow", t.name(x.att), r.ix.name(x.key), x.ver, x.prev)
					return t.violation(VersionOrder, "")
				})
				continue
			}
			if i == 0 {
				if x.prev != 0 {
					r.resolve(x.att, x.key, x.prev, seenReplace)
				}
				continue
			}
			before := &r.ix.writes[c[i-1]]
			switch {
			case x.ver == before.ver:
				r.broken[k] = true
				r.report(nil, func() Violation {
					t := r.tell(before.att, x.att)
					t.say("%s and %s both committed version %d of %s", t.name(before.att), t.name(x.att), x.ver, r.ix.name(x.key))
					return t.violation(DuplicateVersion, "")
				})
			case x.first <= before.ver:
				r.broken[k] = true
				r.report(nil, func() Violation {
					t := r.tell(before.att, x.att)
					t.say("%s %s, and then %s wrote it as version %d (and later %d): versions of a key only grow", t.name(before.att),
						before.did(r.ix.name(x.key)), t.name(x.att), x.first, x.ver)
					return t.violation(VersionOrder, "")
				})
			case x.prev != before.state():
				r.checkReplaced(c, i)
			}
		}
	}
}

// checkReplaced reports the write at place i of a chain, which did not replace what is there before it.
func (r *run) checkReplaced(c []int32, i int) {
	ix := r.ix
	x, before := &ix.writes[c[i]], &ix.writes[c[i-1]]
	rival := -1
	var options []int32
	if x.prev != 0 {
		p, ok := r.resolve(x.att, x.key, x.prev, seenReplace)
		if !ok {
			return
		}
		if p+1 < i && ix.writes[c[p+1]].prev == x.prev {
			rival = p + 1
		}
	} else {
		options = r.deletersBetween(x.key, before.ver, x.ver)
		for j := i - 1; j >= 0 && !ix.writes[c[j]].del; j-- {
			if ix.writes[c[j]].prev == 0 {
				rival = j
				break
			}
		}
	}
	r.broken[x.key] = true
	r.needDelete(options, x.att, x.key, func() Violation {
		key := ix.name(x.key)
		wrote := func(t *teller, w *write) string {
			return fmt.Sprintf("%s %s", t.name(w.att), w.did(key))
		}
		if rival < 0 {
			t := r.tell(before.att, x.att)
			t.say("%s", wrote(t, before))
			t.say("%s, though that is not what was there", wrote(t, x))
			return t.violation(r.unlessHalf(BrokenChain, x, before), "")
		}
		y := &ix.writes[c[rival]]
		t := r.tell(y.att, x.att)
		t.say("%s", wrote(t, y))
		t.say("%s", wrote(t, x))
		t.say("both replaced the same state, so what %s wrote was lost", t.name(y.att))
		if loser := &ix.h.Attempts[y.att]; loser.Outcome == Commit && loser.End < r.begin(x.att) {
			t.say("%s ended %s before %s began (real time): an acknowledged commit was lost", t.name(y.att),
				duration(r.begin(x.att)-loser.End), t.name(x.att))
		}
		return t.violation(r.unlessHalf(LostUpdate, x, y), "")
	})
}

// unlessHalf returns kind, or HalfVisible if one of the writers is of unknown outcome: it must have
// committed, and this is where it seems not to have.
func (r *run) unlessHalf(kind Kind, ws ...*write) Kind {
	for _, w := range ws {
		if r.ix.h.Attempts[w.att].Outcome == Unknown {
			return HalfVisible
		}
	}
	return kind
}

// did says what a write did, without its subject.
func (w *write) did(key string) string {
	switch {
	case w.del && w.prev == 0:
		return fmt.Sprintf("deleted %s, absent already (version %d)", key, w.ver)
	case w.del:
		return fmt.Sprintf("deleted %s (version %d, replacing %d)", key, w.ver, w.prev)
	case w.prev == 0:
		return fmt.Sprintf("inserted %s as version %d", key, w.ver)
	}
	return fmt.Sprintf("replaced version %d of %s by %d", w.prev, key, w.ver)
}

// addEdges puts up the edges of all chains, and of all that counted attempts read.
func (r *run) addEdges() {
	for k := range r.ix.keys {
		c := r.chainOf(int32(k))
		for i := 1; i < len(c); i++ {
			r.edge(r.writer(c[i-1]), r.writer(c[i]), int32(k), depWW)
		}
	}
	for i, counted := range r.counted {
		if !counted {
			continue
		}
		a := int32(i)
		r.eachRef(a, func(key int32, ver uint64, scan bool) {
			if ver == 0 {
				r.findAbsent(a, key, scan)
			} else {
				r.findPresent(a, key, ver)
			}
		})
		refs := r.ix.refs[r.ix.refOff[i]+len(r.ix.h.Attempts[i].Reads):]
		for j := range r.ix.h.Attempts[i].Scans {
			s := &r.ix.h.Attempts[i].Scans[j]
			r.findGaps(a, s, refs[:len(s.Keys)])
			refs = refs[len(s.Keys):]
		}
	}
}

func (r *run) edge(from, to, key int32, d dep) {
	if from != to {
		r.edges = append(r.edges, edge{from: from, to: to, key: key, dep: d})
	}
}

// findPresent adds the edges of a read that found its key.
func (r *run) findPresent(a, key int32, ver uint64) {
	p, ok := r.resolve(a, key, ver, seenRead)
	if !ok {
		return
	}
	c := r.chainOf(key)
	if p >= 0 {
		w := r.writer(c[p])
		if w == a {
			return // its own
		}
		r.edge(w, a, key, depWR)
	}
	if p+1 < len(c) {
		r.edge(a, r.writer(c[p+1]), key, depRW)
	}
}

package serial

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// checkGraph looks for cycles, then for places for the reads that may have several.
func (r *run) checkGraph() {
	if r.cyclic(nil) {
		r.reportCycles()
		return
	}
	if len(r.choices) == 0 || r.hard {
		return
	}
	s := newSearch(r)
	switch s.place() {
	case placed:
	case cyclic:
		r.derived = true
		if !r.cyclic(nil) {
			panic("serial: a read without a place makes no cycle") // a fault of this package
		}
		r.reportCycles()
	case refuted:
		r.derived = true
		r.report(r.absenceOptions(), func() Violation {
			t := r.tell()
			for i, c := range s.involved {
				if i == maxInvolved {
					t.say("and %d more such reads", len(s.involved)-i)
					break
				}
				t.say("%s found %s absent%s, in one of %d absences", t.name(c.att), r.ix.name(c.key),
					t.scanned(c.att, c.key, c.scan), c.hi-c.lo+1)
			}
			t.say("every choice among these absences ends in a cycle")
			return t.violation(Unplaceable, "")
		})
	case undecided:
		r.undecided = true
	}
}

// maxInvolved bounds the reads named in one explanation.
const maxInvolved = 8

func (r *run) cyclic(keep func(*edge) bool) bool {
	r.graph.build(r.edges, keep)
	return r.graph.components()
}

// options are the unknown attempts, one of which must be committed if edge e does not hold.
func (r *run) options(e *edge) []int32 {
	switch {
	case !e.absent || len(r.ix.unknown) == 0:
		return nil
	case r.derived:
		return r.absenceOptions()
	case e.dep == depWR:
		return r.deleters(e.key, r.end(e.to))
	}
	return r.deleters(e.key, r.end(e.from))
}

// absenceOptions are the unknown attempts that may have made any key absent for any reader.
func (r *run) absenceOptions() []int32 {
	var out []int32
	for key := range r.ix.maybeDeleted {
		if r.absent[key] {
			out = append(out, r.deleters(key, math.MaxInt64)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// reportCycles reports one cycle of each strongly connected component. If some hold whatever became of
// the unknown attempts, it reports only those.
func (r *run) reportCycles() {
	var keep func(*edge) bool
	if len(r.ix.maybeDeleted) > 0 {
		firm := func(e *edge) bool { return len(r.options(e)) == 0 }
		if r.cyclic(firm) {
			keep = firm
		} else {
			r.cyclic(nil)
		}
	}
	g := &r.graph
	size := make([]int32, g.comps)
	for v := range g.nodes {
		size[g.comp[v]]++
	}
	inside := map[int32][]edge{}
	for i := range r.edges {
		e := &r.edges[i]
		if c := g.comp[e.from]; e.dep != depRT && size[c] > 1 && c == g.comp[e.to] && (keep == nil || keep(e)) {
			inside[c] = append(inside[c], *e)
		}
	}
	members := map[int32][]int32{}
	for v := range int32(g.attempts) {
		if c := g.comp[v]; size[c] > 1 {
			members[c] = append(members[c], v)
		}
	}
	order := make([]int32, 0, len(members))
	for c := range members {
		order = append(order, c)
	}
	slices.SortFunc(order, func(x, y int32) int { return cmp.Compare(y, x) })
	for _, c := range order {
		if len(r.violations) >= r.opt.Limit && r.hard {
			r.total++
			continue
		}
		cycle := r.newFinder(members[c], inside[c]).find()
		var options []int32
		for i := range cycle {
			options = append(options, r.options(&cycle[i])...)
		}
		slices.Sort(options)
		r.report(slices.Compact(options), func() Violation { return r.tellCycle(cycle) })
	}
}

// finder looks for a short cycle in one strongly connected component. It numbers attempts from 0 in
// order of begin, and takes real time from the clock, without helpers.
type finder struct {
	r          *run
	atts       []int32
	begin, end []int64
	edges      []edge // by from, then kind, so that the strongest of parallel edges comes first
	off        []int32
	work       int

	// Scratch of shortest: a node was reached in the round that seen says.
	queue, seen, depth []int32
	parent             []edge
	round              int32
}

// maxFinderWork bounds the edges followed in search of a shortest cycle; then the shortest found so far must do.
const maxFinderWork = 30_000_000

func (r *run) newFinder(members []int32, inside []edge) *finder {
	f := &finder{r: r, atts: members, edges: inside}
	slices.SortFunc(members, func(x, y int32) int { return cmp.Or(cmp.Compare(r.begin(x), r.begin(y)), cmp.Compare(x, y)) })
	local := make(map[int32]int32, len(members))
	for i, a := range members {
		local[a] = int32(i)
		f.begin = append(f.begin, r.begin(a))
		f.end = append(f.end, r.end(a))
	}
	for i := range f.edges {
		e := &f.edges[i]
		e.from, e.to = local[e.from], local[e.to]
	}
	slices.SortFunc(f.edges, func(x, y edge) int {
		return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.dep, y.dep), cmp.Compare(x.to, y.to), cmp.Compare(x.key, y.key))
	})
	f.seen = make([]int32, len(members))
	f.depth = make([]int32, len(members))
	f.parent = make([]edge, len(members))
	f.off = make([]int32, len(members)+1)
	for i := range f.edges {
		f.off[f.edges[i].from+1]++
	}
	for i := range members {
		f.off[i+1] += f.off[i]
	}
	return f
}

// find returns a cycle of the worst class there is, as short as it finds one.
func (f *finder) find() []edge {
	cycle := f.findClass()
	for i := range cycle {
		cycle[i].from, cycle[i].to = f.atts[cycle[i].from], f.atts[cycle[i].to]
	}
	// Begin with an rw edge: "T1 read what T2 replaced" is where a story starts.
	for i := range cycle {
		if cycle[i].dep == depRW {
			return append(slices.Clone(cycle[i:]), cycle[:i]...)
		}
	}
	return cycle
}

func (f *finder) findClass() []edge {
	for _, most := range [...]dep{depWW, depWR, depRW} {
		g := graph{nodes: len(f.atts)}
		g.build(f.edges, func(e *edge) bool { return e.dep <= most })
		if !g.components() {
			continue
		}
		cycle := f.shortest(most, g.comp, nil)
		if most == depRW && countDep(cycle, depRW) > 1 {
			if single := f.singleRW(g.comp); single != nil {
				return single
			}
		}
		return cycle
	}
	return f.shortest(depRT, nil, nil)
}

func countDep(es []edge, d dep) int {
	n := 0
	for i := range es {
		if es[i].dep == d {
			n++
		}
	}
	return n
}

// singleRW finds the shortest cycle with one rw edge and none of real time.
func (f *finder) singleRW(comp []int32) []edge {
	var best []edge
	for i := range f.edges {
		e := &f.edges[i]
		if e.dep != depRW || comp[e.from] != comp[e.to] {
			continue
		}
		if path := f.shortest(depWR, comp, e); path != nil && (best == nil || len(path) < len(best)) {
			best = path
		}
		if f.work > maxFinderWork {
			break
		}
	}
	return best
}

// shortest finds the shortest cycle of edges up to kind most, within components if comp is given, and through
// edge first, which may be of any kind, if that is given.
func (f *finder) shortest(most dep, comp []int32, first *edge) []edge {
	if most == depRT && first == nil {
		// Most real-time violations are of two: spare the search.
		for i := range f.edges {
			if e := f.edges[i]; f.end[e.to] < f.begin[e.from] {
				return []edge{e, {from: e.to, to: e.from, key: -1, dep: depRT}}
			}
		}
	}
	n := len(f.atts)
	var best []edge
	for start := range int32(n) {
		if first != nil {
			start = first.to
		}
		goal := start
		if first != nil {
			goal = first.from
		}
		f.round++
		f.queue = append(f.queue[:0], start)
		f.depth[start] = 0
		suffix := n // attempts from here on, by begin, were reached by real time
		found := false
		reach := func(e edge) {
			if found || f.seen[e.to] == f.round || e.to == start && goal != start || comp != nil && comp[e.to] != comp[start] {
				return
			}
			f.seen[e.to] = f.round
			f.parent[e.to] = e
			if e.to == goal {
				found = true
				return
			}
			f.depth[e.to] = f.depth[e.from] + 1
			f.queue = append(f.queue, e.to)
		}
		for q := 0; q < len(f.queue) && !found; q++ {
			u := f.queue[q]
			if best != nil && int(f.depth[u])+1 >= len(best) {
				break
			}
			for i := f.off[u]; i < f.off[u+1]; i++ {
				if f.edges[i].dep <= most {
					reach(f.edges[i])
				}
			}
			f.work += int(f.off[u+1]-f.off[u]) + 1
			if most == depRT {
				for suffix > 0 && f.begin[suffix-1] > f.end[u] {
					suffix--
					reach(edge{from: u, to: int32(suffix), key: -1, dep: depRT})
					f.work++
				}
			}
		}
		if found {
			best = best[:0]
			for v := goal; ; {
				e := f.parent[v]
				best = append(best, e)
				if v = e.from; v == start {
					break
				}
			}
			if first != nil {
				best = append(best, *first)
			}
			slices.Reverse(best)
		}
		if first != nil || len(best) == 2 || best != nil && f.work > maxFinderWork {
			break
		}
	}
	return best
}

func (r *run) tellCycle(cycle []edge) Violation {
	ww, wr, rw, rt := countDep(cycle, depWW), countDep(cycle, depWR), countDep(cycle, depRW), countDep(cycle, depRT)
	scan := slices.ContainsFunc(cycle, func(e edge) bool { return e.scan })
	var kind Kind
	title := ""
	switch {
	case rt > 0:
		kind = RealTime
		switch {
		case rw == 1:
			title = "stale read"
		case rw == 0 && wr > 0:
			title = "read from the future"
		case rw == 0:
			title = "writes against the clock"
		}
	case rw == 0 && wr == 0:
		kind = WriteCycle
	case rw == 0:
		kind = CircularFlow
	case rw == 1:
		kind = ReadSkew
		if len(cycle) == 2 && ww == 1 && cycle[0].key == cycle[1].key {
			title = "lost update"
		}
	default:
		kind = WriteSkew
		if scan {
			title = "phantom"
		}
	}
	if title != "" {
		title += ", "
	}
	title += fmt.Sprintf("a cycle of %d transactions", len(cycle))
	t := r.tell()
	for i := range cycle {
		t.name(cycle[i].from)
	}
	for i := range cycle {
		t.tellEdge(&cycle[i])
	}
	return t.violation(kind, title)
}

// tellEdge says why the attempt at the tail of an edge comes before the one at its head.
func (t *teller) tellEdge(e *edge) {
	r := t.r
	from, to := t.name(e.from), t.name(e.to)
	if e.dep == depRT {
		t.say("%s ended %s before %s began (real time)", from, duration(r.begin(e.to)-r.end(e.from)), to)
		return
	}
	key := r.ix.name(e.key)
	own := func(a int32) *write { return &r.ix.writes[r.ix.own(a, e.key)] }
	switch {
	case e.dep == depWW:
		t.say("%s %s, after which %s %s (ww)", from, own(e.from).did(key), to, own(e.to).did(key))
	case e.dep == depWR && e.absent:
		t.say("%s %s, after which %s found it absent%s%s (wr)", from, own(e.from).did(key), to, t.scanned(e.to, e.key, e.scan), t.absences(e))
	case e.dep == depWR:
		t.say("%s read %s at version %d, which %s wrote (wr)", to, key, own(e.from).ver, from)
	case e.absent:
		t.say("%s found %s absent%s%s, after which %s %s (rw)", from, key, t.scanned(e.from, e.key, e.scan), t.absences(e), to, own(e.to).did(key))
	default:
		ver := r.initial[e.key]
		if p := r.pos[r.ix.own(e.to, e.key)]; p > 0 {
			ver = r.ix.writes[r.chainOf(e.key)[p-1]].ver
		}
		if w := own(e.to); w.del {
			t.say("%s read %s at version %d, which %s deleted (version %d) (rw)", from, key, ver, to, w.ver)
		} else {
			t.say("%s read %s at version %d, which %s replaced by version %d (rw)", from, key, ver, to, w.ver)
		}
	}
}

// absences says that the key was absent more than once, and that only this time fits.
func (t *teller) absences(e *edge) string {
	if n := len(t.r.periodsOf(e.key)); n > 1 {
		return fmt.Sprintf(" (of its %d absences, the others fit no better)", n)
	}
	return ""
}

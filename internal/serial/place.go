package serial

import (
	"cmp"
	"slices"
	"sort"
)

// search places reads of absent keys that real time allows in several absences of their key. Each choice
// adds two edges, and the graph must stay free of cycles. It is a constraint search:
//
//   - The graph's topological order is kept up to date edge by edge (Pearce and Kelly, JEA 11, 2006), so asking
//     whether one attempt must precede another costs nothing when the order already says no.
//   - The absences of a key are ordered, so those left to a read are an interval: the insert that ends an
//     absence too early reaches the read, the deletion that begins one too late is reached by it. An interval
//     of one is settled for good.
//   - What is left is tried, the absence in which the read already lies in the order first. When none is left, the search
//     jumps back to the latest choice that had a part in it (Prosser, conflict-directed backjumping, 1993).
type search struct {
	r       *run
	fwd     adjacency
	bwd     adjacency
	order   []int32 // node -> place in the topological order
	added   []added // edges added, to be taken back from the end
	steps   int
	choices []choice
	// involved are the choices that a refutation rests on.
	involved []choice

	// Scratch of the graph walks.
	seen   []int32
	round  int32
	stack  []int32
	parent []hop // how a node was reached in the last walk
	ahead  []int32
	behind []int32
	slots  []int32
}

// adjacency is a fixed list and one that grows and shrinks.
type adjacency struct {
	off, to []int32
	more    map[int32][]link
}

// link is an added edge, with the choice that it belongs to; settled for good is -1.
type link struct{ to, choice int32 }

type hop struct{ from, choice int32 }

type added struct{ from, to int32 }

const settled = -1

type placing uint8

const (
	placed    placing = iota // every read has its place
	cyclic                   // a read has none, and r.edges now has the cycle that says so
	refuted                  // every combination fails
	undecided                // out of steps
)

func newSearch(r *run) *search {
	g := &r.graph
	s := &search{r: r, choices: r.choices}
	s.fwd = adjacency{g.off, g.to, map[int32][]link{}}
	s.bwd = adjacency{make([]int32, g.nodes+1), make([]int32, len(g.to)), map[int32][]link{}}
	for _, v := range g.to {
		s.bwd.off[v+1]++
	}
	for v := range g.nodes {
		s.bwd.off[v+1] += s.bwd.off[v]
	}
	next := slices.Clone(s.bwd.off)
	for v := range int32(g.nodes) {
		for _, w := range g.to[g.off[v]:g.off[v+1]] {
			s.bwd.to[next[w]] = v
			next[w]++
		}
	}
	// Without cycles every node is a component, and their numbers fall along the edges.
	s.order = make([]int32, g.nodes)
	for v := range s.order {
		s.order[v] = int32(g.comps) - 1 - g.comp[v]
	}
	s.seen = make([]int32, g.nodes)
	s.parent = make([]hop, g.nodes)
	return s
}

// frame is the state of one choice in the search.
type frame struct {
	lo, hi    int32 // what the choices before it leave
	first     int32 // tried first
	next      int32 // tried next; first is passed over
	mark      int   // added edges before it
	conflicts map[int32]struct{}
}

func (s *search) place() placing {
	if v := s.propagate(); v != placed || len(s.choices) == 0 {
		return v
	}
	// By place in the order, so that choices with something in common follow each other.
	slices.SortStableFunc(s.choices, func(x, y choice) int { return cmp.Compare(s.order[x.att], s.order[y.att]) })
	frames := make([]frame, len(s.choices))
	involved := map[int32]struct{}{}
	enter := func(i int) {
		f := &frames[i]
		*f = frame{mark: len(s.added)}
		f.lo, f.hi = s.interval(s.choices[i])
		f.first = s.nearest(s.choices[i], f.lo, f.hi)
		f.next = f.lo - 1 // stands for first
	}
	enter(0)
	for i := 0; ; {
		if s.steps > s.r.opt.Steps {
			return undecided
		}
		s.steps++
		f := &frames[i]
		if f.next == f.first {
			f.next++
		}
		if f.next <= f.hi && f.lo <= f.hi {
			p := f.next
			if p < f.lo {
				p = f.first
			}
			f.next++
			s.choose(s.choices[i], p, int32(i))
			if i++; i == len(s.choices) {
				return placed
			}
			enter(i)
			continue
		}
		conflicts := s.conflicts(i, f)
		delete(conflicts, int32(i))
		involved[int32(i)] = struct{}{}
		back := int32(-1)
		for j := range conflicts {
			involved[j] = struct{}{}
			back = max(back, j)
		}
		if back < 0 {
			s.keepInvolved(involved)
			return refuted
		}
		i = int(back)
		s.undo(frames[i].mark)
		if frames[i].conflicts == nil {
			frames[i].conflicts = conflicts
		} else {
			for j := range conflicts {
				frames[i].conflicts[j] = struct{}{}
			}
		}
	}
}

func (s *search) keepInvolved(set map[int32]struct{}) {
	for i, c := range s.choices {
		if _, ok := set[int32(i)]; ok {
			s.involved = append(s.involved, c)
		}
	}
}

// propagate settles choices of which the graph leaves one place, until there are no more. It keeps the others.
func (s *search) propagate() placing {
	for again := true; again; {
		again = false
		left := s.choices[:0:0]
		for _, c := range s.choices {
			if s.steps > s.r.opt.Steps {
				return undecided
			}
			lo, hi := s.interval(c)
			if lo > hi {
				// The absence before lo was over too early: say so, with the edge that makes a cycle of it.
				s.r.edgeBefore(c.att, c.key, s.r.periodsOf(c.key)[lo-1].end, c.scan)
				return cyclic
			}
			changed := lo > c.lo || hi < c.hi
			c.lo, c.hi = lo, hi
			if changed {
				again = true
				mark := len(s.r.edges)
				s.r.edgeAfter(c.att, c.key, s.r.periodsOf(c.key)[lo].start, c.scan)
				s.r.edgeBefore(c.att, c.key, s.r.periodsOf(c.key)[hi].end, c.scan)
				for _, e := range s.r.edges[mark:] {
					s.add(e.from, e.to, settled)
				}
			}
			if lo < hi {
				left = append(left, c)
			}
		}
		s.choices = left
	}
	return placed
}

// ends are the attempts between which a read must come if it is placed in period p; -1 is none.
func (s *search) ends(c choice, p int32) (after, before int32) {
	chain := s.r.chainOf(c.key)
	after, before = -1, -1
	pr := s.r.periodsOf(c.key)[p]
	if pr.start >= 0 {
		after = s.r.writer(chain[pr.start])
	}
	if int(pr.end) < len(chain) {
		before = s.r.writer(chain[pr.end])
	}
	return after, before
}

// interval returns the periods that the graph leaves to a choice. The chain is part of the graph, so
// what is too early or too late for one period is so for all before or behind it.
func (s *search) interval(c choice) (lo, hi int32) {
	lo = c.lo + int32(sort.Search(int(c.hi-c.lo+1), func(i int) bool {
		_, before := s.ends(c, c.lo+int32(i))
		return before < 0 || !s.reaches(before, c.att)
	}))
	hi = c.hi - int32(sort.Search(int(c.hi-lo+1), func(i int) bool {
		after, _ := s.ends(c, c.hi-int32(i))
		return after < 0 || !s.reaches(c.att, after)
	}))
	return lo, hi
}

// nearest returns the period in which the read lies in the present order, or the one next to it.
func (s *search) nearest(c choice, lo, hi int32) int32 {
	return lo + int32(sort.Search(int(hi-lo), func(i int) bool {
		_, before := s.ends(c, lo+int32(i))
		return before < 0 || s.order[before] > s.order[c.att]
	}))
}

func (s *search) choose(c choice, p, choice int32) {
	after, before := s.ends(c, p)
	if after >= 0 {
		s.add(after, c.att, choice)
	}
	if before >= 0 {
		s.add(c.att, before, choice)
	}
}

// conflicts are the earlier choices but for which choice i would have another period left.
func (s *search) conflicts(i int, f *frame) map[int32]struct{} {
	set := f.conflicts
	if set == nil {
		set = map[int32]struct{}{}
	}
	c := s.choices[i]
	path := func(from, to int32) {
		if !s.reaches(from, to) {
			panic("serial: a period was ruled out without a path") // a fault of this package
		}
		for v := to; v != from; v = s.parent[v].from {
			if s.parent[v].choice != settled {
				set[s.parent[v].choice] = struct{}{}
			}
		}
	}
	if f.lo > c.lo {
		_, before := s.ends(c, f.lo-1)
		path(before, c.att)
	}
	if f.hi < c.hi {
		after, _ := s.ends(c, f.hi+1)
		path(c.att, after)
	}
	return set
}

// reaches says whether there is a path, and leaves it in parent.
func (s *search) reaches(from, to int32) bool {
	if s.order[from] >= s.order[to] {
		return from == to
	}
	s.round++
	s.stack = append(s.stack[:0], from)
	s.seen[from] = s.round
	limit := s.order[to]
	for len(s.stack) > 0 {
		v := s.stack[len(s.stack)-1]
		s.stack = s.stack[:len(s.stack)-1]
		found := false
		s.fwd.each(v, func(l link) {
			s.steps++
			if s.seen[l.to] != s.round && s.order[l.to] <= limit {
				s.seen[l.to] = s.round
				s.parent[l.to] = hop{v, l.choice}
				s.stack = append(s.stack, l.to)
				found = found || l.to == to
			}
		})
		if found {
			return true
		}
	}
	return false
}

func (a *adjacency) each(v int32, f func(link)) {
	for _, w := range a.to[a.off[v]:a.off[v+1]] {
		f(link{w, settled})
	}
	for _, l := range a.more[v] {
		f(l)
	}
}

// add puts in an edge that closes no cycle, and mends the order.
func (s *search) add(from, to, choice int32) {
	s.fwd.more[from] = append(s.fwd.more[from], link{to, choice})
	s.bwd.more[to] = append(s.bwd.more[to], link{from, choice})
	s.added = append(s.added, added{from, to})
	low, high := s.order[to], s.order[from]
	if high < low {
		return
	}
	s.ahead = s.collect(&s.fwd, to, s.ahead[:0], low, high)
	s.behind = s.collect(&s.bwd, from, s.behind[:0], low, high)
	byOrder := func(x, y int32) int { return cmp.Compare(s.order[x], s.order[y]) }
	slices.SortFunc(s.ahead, byOrder)
	slices.SortFunc(s.behind, byOrder)
	s.slots = s.slots[:0]
	for _, v := range s.behind {
		s.slots = append(s.slots, s.order[v])
	}
	for _, v := range s.ahead {
		s.slots = append(s.slots, s.order[v])
	}
	slices.Sort(s.slots)
	for i, v := range append(s.behind, s.ahead...) {
		s.order[v] = s.slots[i]
	}
}

// collect walks from v over nodes whose order lies in [low, high].
func (s *search) collect(a *adjacency, v int32, into []int32, low, high int32) []int32 {
	s.round++
	s.seen[v] = s.round
	s.stack = append(s.stack[:0], v)
	for len(s.stack) > 0 {
		v := s.stack[len(s.stack)-1]
		s.stack = s.stack[:len(s.stack)-1]
		into = append(into, v)
		a.each(v, func(l link) {
			s.steps++
			if s.seen[l.to] != s.round && s.order[l.to] >= low && s.order[l.to] <= high {
				s.seen[l.to] = s.round
				s.stack = append(s.stack, l.to)
			}
		})
	}
	return into
}

// undo takes back added edges down to a mark. The order stays right for what is left.
func (s *search) undo(mark int) {
	for len(s.added) > mark {
		e := s.added[len(s.added)-1]
		s.added = s.added[:len(s.added)-1]
		s.fwd.more[e.from] = s.fwd.more[e.from][:len(s.fwd.more[e.from])-1]
		s.bwd.more[e.to] = s.bwd.more[e.to][:len(s.bwd.more[e.to])-1]
	}
}

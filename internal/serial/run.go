package serial

import (
	"math"
	"slices"
)

// run is one pass over the history under one assumption about the attempts of unknown outcome.
type run struct {
	ix  *index
	opt Options

	counted []bool           // attempts taken as committed
	why     map[int32]reason // for those of unknown outcome
	work    []int32          // counted, demands not yet looked at
	undone  []demand         // versions seen that several unknown attempts may have written

	// chain[chainOff[k]:chainOff[k+1]] are the counted writes of key k by version: its ww order.
	chain    []int32
	chainOff []int32
	pos      []int32        // of each write in the chain of its key, -1 if not counted
	initial  []uint64       // version of each key before its chain; 0 is absent
	broken   []bool         // the chain of a key does not hold together: absences of it say nothing
	open     map[int32]bool // it is not known who wrote a version seen of the key
	periods  [][]period
	blocks   [][]block // per table, of ix.sorted

	edges     []edge
	choices   []choice
	absent    []bool // keys that counted attempts found absent, in a way that put up an edge or a choice
	stamp     []int32
	stamps    int32
	again     bool // an unknown attempt was found to be committed after the chains were made
	derived   bool // some edges follow from others, not from their own key alone
	undecided bool // the search for places of absent reads was given up

	violations []Violation
	total      int
	hard       bool    // one violation depends on no unknown attempt
	soft       []int32 // else: one of these must be committed if the history is right
	graph      graph
}

// Dep is the kind of a dependency edge.
type dep uint8

const (
	depWW dep = iota
	depWR
	depRW
	depRT
)

// edge says that from comes before to in every serial order.
type edge struct {
	from, to int32
	key      int32
	dep      dep
	absent   bool // the read found the key absent
	scan     bool // by a scan
}

func newRun(ix *index, opt Options, taken []int32) *run {
	r := &run{ix: ix, opt: opt, counted: make([]bool, len(ix.h.Attempts)), why: map[int32]reason{}}
	for i := range ix.h.Attempts {
		r.counted[i] = ix.h.Attempts[i].Outcome == Commit
	}
	if len(ix.unknown) > 0 {
		for i, c := range r.counted {
			if c {
				r.work = append(r.work, int32(i))
			}
		}
	}
	for _, a := range taken {
		r.take(a, reason{kind: whyTried})
	}
	return r
}

// check looks for violations of every kind.
func (r *run) check() {
	for {
		r.settle()
		r.violations, r.total, r.hard, r.soft = nil, 0, false, nil
		r.edges, r.choices, r.again = r.edges[:0], nil, false
		r.periods = make([][]period, len(r.ix.keys))
		r.absent = make([]bool, len(r.ix.keys))
		r.checkRecording()
		r.checkDemands()
		r.checkChains()
		r.checkAborted()
		r.sumBlocks()
		r.addEdges()
		if !r.again {
			break
		}
	}
	r.addRealTime()
	r.checkGraph()
}

// report keeps a violation. options are the unknown attempts one of which must be committed if the
// history is right after all; without any the violation is final.
func (r *run) report(options []int32, tell func() Violation) {
	r.total++
	if len(options) == 0 {
		r.hard = true
	} else if r.soft == nil {
		r.soft = options
	}
	if len(r.violations) < r.opt.Limit {
		r.violations = append(r.violations, tell())
	}
}

func (r *run) begin(a int32) int64 { return r.ix.h.Attempts[a].Begin }

// end is when an attempt had surely taken effect: never, if its outcome is unknown.
func (r *run) end(a int32) int64 {
	if at := &r.ix.h.Attempts[a]; at.Outcome != Unknown {
		return at.End
	}
	return math.MaxInt64
}

func (r *run) chainOf(key int32) []int32 { return r.chain[r.chainOff[key]:r.chainOff[key+1]] }

// writer returns the attempt behind a place in a chain.
func (r *run) writer(w int32) int32 { return r.ix.writes[w].att }

func (r *run) checkRecording() {
	for _, f := range r.ix.faults {
		r.report(nil, func() Violation {
			t := r.tell(f.atts...)
			t.say("%s", f.text)
			return t.violation(Recording, "")
		})
	}
	r.total += r.ix.faulty - len(r.ix.faults)
}

// checkAborted looks at what aborted attempts saw. They need not have seen one moment, but no dirty
// version either.
func (r *run) checkAborted() {
	for i := range r.ix.h.Attempts {
		if r.ix.h.Attempts[i].Outcome == Abort {
			r.eachRef(int32(i), func(key int32, ver uint64, scan bool) {
				if ver != 0 {
					r.resolve(int32(i), key, ver, seenRead)
				}
			})
		}
	}
}

// eachRef calls f for everything that attempt a lists as read.
func (r *run) eachRef(a int32, f func(key int32, ver uint64, scan bool)) {
	at := &r.ix.h.Attempts[a]
	refs := r.ix.refs[r.ix.refOff[a]:r.ix.refOff[a+1]]
	for j := range at.Reads {
		f(refs[j], at.Reads[j].Version, false)
	}
	refs = refs[len(at.Reads):]
	for j := range at.Scans {
		keys := at.Scans[j].Keys
		for i := range keys {
			f(refs[i], keys[i].Version, true)
		}
		refs = refs[len(keys):]
	}
}

// deleters are the unknown attempts, not in the chain, whose deletion may have made key absent for a
// reader that ended at the given time. Those found to be committed in this very pass are among them, since the
// chains do not know of it yet.
func (r *run) deleters(key int32, by int64) []int32 {
	var out []int32
	for _, w := range r.ix.maybeDeleted[key] {
		x := &r.ix.writes[w]
		if r.pos[w] < 0 && r.begin(x.att) <= by && r.fits(x) {
			out = append(out, x.att)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// fits says that the chain of its key leaves room for x, which is not counted: what it replaced may have
// been there, and no counted attempt replaced that instead.
func (r *run) fits(x *write) bool {
	c := r.chainOf(x.key)
	ws := r.ix.versions(x.key, x.prev)
	for _, w := range ws {
		if p := r.pos[w]; p >= 0 {
			return !r.ix.writes[w].del && (int(p)+1 == len(c) || r.ix.writes[c[p+1]].prev != x.prev)
		}
	}
	for _, w := range ws {
		if y := &r.ix.writes[w]; r.ix.h.Attempts[y.att].Outcome == Unknown && !y.del {
			return true
		}
	}
	return r.unwritten(x.key, x.prev) && (len(c) == 0 || r.ix.writes[c[0]].prev == 0)
}

package serial

import (
	"cmp"
	"slices"
)

type moment struct {
	at  int64
	att int32
}

// addRealTime orders attempts by the clock: one that ended before another began comes first. The pairs are n² in
// number, so they go through a timeline of helper nodes, one wherever a begin follows an end: an attempt points
// at the helper behind its end, each helper at the next, and the last helper before a begin at the
// attempt that begins. Attempts of unknown outcome have no end.
func (r *run) addRealTime() {
	var begins, ends []moment
	for i, counted := range r.counted {
		if counted {
			begins = append(begins, moment{r.ix.h.Attempts[i].Begin, int32(i)})
			if r.ix.h.Attempts[i].Outcome != Unknown {
				ends = append(ends, moment{r.ix.h.Attempts[i].End, int32(i)})
			}
		}
	}
	order := func(x, y moment) int { return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.att, y.att)) }
	slices.SortFunc(begins, order)
	slices.SortFunc(ends, order)
	n := int32(len(r.counted))
	r.graph.nodes, r.graph.attempts = int(n), int(n)
	helper := int32(-1)
	e, held := 0, 0 // ends seen, ends that have their helper
	for _, b := range begins {
		for e < len(ends) && ends[e].at < b.at {
			e++
		}
		if held < e {
			next := int32(r.graph.nodes)
			r.graph.nodes++
			if helper >= 0 {
				r.edges = append(r.edges, edge{from: helper, to: next, key: -1, dep: depRT})
			}
			for ; held < e; held++ {
				r.edges = append(r.edges, edge{from: ends[held].att, to: next, key: -1, dep: depRT})
			}
			helper = next
		}
		if helper >= 0 {
			r.edges = append(r.edges, edge{from: helper, to: b.att, key: -1, dep: depRT})
		}
	}
}

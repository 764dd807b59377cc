package txn

import "fjord/coord"

// Stats are totals since Open. Sessions that are in the middle of a transaction
// are counted as of one of their last transactions.
type Stats struct {
	Committed uint64             // attempts that committed, read-only ones included
	ReadOnly  uint64             // of those, without a write
	Aborted   [NumReasons]uint64 // attempts that conflicted, by reason
	Cancelled uint64             // attempts that their function or their context ended
	Unknown   uint64             // attempts whose outcome was unknown
	Hits      uint64             // keys found at their cached address
	Misses    uint64             // keys that needed a look into their bucket
	Stale     uint64             // of those, because the cached address was wrong
	Verbs     coord.VerbStats    // everything this DB's sessions asked of memory nodes
}

// Sub returns what happened since o.
func (s Stats) Sub(o Stats) Stats {
	s.Committed -= o.Committed
	s.ReadOnly -= o.ReadOnly
	for i := range s.Aborted {
		s.Aborted[i] -= o.Aborted[i]
	}
	s.Cancelled -= o.Cancelled
	s.Unknown -= o.Unknown
	s.Hits -= o.Hits
	s.Misses -= o.Misses
	s.Stale -= o.Stale
	s.Verbs = s.Verbs.Sub(o.Verbs)
	return s
}

func (s *Stats) add(o *Stats) {
	s.Committed += o.Committed
	s.ReadOnly += o.ReadOnly
	for i := range s.Aborted {
		s.Aborted[i] += o.Aborted[i]
	}
	s.Cancelled += o.Cancelled
	s.Unknown += o.Unknown
	s.Hits += o.Hits
	s.Misses += o.Misses
	s.Stale += o.Stale
	s.Verbs.Add(&o.Verbs)
}

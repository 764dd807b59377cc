package lock

import (
	"fmt"
	"strings"
)

// Busy describes a failed try to lock a word, for the Strategy to decide on.
type Busy struct {
	Holder Token  // who held the word
	Tries  int    // how many tries this transaction has made on it, at least 1
	Rand   uint64 // random bits for the decision
}

// Strategy decides what a transaction does about a word that another holds. Its
// methods are called by many sessions at once and must not allocate.
type Strategy interface {
	// Name is the strategy's name on command lines and in reports.
	Name() string
	// Busy returns how many nanoseconds to wait before the next try, or false to
	// give up: the transaction then releases what it holds, and conflicts. It may
	// hold other locks, so every wait must be bounded.
	Busy(b Busy) (wait int64, again bool)
}

// CAS never waits: a word that is held is a conflict at once, as in FORD.
type CAS struct{}

// Name returns "cas".
func (CAS) Name() string { return "cas" }

// Busy gives up.
func (CAS) Busy(Busy) (int64, bool) { return 0, false }

// Backoff tries again after randomized, exponentially growing waits. Locks that
// the transaction already holds stay held meanwhile, so the tries are few; two
// transactions that wait for each other give up within their sum.
type Backoff struct {
	Min, Max int64 // nanoseconds: bounds of the first wait and of every wait
	Tries    int   // tries in all
}

// DefaultBackoff spans from about one round trip of a fast network to about the
// time that a short transaction holds a lock.
func DefaultBackoff() Backoff { return Backoff{Min: 2_000, Max: 32_000, Tries: 6} }

// Name returns "backoff".
func (Backoff) Name() string { return "backoff" }

// Busy draws the next wait.
func (s Backoff) Busy(b Busy) (int64, bool) {
	if b.Tries >= s.Tries {
		return 0, false
	}
	return Jitter(s.Min, s.Max, b.Tries, b.Rand), true
}

// Jitter returns a random wait in [w/2, w), where w is lo·2^(n-1), at most hi.
func Jitter(lo, hi int64, n int, rnd uint64) int64 {
	w := hi
	if shift := min(n-1, 62); lo <= hi>>shift { // else it is beyond hi, or beyond an int64
		w = lo << shift
	}
	half := w / 2
	if half <= 0 {
		return w
	}
	return half + int64(rnd%uint64(half))
}

// all is every strategy with its default settings.
func all() []Strategy { return []Strategy{CAS{}, DefaultBackoff()} }

// Names lists the strategies that ByName knows.
func Names() []string {
	var names []string
	for _, s := range all() {
		names = append(names, s.Name())
	}
	return names
}

// ByName returns a strategy with its default settings.
func ByName(name string) (Strategy, error) {
	for _, s := range all() {
		if s.Name() == name {
			return s, nil
		}
	}
	return nil, fmt.Errorf("lock: no strategy %q, there are %s", name, strings.Join(Names(), ", "))
}

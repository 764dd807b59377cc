package lock_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"fjord/lock"
)

// The strategies are known by their names, and a wrong name is answered with the
// right ones.
func TestByName(t *testing.T) {
	names := lock.Names()
	if !slices.Equal(names, []string{"cas", "backoff"}) {
		t.Errorf("names are %q", names)
	}
	for _, n := range names {
		s, err := lock.ByName(n)
		if err != nil || s.Name() != n {
			t.Errorf("%q is %v, %v", n, s, err)
		}
	}
	for _, bad := range []string{"", "CAS", "spin"} {
		_, err := lock.ByName(bad)
		if err == nil || !strings.Contains(err.Error(), "cas, backoff") || !strings.Contains(err.Error(), `"`+bad+`"`) {
			t.Errorf("%q: %v, want an error that names it and the strategies there are", bad, err)
		}
	}
}

// cas never waits.
func TestCASGivesUp(t *testing.T) {
	for tries := 1; tries < 100; tries++ {
		if wait, again := (lock.CAS{}).Busy(lock.Busy{Holder: 1, Tries: tries, Rand: math.MaxUint64}); again || wait != 0 {
			t.Errorf("try %d: waits %d, again %v", tries, wait, again)
		}
	}
}

// backoff makes so many tries in all, and waits between them, within its bounds,
// twice as long at most from one to the next.
func TestBackoffBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := lock.Backoff{Min: rapid.Int64Range(1, 1e9).Draw(t, "min"), Tries: rapid.IntRange(1, 50).Draw(t, "tries")}
		s.Max = s.Min * rapid.Int64Range(1, 1000).Draw(t, "max/min")
		tries, total := 0, int64(0)
		for tries = 1; ; tries++ {
			wait, again := s.Busy(lock.Busy{Holder: 1, Tries: tries, Rand: rapid.Uint64().Draw(t, "rand")})
			if !again {
				break
			}
			most := s.Max
			if tries < 32 {
				most = min(s.Max, s.Min<<(tries-1))
			}
			if wait > most || wait < most/2 {
				t.Fatalf("the wait after try %d is %d, want %d to %d", tries, wait, most/2, most)
			}
			total += wait
		}
		if tries != s.Tries {
			t.Fatalf("%d tries, want %d", tries, s.Tries)
		}
		if total > int64(s.Tries)*s.Max {
			t.Fatalf("%d ns of waits", total)
		}
	})
}

// The default lasts no longer than a short transaction may be kept waiting.
func TestDefaultBackoff(t *testing.T) {
	s := lock.DefaultBackoff()
	total := int64(0)
	for tries := 1; ; tries++ {
		wait, again := s.Busy(lock.Busy{Tries: tries, Rand: math.MaxUint64})
		if !again {
			break
		}
		total += wait
	}
	if total <= 0 || total > 1_000_000 {
		t.Errorf("the default waits %d ns in all, want more than none and less than a millisecond", total)
	}
}

// Waits are drawn: two that met once need not meet again.
func TestJitterSpreads(t *testing.T) {
	seen := make(map[int64]bool)
	for i := range uint64(1000) {
		seen[lock.Jitter(1000, 1000, 1, i*0x9e3779b97f4a7c15)] = true
	}
	if len(seen) < 200 {
		t.Errorf("1000 draws of 500 values gave %d of them", len(seen))
	}
}

// Whatever it is asked, the answer is a wait and none that is negative or beyond
// the upper bound.
func TestJitterOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lo, hi := rapid.Int64Range(0, math.MaxInt64).Draw(t, "lo"), rapid.Int64Range(0, math.MaxInt64).Draw(t, "hi")
		n, r := rapid.IntRange(1, 1000).Draw(t, "n"), rapid.Uint64().Draw(t, "rand")
		if w := lock.Jitter(lo, hi, n, r); w < 0 || w > hi {
			t.Fatalf("Jitter(%d, %d, %d, %d) is %d", lo, hi, n, r, w)
		}
	})
}

// A decision allocates nothing.
func TestBusyAllocatesNothing(t *testing.T) {
	var s lock.Strategy = lock.DefaultBackoff()
	if n := testing.AllocsPerRun(100, func() { s.Busy(lock.Busy{Tries: 2, Rand: 77}) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

package sim

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type nobody struct{}

func (nobody) fire(*World, event) {}

// TestAgenda: events come in the order of time, and of their making within one
// time, whether they were near or far when they were made.
func TestAgenda(t *testing.T) {
	type made struct {
		at  int64
		seq uint64
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var g agenda
	var want []made
	now, seq := int64(0), uint64(0)
	add := func(at int64) {
		seq++
		g.push(at, event{on: nobody{}, a: seq})
		m := made{at, seq}
		i, _ := slices.BinarySearchFunc(want, m, func(x, y made) int {
			if x.at != y.at {
				return int(x.at - y.at)
			}
			return int(x.seq) - int(y.seq)
		})
		want = slices.Insert(want, i, m)
	}
	for round := range 200_000 {
		if len(want) == 0 || len(want) < 500 && rng.IntN(100) < 51 {
			switch rng.IntN(8) {
			case 0:
				add(now + rng.Int64N(100*wheelSize))
			case 1:
				add(now + wheelSize - 2 + rng.Int64N(4))
			case 2:
				add(now)
			default:
				add(now + rng.Int64N(300))
			}
			continue
		}
		at, e := g.pop()
		if w := want[0]; w.at != at || w.seq != e.a {
			t.Fatalf("round %d: event %d at %d, right is %d at %d", round, e.a, at, w.seq, w.at)
		}
		want = want[1:]
		now = at
		if g.empty() != (len(want) == 0) {
			t.Fatalf("round %d: empty is %v, %d are left", round, g.empty(), len(want))
		}
	}
}

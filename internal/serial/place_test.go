package serial

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// gadget makes histories whose only difficulty is where reads of absent keys belong. Of key i, attempt 3i
// inserts it, 3i+1 deletes it, and 3i+2 found it absent: before or after, that is the choice. All attempts
// overlap.
func gadget(triples int) *History {
	h := &History{}
	for i := range triples {
		k := fmt.Sprintf("k%d", i)
		for j, a := range []Attempt{
			{Type: "insert", Writes: []Write{{"t", k, 0, 1, false}}},
			{Type: "delete", Writes: []Write{{"t", k, 1, 2, true}}},
			{Type: "look", Reads: []Read{{"t", k, 0}}},
		} {
			a.ID = fmt.Sprint(3*i + j)
			a.Session, a.Begin, a.End, a.Outcome = a.ID, 0, 100, Commit
			h.Attempts = append(h.Attempts, a)
		}
	}
	return h
}

const (
	ins = iota
	del
	look
)

// precede lets attempt y read what attempt x wrote, so that x comes before y.
func precede(h *History, x, y int) {
	k := fmt.Sprintf("%d-%d", x, y)
	for _, w := range h.Attempts[x].Writes {
		if w.Key == k {
			return
		}
	}
	h.Attempts[x].Writes = append(h.Attempts[x].Writes, Write{"link", k, 0, 1, false})
	h.Attempts[y].Reads = append(h.Attempts[y].Reads, Read{"link", k, 1})
}

// A read that must come after the insert and before the deletion found the key absent: the graph alone
// says that neither absence is left.
func TestNoAbsenceLeft(t *testing.T) {
	h := gadget(1)
	precede(h, ins, look)
	precede(h, look, del)
	res := Check(h, Options{})
	if res.OK || res.Choices != 1 {
		t.Fatalf("not found: %v", res.String())
	}
	wantWords(t, res, ReadSkew, "T1 found t/6b30 absent (of its 2 absences, the others fit no better), after which T2 inserted t/6b30 as version 1 (rw)")
	if bruteForce(h) {
		t.Fatal("the history is right after all")
	}
}

// Five reads, each of which has two places left for itself, but together they have none: if a comes before, b
// and c must come after, which they cannot both; if a comes after, d and e must come before, which they cannot
// both.
func TestNoCombinationLeft(t *testing.T) {
	h := gadget(5)
	at := func(triple, what int) int { return 3*triple + what }
	const a, b, c, d, e = 0, 1, 2, 3, 4
	precede(h, at(b, ins), at(a, look))
	precede(h, at(a, ins), at(b, look))
	precede(h, at(c, ins), at(a, look))
	precede(h, at(a, ins), at(c, look))
	precede(h, at(c, look), at(b, del))
	precede(h, at(b, look), at(c, del))
	precede(h, at(d, look), at(a, del))
	precede(h, at(a, look), at(d, del))
	precede(h, at(e, look), at(a, del))
	precede(h, at(a, look), at(e, del))
	precede(h, at(d, ins), at(e, look))
	if res := Check(h, Options{}); !res.OK || res.Choices != 5 {
		t.Fatalf("d and e can both come before, so far: %v", res.String())
	}
	precede(h, at(e, ins), at(d, look))
	res := Check(h, Options{})
	wantWords(t, res, Unplaceable, "every choice among these absences ends in a cycle")
	if bruteForce(h) {
		t.Fatal("the history is right after all")
	}
	if res := Check(h, Options{Steps: 1}); !res.Undecided || !res.OK {
		t.Errorf("out of steps, but: %v", res.String())
	}
}

// The search over places is right on random gadgets.
func TestChoicesAgainstBruteForce(t *testing.T) {
	rounds := envInt("SERIAL_ROUNDS", 1000)
	kinds := map[Kind]int{}
	good := 0
	for i := range rounds {
		rng := rand.New(rand.NewPCG(2, uint64(i)))
		n := 2 + rng.IntN(4)
		h := gadget(n)
		// Of two reads x and y: if each insert comes before the other's read, not both reads can be before; if
		// each read comes before the other's deletion, not both can be after. Such links alone never make a
		// cycle.
		dense := rng.IntN(100)
		for x := range n {
			for y := range n {
				if x != y && rng.IntN(100) < dense {
					precede(h, 3*x+ins, 3*y+look)
				}
				if x != y && rng.IntN(100) < dense {
					precede(h, 3*x+look, 3*y+del)
				}
			}
		}
		want, got := bruteForce(h), Check(h, Options{})
		if got.OK != want || got.Undecided {
			t.Fatalf("round %d: checker says %v, brute force %v\n%s", i, got.String(), want, dump(h))
		}
		if want {
			good++
		}
		for _, v := range got.Violations {
			kinds[v.Kind]++
		}
	}
	t.Logf("%d of %d good; %v", good, rounds, kinds)
}

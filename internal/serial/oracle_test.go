package serial

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// bruteForce is the definition: it tries every order of the committed attempts and of every subset of the
// unknown ones, and runs it against a plain map.
func bruteForce(h *History) bool {
	n := len(h.Attempts)
	writers := map[[2]string]map[uint64][]int{} // versions recorded, by any attempt
	note := func(i int, w Write) {
		k := [2]string{w.Table, w.Key}
		if writers[k] == nil {
			writers[k] = map[uint64][]int{}
		}
		writers[k][w.Version] = append(writers[k][w.Version], i)
	}
	bySession := map[string][]Attempt{}
	for i, a := range h.Attempts {
		if a.Begin > a.End || a.Outcome == 0 {
			return false
		}
		for _, b := range bySession[a.Session] {
			if a.Begin < b.End && b.Begin < a.End {
				return false
			}
		}
		bySession[a.Session] = append(bySession[a.Session], a)
		slices.SortStableFunc(a.Writes, func(x, y Write) int { return cmp.Compare(x.Version, y.Version) })
		if a.Outcome != Abort {
			last := map[[2]string]Write{}
			for _, w := range a.Writes {
				k := [2]string{w.Table, w.Key}
				if b, ok := last[k]; ok && (w.Prev != b.state() || w.Version == b.Version || b.Version <= b.Prev) {
					return false // a recording error
				}
				last[k] = w
			}
		}
		for _, w := range a.Writes {
			note(i, w)
		}
	}
	keys := map[[2]string]bool{}
	for _, a := range h.Attempts {
		for _, r := range a.Reads {
			keys[[2]string{r.Table, r.Key}] = true
		}
		for _, w := range a.Writes {
			keys[[2]string{w.Table, w.Key}] = true
		}
		for _, s := range a.Scans {
			for _, k := range s.Keys {
				keys[[2]string{s.Table, k.Key}] = true
			}
		}
	}
	// Aborted attempts saw nothing that only aborted ones wrote.
	type seen struct {
		key [2]string
		ver uint64
	}
	var unwritten []seen
	for i, a := range h.Attempts {
		if a.Outcome != Abort {
			continue
		}
		see := func(k [2]string, v uint64) bool {
			ws, ok := writers[k][v]
			if v == 0 {
				return true
			}
			if !ok {
				unwritten = append(unwritten, seen{k, v})
				return true
			}
			for _, w := range ws {
				if w == i {
					return true
				}
				// Another attempt's last version of a key may be seen, unless it deletes.
				var last Write
				for _, x := range h.Attempts[w].Writes {
					if x.Table == k[0] && x.Key == k[1] && x.Version >= last.Version {
						last = x
					}
				}
				if h.Attempts[w].Outcome != Abort && last.Version == v && !last.Delete {
					return true
				}
			}
			return false
		}
		for _, r := range a.Reads {
			if !see([2]string{r.Table, r.Key}, r.Version) {
				return false
			}
		}
		for _, s := range a.Scans {
			for _, k := range s.Keys {
				if !see([2]string{s.Table, k.Key}, k.Version) {
					return false
				}
			}
		}
	}
	type cell struct{ state, top uint64 }
	type store map[[2]string]cell // no entry: not touched yet
	apply := func(st store, a *Attempt) (store, bool) {
		st = maps.Clone(st)
		get := func(k [2]string, v uint64) bool {
			c, ok := st[k]
			if !ok {
				if _, written := writers[k][v]; v != 0 && written {
					return false
				}
				st[k] = cell{v, v}
				return true
			}
			return c.state == v
		}
		own := func(k [2]string, v uint64) bool {
			for _, w := range a.Writes {
				if v != 0 && w.Table == k[0] && w.Key == k[1] && w.Version == v {
					return true
				}
			}
			return false
		}
		for _, r := range a.Reads {
			k := [2]string{r.Table, r.Key}
			if !own(k, r.Version) && !get(k, r.Version) {
				return nil, false
			}
		}
		for _, s := range a.Scans {
			listed := map[string]bool{}
			in := func(k string) bool { return k >= s.From && (s.To == "" || k < s.To) }
			for _, kv := range s.Keys {
				listed[kv.Key] = true
				k := [2]string{s.Table, kv.Key}
				if !in(kv.Key) || !own(k, kv.Version) && !get(k, kv.Version) {
					return nil, false
				}
			}
			for k := range keys {
				if k[0] == s.Table && in(k[1]) && !listed[k[1]] && !deletes(a, k) && !get(k, 0) {
					return nil, false
				}
			}
		}
		for _, w := range a.Writes {
			k := [2]string{w.Table, w.Key}
			if !get(k, w.Prev) {
				return nil, false
			}
			c := st[k]
			if w.Version <= w.Prev || w.Version <= c.top {
				return nil, false
			}
			c.top, c.state = w.Version, w.Version
			if w.Delete {
				c.state = 0
			}
			st[k] = c
		}
		return st, true
	}
	var must, maybe uint
	for i, a := range h.Attempts {
		switch a.Outcome {
		case Commit:
			must |= 1 << i
		case Unknown:
			maybe |= 1 << i
		case Abort: // saw what it saw, and left nothing
		}
	}
	var try func(left uint, st store) bool
	// initial versions must agree with what aborted attempts saw; kept apart from the state
	ok := func(first map[[2]string]uint64) bool {
		lone := maps.Clone(first)
		for _, s := range unwritten {
			if v, ok := lone[s.key]; ok && v != s.ver {
				return false
			}
			lone[s.key] = s.ver
		}
		return true
	}
	var path []int
	dead := map[uint]bool{} // sets left that cannot be finished: the state depends on the set alone
	try = func(left uint, st store) bool {
		if left == 0 {
			first := map[[2]string]uint64{}
			st := store{}
			for _, i := range path {
				next, good := apply(st, &h.Attempts[i])
				if !good {
					panic("apply")
				}
				for k := range next {
					if _, had := st[k]; !had {
						// the state of a key before the attempt that touches it first
						first[k] = firstState(&h.Attempts[i], k)
					}
				}
				st = next
			}
			return ok(first)
		}
		if dead[left] {
			return false
		}
		for i := range n {
			if left&(1<<i) == 0 {
				continue
			}
			a := &h.Attempts[i]
			early := true
			for j := range n {
				if left&(1<<j) != 0 && j != i && h.Attempts[j].Outcome == Commit && h.Attempts[j].End < a.Begin {
					early = false
				}
			}
			if !early {
				continue
			}
			next, good := apply(st, a)
			if !good {
				continue
			}
			path = append(path, i)
			if try(left&^(1<<i), next) {
				return true
			}
			path = path[:len(path)-1]
		}
		dead[left] = true
		return false
	}
	for sub := maybe; ; sub = (sub - 1) & maybe {
		path = path[:0]
		clear(dead)
		if try(must|sub, store{}) {
			return true
		}
		if sub == 0 {
			return false
		}
	}
}

// firstState is what an attempt says of the state of k before it.
func firstState(a *Attempt, k [2]string) uint64 {
	for _, w := range a.Writes {
		if w.Table == k[0] && w.Key == k[1] {
			return w.Prev
		}
	}
	for _, r := range a.Reads {
		if r.Table == k[0] && r.Key == k[1] {
			return r.Version
		}
	}
	for _, s := range a.Scans {
		for _, kv := range s.Keys {
			if s.Table == k[0] && kv.Key == k[1] {
				return kv.Version
			}
		}
	}
	return 0
}

// deletes says that a key is gone after a.
func deletes(a *Attempt, k [2]string) bool {
	gone := false
	for _, w := range a.Writes {
		if w.Table == k[0] && w.Key == k[1] {
			gone = w.Delete
		}
	}
	return gone
}

// taste is a mix of what random histories are made of, each out of 100.
type taste struct {
	maxAttempts, maxKeys  int
	slack                 int64 // how far attempts overlap
	abort, unknown, scan  int
	read, write, deletes  int
	present               int // keys loaded before the history
	stale                 int // reads of a state that is over
	spoil                 int // rounds of random damage
	again                 int // keys written twice
	oneSession, readsOnly int
}

var tastes = map[string]taste{
	"mixed":   {maxAttempts: 6, maxKeys: 3, slack: 12, abort: 16, unknown: 33, scan: 25, read: 50, write: 33, deletes: 50, present: 50, spoil: 4, again: 8, oneSession: 5},
	"clean":   {maxAttempts: 6, maxKeys: 3, slack: 12, abort: 10, unknown: 10, scan: 30, read: 60, write: 50, deletes: 30, present: 50, stale: 30},
	"absence": {maxAttempts: 7, maxKeys: 3, slack: 20, scan: 30, read: 80, write: 60, deletes: 95, present: 20, stale: 50, readsOnly: 50},
	"erased":  {maxAttempts: 6, maxKeys: 2, slack: 15, unknown: 50, scan: 30, read: 80, write: 60, deletes: 90, present: 70, stale: 50, readsOnly: 40},
	"wide":    {maxAttempts: 6, maxKeys: 3, slack: 1000, read: 60, write: 50, deletes: 60, present: 50, stale: 30, scan: 10, readsOnly: 20},
	"crowd":   {maxAttempts: 13, maxKeys: 5, slack: 1000, read: 50, write: 40, deletes: 100, stale: 25, readsOnly: 50},
	"long":    {maxAttempts: 7, maxKeys: 2, slack: 1000, read: 100, write: 60, deletes: 100, stale: 40, readsOnly: 50},
}

// randomTiny makes a history of a few attempts over a few keys. It runs them in a serial order, and
// spoils what its taste says.
func randomTiny(rng *rand.Rand, c taste) *History {
	chance := func(percent int) bool { return rng.IntN(100) < percent }
	n := 2 + rng.IntN(c.maxAttempts-1)
	nk := 1 + rng.IntN(c.maxKeys)
	type cell struct{ state, top uint64 }
	st := make([]cell, nk)
	past := make([][]uint64, nk) // states that each key has had
	for i := range st {
		if chance(c.present) {
			st[i] = cell{1, 1}
		}
		past[i] = append(past[i], st[i].state)
	}
	key := func(i int) string { return string(rune('a' + i)) }
	h := &History{}
	now := int64(0)
	slack := 1 + rng.Int64N(c.slack)
	for i := range n {
		now += 2
		a := Attempt{ID: strconv.Itoa(i + 1), Session: strconv.Itoa(i), Type: "t",
			Begin: now - rng.Int64N(slack), End: now + rng.Int64N(slack), Outcome: Commit}
		run := true
		switch {
		case chance(c.abort):
			a.Outcome, run = Abort, false
		case chance(c.unknown):
			a.Outcome = Unknown
			run = chance(50)
		}
		see := func(k int) uint64 {
			if chance(c.stale) {
				return past[k][rng.IntN(len(past[k]))]
			}
			return st[k].state
		}
		for k := range st {
			if chance(c.read) {
				a.Reads = append(a.Reads, Read{"t", key(k), see(k)})
			}
		}
		if chance(c.scan) {
			s := Scan{Table: "t", From: key(rng.IntN(nk))}
			if chance(50) {
				s.To = key(rng.IntN(nk + 1))
			}
			for k := range st {
				if v := see(k); v != 0 && key(k) >= s.From && (s.To == "" || key(k) < s.To) {
					s.Keys = append(s.Keys, KeyVersion{key(k), v})
				}
			}
			a.Scans = append(a.Scans, s)
		}
		readOnly := chance(c.readsOnly)
		for k := range st {
			if readOnly || !chance(c.write) {
				continue
			}
			w := Write{"t", key(k), st[k].state, st[k].top + 1 + rng.Uint64N(2), false}
			w.Delete = w.Prev != 0 && chance(c.deletes) || chance(4)
			a.Writes = append(a.Writes, w)
			if chance(c.again) {
				again := Write{"t", key(k), w.state(), w.Version + 1, !w.Delete && chance(33)}
				a.Writes = append(a.Writes, again)
				w = again
			}
			if run {
				st[k] = cell{w.state(), w.Version}
				past[k] = append(past[k], w.state())
			}
		}
		h.Attempts = append(h.Attempts, a)
	}
	rng.Shuffle(n, func(i, j int) { h.Attempts[i], h.Attempts[j] = h.Attempts[j], h.Attempts[i] })
	for range rng.IntN(c.spoil + 1) {
		a := &h.Attempts[rng.IntN(n)]
		switch rng.IntN(7) {
		case 0, 1:
			if len(a.Reads) > 0 {
				r := &a.Reads[rng.IntN(len(a.Reads))]
				r.Version = st[r.Key[0]-'a'].top * rng.Uint64N(2)
				if chance(50) {
					r.Version = rng.Uint64N(5)
				}
			}
		case 2:
			if len(a.Writes) > 0 {
				w := &a.Writes[rng.IntN(len(a.Writes))]
				w.Prev = rng.Uint64N(4)
			}
		case 3:
			if len(a.Writes) > 0 {
				w := &a.Writes[rng.IntN(len(a.Writes))]
				w.Version = rng.Uint64N(6)
			}
		case 4:
			d := rng.Int64N(9) - 4
			a.Begin, a.End = a.Begin+d, a.End+d
		case 5:
			a.Outcome = Outcome(1 + rng.IntN(3))
		case 6:
			if len(a.Scans) > 0 && len(a.Scans[0].Keys) > 0 {
				a.Scans[0].Keys = slices.Delete(a.Scans[0].Keys, 0, 1)
			} else {
				a.Reads = append(a.Reads, Read{"t", key(rng.IntN(nk)), 0})
			}
		}
	}
	if chance(c.oneSession) {
		h.Attempts[0].Session = h.Attempts[1].Session
	}
	return h
}

func (w Write) state() uint64 {
	if w.Delete {
		return 0
	}
	return w.Version
}

func dump(h *History) string {
	s := ""
	for _, a := range h.Attempts {
		s += fmt.Sprintf("  %s s%s [%d,%d] %v r%v w%v s%v\n", a.ID, a.Session, a.Begin, a.End, a.Outcome, a.Reads, a.Writes, a.Scans)
	}
	return s
}

// The checker's verdict is that of the definition, both ways, over random small histories. Set SERIAL_ROUNDS
// and SERIAL_SEED for more and others.
func TestAgainstBruteForce(t *testing.T) {
	rounds, patience := 10_000, 2*time.Second
	if n := envInt("SERIAL_ROUNDS", 0); n > 0 {
		rounds, patience = n, time.Hour
	}
	seed := envInt("SERIAL_SEED", 1)
	for _, name := range slices.Sorted(maps.Keys(tastes)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			done, good, choices, unknown := 0, 0, 0, 0
			kinds := map[Kind]int{}
			start := time.Now()
			for ; done < rounds && time.Since(start) < patience; done++ {
				h := randomTiny(rand.New(rand.NewPCG(uint64(seed), uint64(done))), tastes[name])
				want := bruteForce(h)
				got := Check(h, Options{})
				if got.OK != want || got.Undecided {
					for _, v := range got.Violations {
						t.Log(v.Explain())
					}
					t.Fatalf("seed %d round %d: checker says %v, brute force %v\n%s", seed, done, got.String(), want, dump(h))
				}
				if want {
					good++
				}
				if got.Choices > 0 {
					choices++
				}
				if got.UnknownCommitted > 0 {
					unknown++
				}
				for _, v := range got.Violations {
					kinds[v.Kind]++
					if v.Explain() == "" || len(v.Attempts) == 0 {
						t.Fatalf("seed %d round %d: a violation without words", seed, done)
					}
				}
			}
			t.Logf("%d histories, %d good, %d with choices, %d with unknown attempts that committed", done, good, choices, unknown)
			for _, k := range slices.Sorted(maps.Keys(kinds)) {
				t.Logf("%7d %v", kinds[k], k)
			}
			if good < done/10 || good > done*9/10 {
				t.Errorf("%d of %d histories are good: too one-sided to tell anything", good, done)
			}
		})
	}
}

func envInt(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

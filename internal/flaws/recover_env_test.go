package flaws_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"fjord/coord"
	"fjord/internal/script"
	"fjord/txn"
	"fjord/verbs"
)

// deed is a kind of transaction, for those tests that kill somebody at every step of it.
type deed struct {
	name string
	keys int // of one bucket's chain, that are there before; a bucket has 8 slots
	fn   func(e *env, c int, k []int) func(*txn.Tx) error
}

// deeds are all kinds. Values have different lengths before and after, and records two
// lines, so that an image that landed in part, or reaches beyond the old one, shows. k
// are the keys that are there, behind them one that is not.
var deeds = []deed{
	{"update", 2, func(e *env, c int, k []int) func(*txn.Tx) error {
		return func(tx *txn.Tx) error { return tx.Put(e.tab[c], key(k[0]), wide(-1, 9)) }
	}},
	{"update that shrinks", 2, func(e *env, c int, k []int) func(*txn.Tx) error {
		return func(tx *txn.Tx) error { return tx.Put(e.tab[c], key(k[0]), wide(-1, 1)) }
	}},
	{"update of two", 0, func(e *env, c int, _ []int) func(*txn.Tx) error { return twoPuts(e, c, -1) }},
	{"update with a read set", 0, func(e *env, c int, _ []int) func(*txn.Tx) error {
		return func(tx *txn.Tx) error {
			if _, err := tx.Get(e.tab[c], key(crossed[2])); err != nil {
				return err
			}
			return twoPuts(e, c, -2)(tx)
		}
	}},
	{"update and a lock", 0, func(e *env, c int, _ []int) func(*txn.Tx) error {
		return func(tx *txn.Tx) error {
			if _, err := tx.GetForUpdate(e.tab[c], key(crossed[2])); err != nil {
				return err
			}
			return tx.Put(e.tab[c], key(crossed[0]), wide(-3, 3))
		}
	}},
	{"insert", 3, insertWide},
	{"insert into a fresh bucket", 8, insertWide},
	{"delete", 3, deleteLastOf},
	{"delete the last of a bucket", 9, deleteLastOf},
}

func twoPuts(e *env, c, v int) func(*txn.Tx) error {
	return func(tx *txn.Tx) error {
		for _, k := range crossed[:2] {
			if err := tx.Put(e.tab[c], key(k), wide(v, 7)); err != nil {
				return err
			}
		}
		return nil
	}
}

func insertWide(e *env, c int, k []int) func(*txn.Tx) error {
	return func(tx *txn.Tx) error { return tx.Insert(e.tab[c], key(k[len(k)-1]), wide(-1, 9)) }
}

func deleteLastOf(e *env, c int, k []int) func(*txn.Tx) error {
	return func(tx *txn.Tx) error { return tx.Delete(e.tab[c], key(k[len(k)-2])) }
}

// wide is a value of n words, all alike.
func wide(v, n int) []byte { return slices.Repeat(num(v), n) }

// crossed are keys whose records have different primaries: three where there are as many
// nodes. spread fills them in once, as where keys lie depends on the shape alone.
var crossed []int

// stage is a cluster in which a deed is about to be done by coordinator 0.
type stage struct {
	*env
	deed
	keys   []int // the chain, and one more
	before string
}

// setStage opens a cluster and fills it.
func setStage(e *env, d deed) *stage {
	s := &stage{env: e, deed: d}
	crossed = nil
	if d.keys > 0 {
		s.keys = e.chainOf(d.keys + 1)
		e.fill(s.keys[:d.keys])
	} else {
		crossed = e.spread()
		crossed = append(crossed, crossed[:max(0, 3-len(crossed))]...)
		s.keys = slices.Compact(slices.Sorted(slices.Values(crossed)))
		e.fill(s.keys)
	}
	e.known(s.keys...)
	s.before = s.look(1)
	return s
}

// again makes everything as it was before the deed, with a new coordinator for the one
// that has died.
func (s *stage) again() {
	s.t.Helper()
	s.db[0], s.tab[0] = s.another()
	s.dev[0] = s.opened - 1
	s.gone = nil
	s.fill(s.keys[:max(s.deed.keys, len(s.keys)-1)])
	if s.deed.keys > 0 {
		err := s.db[1].Update(ctx, func(tx *txn.Tx) error { return tx.Delete(s.tab[1], key(s.keys[s.deed.keys])) })
		if err != nil && !errors.Is(err, txn.ErrNotFound) {
			s.t.Fatal(err)
		}
	} else {
		s.fill(s.keys)
	}
	s.known(s.keys...)
	if now := s.look(1); now != s.before {
		s.t.Fatalf("the test has not put back what was:\n%snow\n%s", s.before, now)
	}
}

func (e *env) fill(keys []int) {
	e.t.Helper()
	for _, k := range keys {
		e.must(e.db[1].Update(ctx, func(tx *txn.Tx) error { return tx.Put(e.tab[1], key(k), wide(k, 5)) }))
	}
}

// chainOf is chain without a look at buckets: keys that a table of one bucket in each
// shard has in the first shard.
func (e *env) chainOf(n int) []int { return e.chain(n) }

// look tells everything that there is, as coordinator c sees it.
func (s *stage) look(c int) string {
	s.t.Helper()
	var out strings.Builder
	err := s.db[c].View(ctx, func(tx *txn.Tx) error {
		out.Reset()
		for _, k := range s.keys {
			v, err := tx.Get(s.tab[c], key(k))
			switch {
			case errors.Is(err, txn.ErrNotFound):
				fmt.Fprintf(&out, "%d absent\n", k)
			case err != nil:
				return err
			case !slices.Equal(v, wide(val(v), len(v)/8)):
				return fmt.Errorf("key %d is %x", k, v)
			default:
				fmt.Fprintf(&out, "%d %d ×%d\n", k, val(v), len(v)/8)
			}
		}
		return nil
	})
	if err != nil {
		s.t.Fatalf("coordinator %d cannot look at everything: %v", c, err)
	}
	return out.String()
}

// cut is a way to die at a request.
type cut int

const (
	cutBefore cut = iota // it does not execute
	cutAfter             // it executes, and is not answered
	cutFirst             // its first line lands
	cutLast              // its last line lands, and no other
	numCuts
)

func (c cut) String() string {
	return [...]string{"before", "after", "behind the first line of", "behind the last line of"}[c]
}

// kill ends a coordinator as it is now.
func (e *env) kill(c int) {
	e.Crashed(e.dev[c])
	e.gone = append(e.gone, c)
}

// die has coordinator c end at the n-th request of a task that match lets count.
func (e *env) die(task string, c cut, n int, match func(*script.Op) bool) *script.Rule {
	m := func(op *script.Op) bool { return op.By == task && op.Len > 0 && match(op) }
	name := fmt.Sprintf("%v request %d of %s", c, n, task)
	switch c {
	case cutBefore:
		return e.Crash(name, m).Nth(n)
	case cutAfter:
		return e.CrashAfter(name, m).Nth(n)
	case cutFirst, cutLast, numCuts:
	}
	var order []int
	if c == cutLast {
		for i := 9; i >= 0; i-- {
			order = append(order, i)
		}
	}
	return e.Tear(name, 1, order, m).Nth(n)
}

func each(*script.Op) bool { return true }

// recover has coordinator c recover another, and must succeed.
func (e *env) recover(c int, dead uint16) *coord.Recovery {
	e.t.Helper()
	r, err := e.db[c].Recover(ctx, dead)
	if err != nil {
		e.t.Fatalf("coordinator %d recovers %d: %v", c, dead, err)
	}
	return r
}

// writes matches WRITEs.
func writes(op *script.Op) bool { return op.Opcode == verbs.OpWrite }

package txn_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"fjord/txn"
)

// One key through every short sequence of operations, against the plainest model
// there is.

// keyState is the model: what a transaction sees under the key.
type keyState struct {
	there bool
	value string
}

func (s keyState) String() string {
	if !s.there {
		return absent
	}
	return s.value
}

// keyOp does one operation to the engine and says what the model expects.
type keyOp struct {
	name string
	do   func(tx *txn.Tx, tab *txn.Table, key []byte, value string) (got string, err error)
	want func(s keyState, value string) (next keyState, got string, err error)
}

func keyOps() []keyOp {
	get := func(s keyState, _ string) (keyState, string, error) {
		if !s.there {
			return s, "", txn.ErrNotFound
		}
		return s, s.value, nil
	}
	fetch := func(ref func(*txn.Table, []byte) txn.Ref) func(*txn.Tx, *txn.Table, []byte, string) (string, error) {
		return func(tx *txn.Tx, tab *txn.Table, key []byte, _ string) (string, error) {
			return "", tx.Fetch(ref(tab, key))
		}
	}
	same := func(s keyState, _ string) (keyState, string, error) { return s, "", nil }
	return []keyOp{
		{"Get", func(tx *txn.Tx, tab *txn.Table, key []byte, _ string) (string, error) {
			v, err := tx.Get(tab, key)
			return string(v), err
		}, get},
		{"GetForUpdate", func(tx *txn.Tx, tab *txn.Table, key []byte, _ string) (string, error) {
			v, err := tx.GetForUpdate(tab, key)
			return string(v), err
		}, get},
		{"Put", func(tx *txn.Tx, tab *txn.Table, key []byte, value string) (string, error) {
			return "", tx.Put(tab, key, []byte(value))
		}, func(_ keyState, value string) (keyState, string, error) { return keyState{true, value}, "", nil }},
		{"Insert", func(tx *txn.Tx, tab *txn.Table, key []byte, value string) (string, error) {
			return "", tx.Insert(tab, key, []byte(value))
		}, func(s keyState, value string) (keyState, string, error) {
			if s.there {
				return s, "", txn.ErrExists
			}
			return keyState{true, value}, "", nil
		}},
		{"Delete", func(tx *txn.Tx, tab *txn.Table, key []byte, _ string) (string, error) {
			return "", tx.Delete(tab, key)
		}, func(s keyState, _ string) (keyState, string, error) {
			if !s.there {
				return s, "", txn.ErrNotFound
			}
			return keyState{}, "", nil
		}},
		{"Fetch(ForRead)", fetch(txn.ForRead), same},
		{"Fetch(ForUpdate)", fetch(txn.ForUpdate), same},
		{"Fetch(ForInsert)", fetch(txn.ForInsert), same},
	}
}

// sequences calls fn with every sequence of 1 to n indices below k.
func sequences(k, n int, fn func(seq []int)) {
	var grow func(seq []int)
	grow = func(seq []int) {
		if len(seq) > 0 {
			fn(seq)
		}
		if len(seq) == n {
			return
		}
		for i := range k {
			grow(append(seq[:len(seq):len(seq)], i))
		}
	}
	grow(nil)
}

// TestSequences runs every sequence of up to 4 operations (3 under the race
// detector) on a key that is absent, and on one that is there, cut into
// transactions in every way, committed and aborted, by coordinators that find
// the key where they remember it and by such as do not.
func TestSequences(t *testing.T) {
	depth := 4
	if raceEnabled || testing.Short() {
		depth = 3
	}
	w := newWorld(t, shape(3, 2))
	dbs := []*txn.DB{w.open(), w.open()}
	var tabs []*txn.Table
	for _, db := range dbs {
		tabs = append(tabs, newTable(t, db, "t", 8, 32, 64))
	}
	ops := keyOps()
	key := []byte("the key")
	ctx := context.Background()
	now := keyState{} // what is committed
	n := 0
	value := func() string {
		n++
		return strings.Repeat("v", n%5) + fmt.Sprint(n) // of changing length
	}

	// run executes the sequence from a state on; bit i of cuts ends a transaction behind operation i.
	run := func(seq []int, start keyState, cuts int, commit bool) {
		side := n & 1
		db, tab := dbs[side], tabs[side]
		if now.there != start.there || start.there {
			start.value = value()
			update(t, db, func(tx *txn.Tx) error {
				if !start.there {
					return tx.Delete(tab, key)
				}
				return tx.Put(tab, key, []byte(start.value))
			})
			now = start
		}
		side ^= n >> 1 & 1 // sometimes the other, whose cache may be stale
		db, tab = dbs[side], tabs[side]
		describe := func(i int) string {
			var b strings.Builder
			fmt.Fprintf(&b, "key %v:", start)
			for j, o := range seq {
				if j == i {
					b.WriteString(" >>>")
				}
				b.WriteString(" " + ops[o].name)
				if cuts>>j&1 != 0 {
					b.WriteString(" |")
				}
			}
			return b.String()
		}
		var tx *txn.Tx
		state := now
		for i, o := range seq {
			if tx == nil {
				var err error
				if tx, err = db.Begin(ctx); err != nil {
					t.Fatal(err)
				}
				state = now
			}
			v := value()
			next, wantGot, wantErr := ops[o].want(state, v)
			got, err := ops[o].do(tx, tab, key, v)
			if got != wantGot || !errors.Is(err, wantErr) || err != nil && wantErr == nil {
				t.Fatalf("%s\ngot %q, %v; want %q, %v", describe(i), got, err, wantGot, wantErr)
			}
			state = next
			if i == len(seq)-1 || cuts>>i&1 != 0 {
				end := tx.Commit
				if !commit {
					end = func(context.Context) error { return tx.Abort() }
				} else {
					now = state
				}
				if err := end(ctx); err != nil {
					t.Fatalf("%s\nend of the transaction: %v", describe(i), err)
				}
				tx = nil
			}
		}
		for _, s := range []int{side, side ^ 1} {
			if got := read(t, dbs[s], tabs[s], key); got != now.String() {
				t.Fatalf("%s (commit %v)\nthen the key is %s at coordinator %d, want %v", describe(-1), commit, got, s, now)
			}
		}
	}
	sequences(len(ops), depth, func(seq []int) {
		for _, start := range []keyState{{}, {there: true}} {
			run(seq, start, 0, true)
			run(seq, start, 0, false)
			if len(seq) > 1 && len(seq) < 4 {
				for cuts := 1; cuts < 1<<(len(seq)-1); cuts++ {
					run(seq, start, cuts, true)
				}
			}
		}
	})
	left := 0
	if now.there {
		left = 1
	}
	w.sound(dbs[0], map[string]int{"t": left})
}

package simtest

import (
	"fmt"
	"math/rand/v2"

	"fjord/txn"
)

// ring hands a token from key to key: each counts how often it has had it, so that
// all counts are alike but for a step where the token is.
type ring struct {
	size  int
	cells []string
}

func newRing(s *Setup, r *rand.Rand) *ring {
	return &ring{max(stampedSize, s.ValueSize), names("r", between(r, 3, 8), 0)}
}

func (w *ring) name() string { return ringTable }
func (w *ring) schema() txn.Schema {
	return txn.Schema{Name: ringTable, KeySize: 8, ValueSize: w.size, Capacity: len(w.cells)}
}
func (w *ring) keys() []string { return w.cells }

func (w *ring) load(t *tx, keys []string) error {
	for _, a := range keys {
		if err := t.put(ringTable, a, w.size, 1); err != nil {
			return err
		}
	}
	return nil
}

func (w *ring) step(k *worker) error {
	n := len(w.cells)
	if k.rng.IntN(6) == 0 {
		return w.look(k)
	}
	at, way, all := k.rng.IntN(n), k.rng.IntN(4), k.rng.IntN(4) == 0
	return k.run("pass", func(t *tx) error {
		cells := []string{w.cells[(at+n-1)%n], w.cells[at], w.cells[(at+1)%n]}
		if all {
			cells = append(cells, w.cells...)
		}
		var err error
		switch way {
		case 0:
			err = t.fetch(ringTable, txn.ForRead, cells...)
		case 1:
			err = t.Fetch(txn.ForRead(t.c.tables[ringTable], []byte(cells[0])), txn.ForUpdate(t.c.tables[ringTable], []byte(cells[1])))
		case 2:
			_, _, err = t.getForUpdate(ringTable, cells[1])
		}
		if err != nil {
			return err
		}
		count := make([]uint64, len(cells))
		for i, c := range cells {
			b, ok, err := t.get(ringTable, c)
			if err != nil {
				return err
			}
			if !ok {
				return fmt.Errorf("%w: key %q is gone", errBroken, c)
			}
			count[i] = number(b)
		}
		turn := count[0] == count[1]+1
		if at == 0 {
			turn = count[0] == count[1]
		}
		if !turn {
			return errUser
		}
		if all && !w.sound(count[3:]) {
			return fmt.Errorf("%w: counts are %v", errBroken, count[3:])
		}
		return t.put(ringTable, cells[1], w.size, count[1]+1)
	})
}

// sound tells whether counts are those of a ring with one token.
func (w *ring) sound(count []uint64) bool {
	steps := 0
	for i := 1; i < len(count); i++ {
		switch count[i-1] - count[i] {
		case 0:
		case 1:
			steps++
		default:
			return false
		}
	}
	return steps <= 1
}

func (w *ring) look(k *worker) error {
	var count []uint64
	err := k.view("look", func(t *tx) error {
		count = count[:0]
		for _, i := range k.rng.Perm(len(w.cells))[:1+k.rng.IntN(len(w.cells))] { // in any order
			if _, _, err := t.get(ringTable, w.cells[i]); err != nil {
				return err
			}
		}
		for _, c := range w.cells {
			b, _, err := t.get(ringTable, c)
			if err != nil {
				return err
			}
			count = append(count, number(b))
		}
		return nil
	})
	if err == nil && !w.sound(count) {
		k.life.run.fail("ring: a look, %v, found counts %v: right is all alike, or one less from somewhere on", k.id, count)
	}
	return err
}

func (w *ring) verify(all map[string][]byte) error {
	var count []uint64
	for _, c := range w.cells {
		count = append(count, number(all[c]))
	}
	if len(all) != len(w.cells) || !w.sound(count) {
		return fmt.Errorf("ring: %d keys count %v: right is %d keys, all alike, or one less from somewhere on", len(all), count, len(w.cells))
	}
	return nil
}

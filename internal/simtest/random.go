package simtest

import (
	"math/rand/v2"

	"fjord/txn"
)

// random reads, writes, inserts and deletes a few keys in all ways. It has no rule:
// the checker of histories is its judge.
type random struct {
	size int
	list []string
}

func newRandom(s *Setup, r *rand.Rand) *random {
	return &random{s.ValueSize, names("k", s.Keys, pick(r, 0, 8, 20))}
}

func (w *random) name() string { return randomTable }
func (w *random) schema() txn.Schema {
	return txn.Schema{Name: randomTable, KeySize: max(8, len(w.list[0])), ValueSize: w.size, Capacity: 4 * len(w.list)}
}
func (w *random) keys() []string { return w.list }

func (w *random) load(t *tx, keys []string) error {
	for i, a := range keys {
		if i%3 == 2 {
			continue
		}
		if err := t.put(randomTable, a, w.size, 0); err != nil {
			return err
		}
	}
	return nil
}

func (w *random) step(k *worker) error {
	r := k.rng
	seed := r.Uint64()
	if r.IntN(4) == 0 {
		return k.view("view", func(t *tx) error {
			r := stream(seed, 0)
			list := sample(r, w.list, max(1, r.IntN(7)-2))
			if r.IntN(2) == 0 {
				if err := t.fetch(randomTable, txn.ForRead, list...); err != nil {
					return err
				}
			}
			for _, x := range list {
				if _, _, err := t.get(randomTable, x); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return k.run("random", func(t *tx) error {
		r := stream(seed, 0) // a rerun does the same
		if r.IntN(2) == 0 {
			by := pick(r, txn.ForRead, txn.ForUpdate, txn.ForInsert)
			if err := t.fetch(randomTable, by, sample(r, w.list, 1+r.IntN(3))...); err != nil {
				return err
			}
		}
		for range 1 + r.IntN(5) {
			if err := w.act(t, r, w.list[r.IntN(len(w.list))]); err != nil {
				return err
			}
		}
		if r.IntN(12) == 0 {
			return errUser
		}
		return nil
	})
}

func (w *random) act(t *tx, r *rand.Rand, key string) (err error) {
	size := r.IntN(w.size + 1)
	switch r.IntN(8) {
	case 0, 1:
		_, _, err = t.get(randomTable, key)
	case 2:
		_, _, err = t.getForUpdate(randomTable, key)
	case 3, 4, 5:
		err = t.put(randomTable, key, size, r.Uint64())
	case 6:
		_, err = t.insert(randomTable, key, size, r.Uint64())
	case 7:
		_, err = t.remove(randomTable, key)
	}
	return err
}

func (w *random) verify(map[string][]byte) error { return nil }

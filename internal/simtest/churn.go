package simtest

import (
	"fmt"
	"math/rand/v2"

	"fjord/layout"
	"fjord/txn"
)

// churn inserts, deletes and looks keys up in so few buckets that overflow buckets
// come and go. Of each pair of keys one is there.
type churn struct {
	size    int
	key     int
	pairs   [][2]string
	singles []string
	cap     int
}

func newChurn(s *Setup, r *rand.Rand) *churn {
	w := &churn{size: s.ValueSize, key: s.KeySize}
	slots := layout.NewBucketGeometry(w.key, w.size).Slots
	n := max(6, s.Nodes*slots*between(r, 6, 14)/10)
	all := names("c", n, pick(r, 0, 8))
	for i := range n / 4 {
		w.pairs = append(w.pairs, [2]string{all[2*i], all[2*i+1]})
	}
	w.singles = all[2*(n/4):]
	w.cap = max(1, s.Nodes*slots/2)
	return w
}

func (w *churn) name() string { return churnTable }
func (w *churn) schema() txn.Schema {
	return txn.Schema{Name: churnTable, KeySize: w.key, ValueSize: w.size, Capacity: w.cap}
}

func (w *churn) keys() (all []string) {
	for _, p := range w.pairs {
		all = append(all, p[:]...)
	}
	return append(all, w.singles...)
}

func (w *churn) load(t *tx, keys []string) error {
	for _, p := range w.pairs {
		for _, k := range keys {
			if k == p[0] {
				if err := t.put(churnTable, k, w.size, 0); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (w *churn) step(k *worker) error {
	r := k.rng
	p := w.pairs[r.IntN(len(w.pairs))]
	if r.IntN(3) > 0 { // some are hot
		p = w.pairs[r.IntN(min(2, len(w.pairs)))]
	}
	switch r.IntN(8) {
	case 0, 1, 2:
		return k.run("swap", func(t *tx) error { return w.swap(t, p) })
	case 3, 4:
		return w.count(k, p)
	case 5:
		return k.view("lookup", func(t *tx) error {
			_, _, err := t.get(churnTable, w.singles[r.IntN(len(w.singles))])
			return err
		})
	}
	seed := r.Uint64()
	return k.run("churn", func(t *tx) error {
		r := stream(seed, 0)
		for range 1 + r.IntN(3) {
			key := w.singles[r.IntN(len(w.singles))]
			var err error
			switch r.IntN(6) {
			case 0, 1:
				_, err = t.insert(churnTable, key, w.size, r.Uint64())
			case 2, 3:
				_, err = t.remove(churnTable, key)
			case 4:
				err = t.put(churnTable, key, w.size, r.Uint64())
			case 5:
				_, _, err = t.get(churnTable, key)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// swap deletes the one of a pair that is there, and inserts the other.
func (w *churn) swap(t *tx, p [2]string) error {
	_, ok, err := t.get(churnTable, p[0])
	if err != nil {
		return err
	}
	gone, come := p[0], p[1]
	if !ok {
		gone, come = come, gone
	}
	there, err := t.remove(churnTable, gone)
	if err != nil {
		return err
	}
	fresh, err := t.insert(churnTable, come, w.size, 0)
	if err != nil {
		return err
	}
	if !there || !fresh {
		return fmt.Errorf("%w: of the pair %q both or none are there: first %v, deleted %v, inserted %v", errBroken, p, ok, there, fresh)
	}
	return nil
}

// count looks at a pair.
func (w *churn) count(k *worker, p [2]string) error {
	n := 0
	err := k.view("count", func(t *tx) error {
		n = 0
		for _, key := range sample(k.rng, p[:], 2) {
			_, ok, err := t.get(churnTable, key)
			if err != nil {
				return err
			}
			if ok {
				n++
			}
		}
		return nil
	})
	if err == nil && n != 1 {
		k.life.run.fail("pairs: a count, %v, found %d keys of the pair %q, right is 1", k.id, n, p)
	}
	return err
}

func (w *churn) verify(all map[string][]byte) error {
	for _, p := range w.pairs {
		_, a := all[p[0]]
		_, b := all[p[1]]
		if a == b {
			return fmt.Errorf("pairs: of %q, there is %v and %v, right is one of the two", p, a, b)
		}
	}
	return nil
}

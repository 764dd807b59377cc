package simtest

import (
	"fmt"
	"math/rand/v2"

	"fjord/txn"
)

// bank moves money between accounts; none is made or lost.
type bank struct {
	size     int
	accounts []string
}

const firstBalance = 100

func newBank(s *Setup, r *rand.Rand) *bank {
	return &bank{max(stampedSize, s.ValueSize), names("b", between(r, 2, 16), pick(r, 0, 8, 24))}
}

func (w *bank) name() string { return bankTable }
func (w *bank) schema() txn.Schema {
	return txn.Schema{Name: bankTable, KeySize: max(8, len(w.accounts[0])+2), ValueSize: w.size, Capacity: len(w.accounts)}
}
func (w *bank) keys() []string { return w.accounts }

func (w *bank) load(t *tx, keys []string) error {
	for _, a := range keys {
		if err := t.put(bankTable, a, w.size, firstBalance); err != nil {
			return err
		}
	}
	return nil
}

func (w *bank) step(k *worker) error {
	switch k.rng.IntN(8) {
	case 0:
		return w.audit(k)
	case 1, 2:
		return k.view("balance", func(t *tx) error {
			_, _, err := t.get(bankTable, w.accounts[k.rng.IntN(len(w.accounts))])
			return err
		})
	}
	way, n := k.rng.IntN(5), 2+k.rng.IntN(2)
	pair := sample(k.rng, w.accounts, n)
	amount := uint64(1 + k.rng.IntN(60))
	return k.run("transfer", func(t *tx) error { return w.transfer(t, way, pair, amount) })
}

// transfer moves money from the first account to the second, if the last one has
// as much.
func (w *bank) transfer(t *tx, way int, acc []string, amount uint64) error {
	var err error
	switch way {
	case 0:
		err = t.fetch(bankTable, txn.ForUpdate, acc...)
	case 1:
		err = t.fetch(bankTable, txn.ForRead, acc...)
	}
	if err != nil {
		return err
	}
	var have [3]uint64
	for i, a := range acc {
		get := t.get
		if way == 2 || way == 3 && i == 1 {
			get = t.getForUpdate
		}
		b, ok, err := get(bankTable, a)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%w: account %q is gone", errBroken, a)
		}
		have[i] = number(b)
	}
	if have[0] < amount || have[len(acc)-1] < amount {
		return errUser
	}
	if err := t.put(bankTable, acc[0], w.size, have[0]-amount); err != nil {
		return err
	}
	return t.put(bankTable, acc[1], w.size, have[1]+amount)
}

// audit adds up all accounts.
func (w *bank) audit(k *worker) error {
	total, gone := uint64(0), false
	err := k.view("audit", func(t *tx) error {
		total, gone = 0, false
		if k.rng.IntN(2) == 0 {
			if err := t.fetch(bankTable, txn.ForRead, w.accounts...); err != nil {
				return err
			}
		}
		for _, a := range w.accounts {
			b, ok, err := t.get(bankTable, a)
			if err != nil {
				return err
			}
			total, gone = total+number(b), gone || !ok
		}
		return nil
	})
	if want := uint64(firstBalance * len(w.accounts)); err == nil && (gone || total != want) {
		k.life.run.fail("money: an audit, %v, found %d, right is %d", k.id, total, want)
	}
	return err
}

func (w *bank) verify(all map[string][]byte) error {
	total := uint64(0)
	for _, b := range all {
		total += number(b)
	}
	if want := uint64(firstBalance * len(w.accounts)); len(all) != len(w.accounts) || total != want {
		return fmt.Errorf("money: %d accounts have %d, right is %d accounts with %d", len(all), total, len(w.accounts), want)
	}
	return nil
}

package simtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"fjord/txn"
)

// workload is a table, and transactions on it that keep a rule.
type workload interface {
	// name is that of the table. Keys begin with its first letter in lower case.
	name() string
	schema() txn.Schema
	// keys lists every key that may ever be there.
	keys() []string
	// load is called in a transaction, with a few keys, and writes those that are there at first.
	load(t *tx, keys []string) error
	// step is one transaction.
	step(k *worker) error
	// verify looks at all records, at the end, and says what is wrong.
	verify(all map[string][]byte) error
}

// newWorkloads makes those of a Setup.
func newWorkloads(s *Setup) (list []workload) {
	r := stream(s.Seed, streamRules)
	all := []workload{newBank(s, r), newRing(s, r), newRandom(s, r), newChurn(s, r)}
	for i, w := range all {
		if s.Workload == "mix" || s.Workload == Workloads()[i] {
			list = append(list, w)
		}
	}
	return list
}

// tableOf returns the table of a key, "" if it is none of a workload's.
func tableOf(key string) string {
	if key == "" {
		return ""
	}
	switch key[0] {
	case 'b':
		return bankTable
	case 'r':
		return ringTable
	case 'k':
		return randomTable
	case 'c':
		return churnTable
	}
	return ""
}

// Names of the tables, which are keys of the catalog: no workload's key is like them.
const (
	bankTable   = "T-bank"
	ringTable   = "T-ring"
	randomTable = "T-random"
	churnTable  = "T-churn"
)

// names returns n keys that begin with a letter, all of one length or not.
func names(letter string, n, length int) (keys []string) {
	for i := range n {
		k := fmt.Sprintf("%s%d", letter, i)
		if len(k) < length {
			k += strings.Repeat("-", length-len(k))
		}
		keys = append(keys, k)
	}
	return keys
}

// sample returns n different keys in random order, as many as there are at most.
func sample(r *rand.Rand, keys []string, n int) []string {
	n = min(n, len(keys))
	out := make([]string, 0, n)
	for _, i := range r.Perm(len(keys))[:n] {
		out = append(out, keys[i])
	}
	return out
}

// run is a transaction of a worker in one of the ways there are.
func (k *worker) run(label string, fn func(*tx) error) error {
	if k.rng.IntN(5) == 0 {
		return k.manual(label, fn)
	}
	return k.update(label, fn)
}

// across touches the tables of two workloads in one transaction, and keeps the rules
// of both.
func across(k *worker, b *bank, c *churn) error {
	pair, p := sample(k.rng, b.accounts, 2), c.pairs[k.rng.IntN(len(c.pairs))]
	way, amount := k.rng.IntN(5), uint64(1+k.rng.IntN(30))
	return k.run("across", func(t *tx) error {
		if err := b.transfer(t, way, pair, amount); err != nil && !errors.Is(err, errUser) {
			return err
		}
		return c.swap(t, p)
	})
}

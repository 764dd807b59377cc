package flaws_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"fjord/internal/script"
	"fjord/internal/serial"
	"fjord/lock"
	"fjord/txn"
)

var (
	seedFlag  = flag.Uint64("shuffle.seed", 0, "run this seed alone")
	countFlag = flag.Int("shuffle.count", 0, "run so many seeds, instead of a few")
	firstFlag = flag.Uint64("shuffle.first", 1, "the first seed")
)

// TestShuffle runs random transactions of three coordinators over few keys, with
// every step of every request in an order drawn from the seed, requests torn and
// reordered as a fabric may, and QPs failing. Histories must be strictly
// serializable, money conserved, and nothing left locked, pending or unequal.
//
//	go test ./internal/flaws -run Shuffle -shuffle.seed N
func TestShuffle(t *testing.T) {
	if *seedFlag != 0 {
		shuffle(t, *seedFlag, true)
		return
	}
	count := *countFlag
	if count == 0 {
		if count = 400; testing.Short() || raceOn {
			count = 25
		}
	}
	var sum tally
	for i := range uint64(count) {
		ok := t.Run(fmt.Sprint(*firstFlag+i), func(t *testing.T) { sum.add(shuffle(t, *firstFlag+i, false)) })
		if !ok {
			t.Fatalf("run again: go test ./internal/flaws -run Shuffle -shuffle.seed %d -v", *firstFlag+i)
		}
	}
	t.Logf("%d seeds: %+v", count, sum)
	if count >= 200 && (sum.Committed == 0 || sum.Conflicts == 0 || sum.Unavailable == 0 || sum.Unknown == 0) {
		t.Error("something never happened")
	}
}

// tally counts what happened.
type tally struct{ Steps, Committed, Conflicts, Unavailable, Unknown, Resolved int }

func (s *tally) add(o tally) {
	s.Steps += o.Steps
	s.Committed += o.Committed
	s.Conflicts += o.Conflicts
	s.Unavailable += o.Unavailable
	s.Unknown += o.Unknown
	s.Resolved += o.Resolved
}

const startMoney = 1000

// bank is what the workers of a shuffle share.
type bank struct {
	*env
	keys    int
	tally   tally
	adds    int // committed additions to the counter, which is key 0
	deletes bool
	churn   int // keys from 100 on, without money, that come and go
	tables  bool
	words   int // of a value, at most
	lengths *rand.Rand
}

func shuffle(t *testing.T, seed uint64, verbose bool) tally {
	rng := rand.New(rand.NewPCG(seed, 77))
	h := &history{}
	s := shape{seed: seed, recorder: h, retries: 8}
	pick := func(n ...int) int { return n[rng.IntN(len(n))] }
	s.nodes = pick(1, 1, 2, 3, 3)
	s.replicas = 1 + rng.IntN(s.nodes)
	s.value = pick(16, 16, 100, 1400, 1400) // the last has two slots in a bucket: chains
	if rng.IntN(3) == 0 {
		s.lock = lock.Backoff{Min: 100, Max: 1000, Tries: 3}
	}
	s.noInline = rng.IntN(4) == 0
	s.sync = rng.IntN(3) == 0
	b := &bank{env: open(t, s), keys: pick(2, 3, 5, 12), deletes: rng.IntN(3) > 0, churn: pick(0, 0, 2, 6, 20), tables: rng.IntN(6) == 0,
		words: min(s.value/8, 40), lengths: rng}
	b.must(b.db[0].Update(ctx, func(tx *txn.Tx) error {
		err := tx.Insert(b.tab[0], key(0), b.value(0))
		for k := 1; k <= b.keys && err == nil; k++ {
			err = tx.Insert(b.tab[0], key(k), b.value(startMoney))
		}
		return err
	}))
	chaos := script.Chaos{Steps: 300_000}
	if rng.IntN(4) > 0 {
		chaos.Tear = 0.3 * rng.Float64()
	}
	if rng.IntN(2) > 0 {
		chaos.Overtake = 0.5 * rng.Float64()
	}
	if rng.IntN(3) > 0 {
		chaos.Fail = 0.02 * rng.Float64()
		chaos.Connect = float64(rng.IntN(3)) * 0.1
	}
	if b.tables { // an aborted attempt of the engine's own has no name by which to resolve it
		chaos.Fail, chaos.Connect = chaos.Fail/4, 0
	}
	tasks := pick(1, 1, 2, 3) // of each coordinator
	for c := range b.db {
		for n := range tasks {
			r := rand.New(rand.NewPCG(seed, uint64(10*c+n)))
			b.Start(fmt.Sprintf("C%d.%d", c, n), func() {
				for range 12 / tasks {
					b.one(c, r)
				}
			})
		}
	}
	b.tally.Steps = b.Shuffle(chaos)
	if verbose {
		t.Logf("%+v\n%+v keys %d deletes %v tasks %d\n%+v", s, chaos, b.keys, b.deletes, tasks, b.tally)
	}
	b.check()
	h.check(t)
	sum := 0
	b.must(b.db[0].View(ctx, func(tx *txn.Tx) (err error) {
		sum, err = b.total(tx, 0)
		return err
	}))
	if sum != b.keys*startMoney {
		t.Errorf("money: %d, want %d", sum, b.keys*startMoney)
	}
	if n := b.get(1, 0); n != b.adds {
		t.Errorf("the counter stands at %d after %d additions", n, b.adds)
	}
	b.alone()
	for _, a := range h.Attempts {
		switch a.Outcome {
		case serial.Commit:
			b.tally.Committed++
		case serial.Unknown:
			b.tally.Unknown++
		case serial.Abort:
			switch a.Reason {
			case "locked", "version", "pending", "insert":
				b.tally.Conflicts++
			case "unavailable":
				b.tally.Unavailable++
			}
		}
	}
	b.close()
	return b.tally
}

// value is a number as the bank stores it: all over a value of random length, so
// that a torn one shows.
func (b *bank) value(n int) []byte { return slices.Repeat(num(n), 1+b.lengths.IntN(b.words)) }

func (b *bank) number(v []byte) int {
	n := val(v)
	if !slices.Equal(v, slices.Repeat(num(n), len(v)/8)) {
		b.t.Errorf("torn: %x", v)
	}
	return n
}

// read reads a number; -1 if it is not there.
func (b *bank) read(tx *txn.Tx, c, k int) (int, error) {
	v, err := tx.Get(b.tab[c], key(k))
	if errors.Is(err, txn.ErrNotFound) {
		return -1, nil
	}
	if err != nil {
		return 0, err
	}
	return b.number(v), nil
}

// total reads all accounts. That it is right shows only when the transaction
// commits.
func (b *bank) total(tx *txn.Tx, c int) (int, error) {
	sum := 0
	for k := 1; k <= b.keys; k++ {
		n, err := b.read(tx, c, k)
		if err != nil {
			return 0, err
		}
		sum += max(n, 0)
	}
	return sum, nil
}

var errMine = errors.New("the function's own error")

// one runs one random transaction to its end.
func (b *bank) one(c int, r *rand.Rand) {
	db, tab := b.db[c], b.tab[c]
	var id txn.ID
	var err error
	x, y := 1+r.IntN(b.keys), 1+r.IntN(b.keys)
	if x == y {
		y = 1 + x%b.keys
	}
	adds := 0
	update := func(label string, fn func(tx *txn.Tx) error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer func() {
			if p := recover(); p != nil && p != any(errMine) {
				panic(p)
			}
		}()
		trouble := r.IntN(20)
		err = db.Update(ctx, func(tx *txn.Tx) error {
			tx.SetLabel(label)
			id = tx.ID()
			err := fn(tx)
			switch {
			case trouble == 0 && r.IntN(2) == 0:
				cancel()
			case trouble == 1:
				adds = 0
				panic(errMine)
			case trouble == 2 && (errors.Is(err, txn.ErrConflict) || errors.Is(err, txn.ErrUnavailable)):
				return nil // must not make it commit
			}
			return err
		})
	}
	switch op := r.IntN(14); {
	case b.churn > 0 && op >= 12:
		update("churn", func(tx *txn.Tx) error { return b.turn(tx, c, r) })
	case b.tables && op == 11:
		err = b.table(c, r)
	case op < 1: // one key
		err = db.View(ctx, func(tx *txn.Tx) error {
			_, err := b.read(tx, c, x)
			return err
		})
	case op < 3: // all of them
		sum := 0
		err = db.View(ctx, func(tx *txn.Tx) (err error) {
			sum, err = b.total(tx, c)
			return err
		})
		if err == nil && sum != b.keys*startMoney {
			b.t.Errorf("a View saw %d in all, want %d", sum, b.keys*startMoney)
		}
	case op < 5: // count, and read something beside it
		update("count", func(tx *txn.Tx) error {
			adds = 1
			if r.IntN(2) == 0 {
				if _, err := b.read(tx, c, x); err != nil {
					return err
				}
			}
			get := tx.Get
			if r.IntN(2) == 0 {
				get = tx.GetForUpdate
			}
			v, err := get(tab, key(0))
			if err != nil {
				return err
			}
			return tx.Put(tab, key(0), b.value(b.number(v)+1))
		})
	case op < 6: // an error of the function's own, on what must have been consistent
		update("rollback", func(tx *txn.Tx) error {
			sum, err := b.total(tx, c)
			if err != nil {
				return err
			}
			if err := tx.Put(tab, key(x), b.value(-1)); err != nil {
				return err
			}
			return fmt.Errorf("%w: %d", errMine, sum)
		})
		if errors.Is(err, errMine) {
			if err.Error() != fmt.Sprintf("%v: %d", errMine, b.keys*startMoney) {
				b.t.Errorf("a function's error rests on what never was: %v", err)
			}
			err = nil
		}
	case op < 7: // by hand
		var tx *txn.Tx
		if tx, err = db.Begin(ctx); err != nil {
			break
		}
		id = tx.ID()
		if err = b.move(tx, c, x, y, r); err != nil || r.IntN(4) == 0 {
			if e := tx.Abort(); err == nil {
				err = e
			}
			break
		}
		err = tx.Commit(ctx)
	case op < 8: // write skew, if validation lets it
		update("skew", func(tx *txn.Tx) error {
			n, err := b.read(tx, c, x)
			if err != nil || n < 0 {
				return err
			}
			m, err := b.read(tx, c, y)
			if err != nil || m < 0 {
				return err
			}
			return tx.Put(tab, key(x), b.value(n))
		})
	default:
		update("move", func(tx *txn.Tx) error { return b.move(tx, c, x, y, r) })
	}
	b.settle(db, id, &err)
	if err == nil {
		b.adds += adds
	}
}

// turn inserts, deletes and puts some of the keys that come and go.
func (b *bank) turn(tx *txn.Tx, c int, r *rand.Rand) error {
	tab := b.tab[c]
	if r.IntN(2) == 0 { // some at once, the same ones too
		var refs []txn.Ref
		for range 1 + r.IntN(5) {
			k := key(100 + r.IntN(b.churn))
			refs = append(refs, []txn.Ref{txn.ForRead(tab, k), txn.ForUpdate(tab, k), txn.ForInsert(tab, k)}[r.IntN(3)])
		}
		if r.IntN(10) == 0 { // beyond what is searched one by one
			for k := range b.churn {
				refs = append(refs, txn.ForRead(tab, key(100+k)))
			}
		}
		if err := tx.Fetch(refs...); err != nil {
			return err
		}
	}
	for range 1 + r.IntN(5) {
		k := key(100 + r.IntN(b.churn))
		var err error
		switch r.IntN(7) {
		case 0, 1:
			err = tx.Insert(tab, k, b.value(r.IntN(100)))
		case 2, 3:
			err = tx.Delete(tab, k)
		case 4:
			err = tx.Put(tab, k, b.value(r.IntN(100)))
		case 5:
			_, err = tx.GetForUpdate(tab, k)
		case 6:
			_, err = tx.Get(tab, k)
		}
		if err != nil && !errors.Is(err, txn.ErrExists) && !errors.Is(err, txn.ErrNotFound) {
			return err
		}
	}
	return nil
}

// table makes, uses or drops a table.
func (b *bank) table(c int, r *rand.Rand) error {
	db := b.db[c]
	name := fmt.Sprintf("extra%d", r.IntN(2))
	switch r.IntN(3) {
	case 0:
		_, err := db.CreateTable(ctx, txn.Schema{Name: name, KeySize: 8, ValueSize: 8, Capacity: 4})
		if errors.Is(err, txn.ErrNoTable) { // dropped again at once
			return nil
		}
		return err
	case 1:
		if err := db.DropTable(ctx, name); !errors.Is(err, txn.ErrNoTable) {
			return err
		}
	default:
		all, err := db.Tables(ctx)
		if err != nil {
			return err
		}
		for _, t := range all {
			if t.Name() == "t" {
				continue
			}
			err := db.Update(ctx, func(tx *txn.Tx) error { return tx.Put(t, key(r.IntN(4)), num(1)) })
			if err != nil && !errors.Is(err, txn.ErrNoTable) {
				return err
			}
		}
	}
	return nil
}

// alone lets each coordinator lock everything, when nobody is in its way: it must
// succeed, whatever it remembers.
func (b *bank) alone() {
	for c, db := range b.db {
		for _, down := range []bool{false, true} {
			err := db.Update(ctx, func(tx *txn.Tx) error {
				var keys []int
				for k := range b.keys + 1 {
					keys = append(keys, k)
				}
				for k := range b.churn {
					keys = append(keys, 100+k)
				}
				if down {
					slices.Reverse(keys)
				}
				for _, k := range keys {
					if _, err := tx.GetForUpdate(b.tab[c], key(k)); err != nil && !errors.Is(err, txn.ErrNotFound) {
						return err
					}
				}
				return nil
			})
			if err != nil {
				b.t.Errorf("coordinator %d, alone: %v", c, err)
			}
		}
	}
}

// settle finds out what became of a transaction that could not be ended.
func (b *bank) settle(db *txn.DB, id txn.ID, err *error) {
	switch {
	case *err == nil, errors.Is(*err, txn.ErrConflict), errors.Is(*err, context.Canceled):
	case errors.Is(*err, txn.ErrCommitUnknown):
		var u *txn.UnknownError
		if !errors.As(*err, &u) || id != 0 && u.ID != id {
			b.t.Errorf("%v is not about %v", *err, id)
			return
		}
		*err = b.resolve(db, u.ID, txn.Committed)
	case errors.Is(*err, txn.ErrUnavailable):
		if e := b.resolve(db, id, txn.Aborted); e != nil && !errors.Is(e, txn.ErrNotFound) {
			b.t.Error(e)
		}
	default:
		b.t.Errorf("%v: %v", id, *err)
	}
}

func (b *bank) resolve(db *txn.DB, id lock.Token, want txn.Outcome) error {
	for range 1000 {
		o, err := db.Resolve(ctx, id)
		if errors.Is(err, txn.ErrNotFound) {
			return err
		}
		if err == nil {
			b.tally.Resolved++
			if o != want {
				return fmt.Errorf("Resolve(%v) says %v, want %v", id, o, want)
			}
			return nil
		}
		b.Runtime().Sleep(1000)
	}
	return fmt.Errorf("Resolve(%v) does not succeed", id)
}

// move takes money from x to y, in one of many ways. Accounts may be missing.
func (b *bank) move(tx *txn.Tx, c, x, y int, r *rand.Rand) error {
	tab := b.tab[c]
	if r.IntN(3) == 0 { // something in the read set
		if _, err := b.read(tx, c, 1+r.IntN(b.keys)); err != nil {
			return err
		}
	}
	switch r.IntN(4) {
	case 0:
		if err := tx.Fetch(txn.ForUpdate(tab, key(x)), txn.ForUpdate(tab, key(y))); err != nil {
			return err
		}
	case 1:
		if err := tx.Fetch(txn.ForRead(tab, key(x)), txn.ForInsert(tab, key(y))); err != nil {
			return err
		}
	case 2:
		if err := tx.Fetch(txn.ForUpdate(tab, key(x))); err != nil {
			return err
		}
	}
	n, err := b.read(tx, c, x)
	if err != nil || n < 0 {
		return err
	}
	m, err := b.read(tx, c, y)
	if err != nil {
		return err
	}
	amount := r.IntN(n + 1)
	if b.deletes && r.IntN(3) == 0 { // all of it, and x goes
		amount = n
		if err := tx.Delete(tab, key(x)); err != nil {
			return err
		}
	} else if err := tx.Put(tab, key(x), b.value(n-amount)); err != nil {
		return err
	}
	if m < 0 && r.IntN(2) == 0 {
		return tx.Insert(tab, key(y), b.value(amount))
	}
	return tx.Put(tab, key(y), b.value(max(m, 0)+amount))
}

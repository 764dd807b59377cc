package main

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"fjord/bench"
	"fjord/txn"
)

func drawer(k *bank) *client {
	return k.NewClient(&bench.Worker{Rand: rand.New(rand.NewPCG(1, 1))}).(*client)
}

func TestDrawsFollowTheMix(t *testing.T) {
	k := &bank{accounts: 10_000, hotAccounts: 400, hotPercent: 90}
	c := drawer(k)
	const n = 200_000
	var of [kinds]int
	var hot, all int
	for range n {
		kind := kind(c.Next())
		of[kind]++
		a, b := binary.BigEndian.Uint64(c.keyA), binary.BigEndian.Uint64(c.keyB)
		accounts := []uint64{a}
		if kind == amalgamate || kind == sendPayment {
			accounts = append(accounts, b)
			if a == b {
				t.Fatal("both accounts are one")
			}
		}
		for _, x := range accounts {
			if x >= 10_000 {
				t.Fatalf("account %d", x)
			}
			all++
			if x < 400 {
				hot++
			}
		}
		lo, hi := int64(1), int64(0)
		switch kind {
		case amalgamate, balance:
			continue
		case depositChecking:
			hi = maxDeposit
		case sendPayment, writeCheck:
			hi = maxPayment
		case transactSavings:
			lo, hi = -maxPayment, maxDeposit
		}
		if c.amount < lo || c.amount > hi || c.amount == 0 {
			t.Fatalf("%s of %d cents", kindNames[kind], c.amount)
		}
	}
	for kind, got := range of {
		if share := 100 * float64(got) / n; math.Abs(share-float64(mix[kind])) > 0.5 {
			t.Errorf("%s: %.2f %%, want %d %%", kindNames[kind], share, mix[kind])
		}
	}
	if share := 100 * float64(hot) / float64(all); math.Abs(share-90) > 0.5 {
		t.Errorf("%.2f %% of the accesses are hot, want 90 %%", share)
	}
}

func TestDrawsOfOneKindAlone(t *testing.T) {
	for want, name := range kindNames {
		c := drawer(&bank{accounts: 100, only: name})
		for range 100 {
			if got := c.Next(); got != want {
				t.Fatalf("only %s: drew %s", name, kindNames[got])
			}
		}
	}
}

// However few accounts are hot, two different ones are found.
func TestDrawsOfTwoAccounts(t *testing.T) {
	for _, k := range []*bank{
		{accounts: 2, hotAccounts: 0},
		{accounts: 2, hotAccounts: 1, hotPercent: 100},
		{accounts: 2, hotAccounts: 1, hotPercent: 0},
		{accounts: 2, hotAccounts: 2, hotPercent: 90},
		{accounts: 1000, hotAccounts: 1, hotPercent: 100},
	} {
		c := drawer(k)
		for range 1000 {
			if kind := kind(c.Next()); kind != amalgamate && kind != sendPayment {
				continue
			}
			a, b := binary.BigEndian.Uint64(c.keyA), binary.BigEndian.Uint64(c.keyB)
			if a == b || a >= uint64(k.accounts) || b >= uint64(k.accounts) {
				t.Fatalf("%+v: accounts %d and %d", k, a, b)
			}
		}
	}
}

func TestOpeningBalances(t *testing.T) {
	seen := map[int64]bool{}
	for a := range uint64(1000) {
		for table := range 2 {
			b := openingBalance(7, a, table)
			if b < minOpening || b > maxOpening {
				t.Fatalf("account %d opens with %d", a, b)
			}
			if b != openingBalance(7, a, table) {
				t.Fatal("it is not always the same")
			}
			seen[b] = true
		}
	}
	if len(seen) < 1500 {
		t.Errorf("only %d different balances of 2000", len(seen))
	}
	if openingBalance(7, 1, 0) == openingBalance(8, 1, 0) {
		t.Error("the seed makes no difference")
	}
}

// small opens a database with three accounts of 1000 cents in either table.
func small(t *testing.T) (*txn.DB, *client) {
	t.Helper()
	db, err := txn.Open(t.Context(), txn.Options{Sessions: 2, NodeMemory: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	var at tables
	for _, tab := range []struct {
		name string
		to   **txn.Table
	}{{"savings", &at.savings}, {"checking", &at.checking}} {
		if *tab.to, err = db.CreateTable(t.Context(), txn.Schema{Name: tab.name, KeySize: keySize, ValueSize: rowSize, Capacity: 3}); err != nil {
			t.Fatal(err)
		}
	}
	err = db.Update(t.Context(), func(tx *txn.Tx) error {
		for a := range uint64(3) {
			for _, tab := range []*txn.Table{at.savings, at.checking} {
				key, value := make([]byte, keySize), make([]byte, rowSize)
				putKey(key, a)
				row{cents: 1000}.put(value)
				if err := tx.Insert(tab, key, value); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	c := drawer(&bank{accounts: 3})
	c.tables = at
	putKey(c.keyA, 0)
	putKey(c.keyB, 1)
	return db, c
}

// state is the cents of accounts 0 to 2: savings, then checking.
type state [6]int64

func stateOf(t *testing.T, db *txn.DB, at tables) (s state) {
	t.Helper()
	err := db.View(t.Context(), func(tx *txn.Tx) error {
		for i, tab := range []*txn.Table{at.savings, at.checking} {
			for a := range 3 {
				key := make([]byte, keySize)
				putKey(key, uint64(a))
				v, err := tx.Get(tab, key)
				if err != nil {
					return err
				}
				r, err := rowOf(v)
				if err != nil {
					return err
				}
				s[3*i+a] = r.cents
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTransactions(t *testing.T) {
	db, c := small(t)
	want := state{1000, 1000, 1000, 1000, 1000, 1000}
	for _, step := range []struct {
		name     string
		kind     kind
		a, b     uint64
		amount   int64
		rollback bool
		change   func(s *state) // of the cents, where there is no rollback
		writes   uint64
	}{
		{"a deposit", depositChecking, 0, 0, 50, false, func(s *state) { s[3] += 50 }, 1},
		{"a payment", sendPayment, 0, 1, 1050, false, func(s *state) { s[3] -= 1050; s[4] += 1050 }, 2},
		{"a payment of what is not there", sendPayment, 0, 1, 1, true, nil, 0},
		{"savings", transactSavings, 2, 0, 10, false, func(s *state) { s[2] += 10 }, 1},
		{"a withdrawal of all", transactSavings, 2, 0, -1010, false, func(s *state) { s[2] -= 1010 }, 1},
		{"a withdrawal of more", transactSavings, 2, 0, -1, true, nil, 0},
		{"a look", balance, 1, 0, 0, false, func(*state) {}, 0},
		{"a covered check", writeCheck, 0, 0, 1000, false, func(s *state) { s[3] -= 1000 }, 1},             // savings 1000, checking 0
		{"a check that is not covered", writeCheck, 0, 0, 1, false, func(s *state) { s[3] -= 1 + 100 }, 1}, // savings 1000, checking -1000
		{"all to another", amalgamate, 0, 2, 0, false, func(s *state) { s[5] += s[0] + s[3]; s[0], s[3] = 0, 0 }, 3},
	} {
		putKey(c.keyA, step.a)
		putKey(c.keyB, step.b)
		c.amount = step.amount
		err := db.Update(t.Context(), c.run[step.kind])
		if step.rollback {
			if !errors.Is(err, errInsufficient) {
				t.Errorf("%s: error is %v", step.name, err)
			}
		} else {
			if err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			before := sumOfState(want)
			step.change(&want)
			if e := (effect{sumOfState(want) - before, step.writes}); c.effect != e {
				t.Errorf("%s: effect is %+v, want %+v", step.name, c.effect, e)
			}
		}
		if got := stateOf(t, db, c.tables); got != want {
			t.Fatalf("after %s: %v, want %v", step.name, got, want)
		}
	}
}

func sumOfState(s state) (sum int64) {
	for _, c := range s {
		sum += c
	}
	return sum
}

// The path of a transaction allocates nothing, in the benchmark either.
func TestTransactionsDoNotAllocate(t *testing.T) {
	db, c := small(t)
	ctx := t.Context()
	c.amount = 1
	for kind := range c.run {
		run := db.Update
		if kind == int(balance) {
			run = db.View
		}
		n := testing.AllocsPerRun(500, func() {
			if err := run(ctx, c.run[kind]); err != nil && !errors.Is(err, errInsufficient) {
				t.Error(err)
			}
		})
		if n != 0 {
			t.Errorf("%s allocates %v times", kindNames[kind], n)
		}
	}
}

func TestRow(t *testing.T) {
	b := make([]byte, rowSize)
	for _, r := range []row{{}, {-1, 1}, {math.MinInt64, math.MaxUint64}} {
		r.put(b)
		if got, err := rowOf(b); err != nil || got != r {
			t.Errorf("got %v, %v, want %v", got, err, r)
		}
	}
	if _, err := rowOf(b[:15]); err == nil {
		t.Error("a short value passes")
	}
	key := make([]byte, keySize)
	putKey(key, 0x0102)
	if string(key) != "\x00\x00\x00\x00\x00\x00\x01\x02" {
		t.Errorf("key is %x", key)
	}
}

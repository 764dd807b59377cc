package main

import (
	"errors"
	"slices"

	"fjord/bench"
	"fjord/txn"
)

// kind is one of the six transactions.
type kind int

const (
	amalgamate kind = iota
	balance
	depositChecking
	sendPayment
	transactSavings
	writeCheck

	kinds = iota
)

var kindNames = [kinds]string{"Amalgamate", "Balance", "DepositChecking", "SendPayment", "TransactSavings", "WriteCheck"}

// mix is the share of each transaction in per cent.
var mix = [kinds]int{15, 15, 15, 25, 15, 15}

// Amounts are drawn evenly from 1 cent to these. Deposits are larger than what is
// spent, so that most rollbacks are of accounts that Amalgamate has emptied and nobody
// has paid into since: about one payment in three on hot accounts.
const (
	maxDeposit = 100_00
	maxPayment = 5_00
	// A savings transaction is a withdrawal, of at most maxPayment, in one of
	// withdrawalOneIn cases.
	withdrawalOneIn = 8
	// overdraft is what a check costs beyond its amount if it is not covered.
	overdraft = 1_00
)

// errInsufficient rolls back a transaction that would take more than there is.
var errInsufficient = bench.NewRollback("insufficient_funds")

// client runs the transactions of one worker. Everything it needs is made once.
type client struct {
	tables
	bank *bank
	w    *bench.Worker
	run  [kinds]func(*txn.Tx) error
	only int // the kind that runs alone; -1: the mix

	// The transaction drawn last: its kind, its accounts and its amount.
	kind       kind
	keyA, keyB []byte
	amount     int64

	// Its latest attempt: what it would change, and buffers.
	effect effect
	refs   [3]txn.Ref
	values [3][rowSize]byte

	committed effect
	unknown   []unknown
}

// effect is what transactions do to the sums over all accounts.
type effect struct {
	cents  int64
	writes uint64
}

func (e *effect) add(o effect) {
	e.cents += o.cents
	e.writes += o.writes
}

// unknown is a transaction that may have had an effect.
type unknown struct {
	id     txn.ID
	effect effect
}

// NewClient returns the client of w.
func (k *bank) NewClient(w *bench.Worker) bench.Client {
	c := &client{tables: k.tables[w.DB], bank: k, w: w, only: slices.Index(kindNames[:], k.only), keyA: make([]byte, keySize), keyB: make([]byte, keySize)}
	c.run = [kinds]func(*txn.Tx) error{c.amalgamate, c.balance, c.depositChecking, c.sendPayment, c.transactSavings, c.writeCheck}
	k.clients = append(k.clients, c)
	return c
}

// Next draws kind, accounts and amount.
func (c *client) Next() int {
	rng := c.w.Rand
	if c.kind = kind(c.only); c.only < 0 {
		percent := rng.IntN(100)
		for c.kind = 0; percent >= mix[c.kind]; c.kind++ {
			percent -= mix[c.kind]
		}
	}
	a := c.bank.account(c.w)
	putKey(c.keyA, a)
	switch c.kind {
	case amalgamate:
		putKey(c.keyB, c.bank.other(c.w, a))
	case balance:
	case depositChecking:
		c.amount = 1 + rng.Int64N(maxDeposit)
	case sendPayment:
		putKey(c.keyB, c.bank.other(c.w, a))
		c.amount = 1 + rng.Int64N(maxPayment)
	case transactSavings:
		if rng.IntN(withdrawalOneIn) == 0 {
			c.amount = -1 - rng.Int64N(maxPayment)
		} else {
			c.amount = 1 + rng.Int64N(maxDeposit)
		}
	case writeCheck:
		c.amount = 1 + rng.Int64N(maxPayment)
	}
	return int(c.kind)
}

// account draws an account: a hot one in hotPercent of the cases.
func (k *bank) account(w *bench.Worker) uint64 {
	hot, all := uint64(k.hotAccounts), uint64(k.accounts)
	switch {
	case hot == 0 || hot == all:
		return w.Rand.Uint64N(all)
	case w.Rand.Float64()*100 < k.hotPercent:
		return w.Rand.Uint64N(hot)
	}
	return hot + w.Rand.Uint64N(all-hot)
}

// other draws an account that is not a.
func (k *bank) other(w *bench.Worker, a uint64) uint64 {
	const tries = 16 // a set of one account has no other
	for range tries {
		if b := k.account(w); b != a {
			return b
		}
	}
	return (a + 1) % uint64(k.accounts)
}

// Run runs the transaction and keeps the account of what it did.
func (c *client) Run() error {
	var err error
	if fn := c.run[c.kind]; c.kind == balance {
		err = c.w.View(fn)
	} else {
		err = c.w.Update(fn)
	}
	if err == nil {
		c.committed.add(c.effect)
		return nil
	}
	if u := (*txn.UnknownError)(nil); errors.As(err, &u) {
		c.unknown = append(c.unknown, unknown{u.ID, c.effect})
	}
	return err
}

// fetch gets all records of the transaction in one round trip.
func (c *client) fetch(tx *txn.Tx, refs ...txn.Ref) error {
	c.effect = effect{}
	return tx.Fetch(c.refs[:copy(c.refs[:], refs)]...)
}

// get reads a row.
func (c *client) get(tx *txn.Tx, t *txn.Table, key []byte) (row, error) {
	v, err := tx.Get(t, key)
	if err != nil {
		return row{}, err
	}
	return rowOf(v)
}

// set writes r with other cents, from buffer i.
func (c *client) set(tx *txn.Tx, i int, t *txn.Table, key []byte, r row, cents int64) error {
	c.effect.add(effect{cents - r.cents, 1})
	row{cents, r.updates + 1}.put(c.values[i][:])
	return tx.Put(t, key, c.values[i][:])
}

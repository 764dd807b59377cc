package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

// table names one of SmallBank's two tables.
type table uint8

const (
	savings table = iota
	checking

	tables = 2
)

// String is the name under which engines with named tables keep it.
func (t table) String() string {
	switch t {
	case savings:
		return "savings"
	case checking:
		return "checking"
	default:
		return fmt.Sprintf("table(%d)", uint8(t))
	}
}

// row is the value of one account in one table.
type row struct {
	cents   int64
	updates uint64 // counts the committed writes: finds lost updates that happen to balance out
}

const (
	keySize = 8  // account number, big-endian
	rowSize = 16 // cents, updates, both little-endian
)

func putKey(dst []byte, account uint64) { binary.BigEndian.PutUint64(dst, account) }

func (r row) put(dst []byte) {
	binary.LittleEndian.PutUint64(dst, uint64(r.cents))
	binary.LittleEndian.PutUint64(dst[8:], r.updates)
}

func rowOf(b []byte) (row, error) {
	if len(b) != rowSize {
		return row{}, fmt.Errorf("a value of %d bytes, want %d", len(b), rowSize)
	}
	return row{int64(binary.LittleEndian.Uint64(b)), binary.LittleEndian.Uint64(b[8:])}, nil
}

// kind is one of the six transactions.
type kind uint8

const (
	amalgamate kind = iota
	balance
	depositChecking
	sendPayment
	transactSavings
	writeCheck
)

// String is the name H-Store gives the transaction.
func (k kind) String() string {
	switch k {
	case amalgamate:
		return "Amalgamate"
	case balance:
		return "Balance"
	case depositChecking:
		return "DepositChecking"
	case sendPayment:
		return "SendPayment"
	case transactSavings:
		return "TransactSavings"
	case writeCheck:
		return "WriteCheck"
	default:
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
}

// maxKeys is the most records that one transaction touches: Amalgamate's three.
const maxKeys = 3

// access is one record that a transaction touches.
type access struct {
	account uint64
	table   table
	write   bool // read and written; without it, only read
}

// op is one transaction with its inputs. Its records are known before it runs, so an engine reads
// keys[:n] into rows, calls apply, and writes back the rows whose access says write. This leaves the
// logic in one place and costs no closure and no dynamic call per record.
type op struct {
	kind   kind
	n      int
	keys   [maxKeys]access
	amount int64 // cents; only TransactSavings' may be negative

	delta  int64 // set by apply: how the sum of all balances changes if this commits
	writes int   // set by apply: how many rows it changed
}

// set makes o the transaction k on account a, and on b where k has two accounts.
func (o *op) set(k kind, a, b uint64, amount int64) {
	o.kind, o.amount = k, amount
	switch k {
	case amalgamate:
		o.n = 3
		o.keys[0] = access{a, savings, true}
		o.keys[1] = access{a, checking, true}
		o.keys[2] = access{b, checking, true}
	case balance:
		o.n = 2
		o.keys[0] = access{a, savings, false}
		o.keys[1] = access{a, checking, false}
	case depositChecking:
		o.n = 1
		o.keys[0] = access{a, checking, true}
	case sendPayment:
		o.n = 2
		o.keys[0] = access{a, checking, true}
		o.keys[1] = access{b, checking, true}
	case transactSavings:
		o.n = 1
		o.keys[0] = access{a, savings, true}
	case writeCheck:
		o.n = 2
		o.keys[0] = access{a, savings, false}
		o.keys[1] = access{a, checking, true}
	}
}

// readOnly tells whether o writes nothing, so that an engine may use its read-only transaction.
func (o *op) readOnly() bool { return o.kind == balance }

// apply computes the transaction on rows, which hold keys[:n] as read, and leaves there what is to be
// written. It reports false when the bank's rules ask for a rollback. It may be called again on
// freshly read rows after a conflict.
func (o *op) apply(rows *[maxKeys]row) (commit bool) {
	o.delta, o.writes = 0, 0
	switch o.kind {
	case amalgamate:
		rows[2].cents += rows[0].cents + rows[1].cents
		rows[0].cents, rows[1].cents = 0, 0
		rows[0].updates++
		rows[1].updates++
		rows[2].updates++
		o.writes = 3
	case balance:
		// The read itself is the transaction. The sum goes nowhere, as there is no client.
	case depositChecking:
		rows[0].cents += o.amount
		rows[0].updates++
		o.delta, o.writes = o.amount, 1
	case sendPayment:
		if rows[0].cents < o.amount {
			return false
		}
		rows[0].cents -= o.amount
		rows[1].cents += o.amount
		rows[0].updates++
		rows[1].updates++
		o.writes = 2
	case transactSavings:
		if rows[0].cents+o.amount < 0 {
			return false
		}
		rows[0].cents += o.amount
		rows[0].updates++
		o.delta, o.writes = o.amount, 1
	case writeCheck:
		v := o.amount
		if rows[0].cents+rows[1].cents < v {
			v++ // the penalty
		}
		rows[1].cents -= v
		rows[1].updates++
		o.delta, o.writes = -v, 1
	}
	return true
}

// setting is a distribution of accesses over accounts.
type setting struct {
	name     string
	accounts uint64
	hot      uint64 // this many accounts get hotShare of the accesses; 0 is uniform
}

// hotShare is in percent.
const hotShare = 90

// settings lists what can be asked for by name.
func settings() []setting {
	return []setting{
		{"uniform", 100_000, 0},
		{"hot", 100_000, 4_000},
		{"contended", 100, 0},
	}
}

// generator draws transactions for one goroutine.
type generator struct {
	rng rng
	setting
}

// newGenerator makes one of many independent streams of a seed.
func newGenerator(s setting, seed, stream uint64) generator {
	pcg := rand.NewPCG(seed, stream)
	return generator{rng: rng{pcg.Uint64()}, setting: s}
}

func (g *generator) below(n uint64) uint64 { return g.rng.below(n) }

func (g *generator) account() uint64 {
	switch {
	case g.hot == 0:
		return g.below(g.accounts)
	case g.below(100) < hotShare:
		return g.below(g.hot)
	default:
		return g.hot + g.below(g.accounts-g.hot)
	}
}

// Amounts are uniform, in cents. More is paid in than out, so that accounts do not run dry.
const (
	maxDeposit    = 10_000
	maxPayment    = 1_000
	maxWithdrawal = 2_000 // TransactSavings is a deposit less this
)

// next draws the next transaction by H-Store's mix.
func (g *generator) next(o *op) {
	a := g.account()
	switch p := g.below(100); {
	case p < 15:
		o.set(amalgamate, a, g.other(a), 0)
	case p < 30:
		o.set(balance, a, 0, 0)
	case p < 45:
		o.set(depositChecking, a, 0, g.amount(maxDeposit))
	case p < 70:
		o.set(sendPayment, a, g.other(a), g.amount(maxPayment))
	case p < 85:
		o.set(transactSavings, a, 0, g.amount(maxDeposit)-maxWithdrawal)
	default:
		o.set(writeCheck, a, 0, g.amount(maxPayment))
	}
}

func (g *generator) amount(limit uint64) int64 { return 1 + int64(g.below(limit)) }

// other draws an account that is not a.
func (g *generator) other(a uint64) uint64 {
	for {
		if b := g.account(); b != a {
			return b
		}
	}
}

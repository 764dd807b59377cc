package main

// ledger is the bank in plain memory: what every engine is loaded with.
type ledger [tables][]row

const (
	// openingCents is what every account has in savings, and in checking, before it ages.
	openingCents = 1_000_000
	// ageing is how many transactions per account a ledger has seen when it is handed out.
	ageing = 20
)

// newLedger makes the accounts of a setting as they are after a while in business. On fresh accounts
// no payment is refused for lack of money, later about one in three is. A fast engine would get there
// within a second and a slow one never, and their committed transactions would not be the same ones.
func newLedger(s setting, seed uint64) ledger {
	var l ledger
	for t := range l {
		l[t] = make([]row, s.accounts)
		for a := range l[t] {
			l[t][a].cents = openingCents
		}
	}
	const stream = 1 << 32 // one that no goroutine draws from
	g := newGenerator(s, seed, stream)
	var o op
	for range ageing * s.accounts {
		g.next(&o)
		l.run(&o)
	}
	for t := range l {
		for a := range l[t] {
			l[t][a].updates = 0
		}
	}
	return l
}

// accounts is how many there are.
func (l ledger) accounts() int { return len(l[savings]) }

// run executes o on the ledger itself.
func (l ledger) run(o *op) (committed bool) {
	var rows [maxKeys]row
	for i := range o.n {
		rows[i] = l[o.keys[i].table][o.keys[i].account]
	}
	if !o.apply(&rows) {
		return false
	}
	for i := range o.n {
		if o.keys[i].write {
			l[o.keys[i].table][o.keys[i].account] = rows[i]
		}
	}
	return true
}

// totals are the two sums that every run has to preserve.
type totals struct {
	cents   int64
	updates uint64
}

func (t *totals) add(r row) {
	t.cents += r.cents
	t.updates += r.updates
}

func (l ledger) totals() (sum totals) {
	for t := range l {
		for _, r := range l[t] {
			sum.add(r)
		}
	}
	return sum
}

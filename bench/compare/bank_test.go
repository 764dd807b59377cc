package main

import (
	"math"
	"testing"
)

func TestTransactions(t *testing.T) {
	const a, b = 3, 7
	// Rows by account and table: a's savings, a's checking, b's checking.
	type money [3]int64
	for name, c := range map[string]struct {
		kind          kind
		amount        int64
		before, after money
		rolledBack    bool
	}{
		"Amalgamate moves all to the other's checking":        {amalgamate, 0, money{5, -2, 10}, money{0, 0, 13}, false},
		"Balance changes nothing":                             {balance, 0, money{5, 6, 7}, money{5, 6, 7}, false},
		"DepositChecking adds":                                {depositChecking, 4, money{5, 6, 7}, money{5, 10, 7}, false},
		"SendPayment moves":                                   {sendPayment, 6, money{5, 6, 7}, money{5, 0, 13}, false},
		"SendPayment refuses to overdraw":                     {sendPayment, 7, money{5, 6, 7}, money{5, 6, 7}, true},
		"TransactSavings adds":                                {transactSavings, 4, money{5, 6, 7}, money{9, 6, 7}, false},
		"TransactSavings takes all":                           {transactSavings, -5, money{5, 6, 7}, money{0, 6, 7}, false},
		"TransactSavings refuses to overdraw":                 {transactSavings, -6, money{5, 6, 7}, money{5, 6, 7}, true},
		"WriteCheck deducts, counting the savings as cover":   {writeCheck, 11, money{5, 6, 7}, money{5, -5, 7}, false},
		"WriteCheck deducts a penalty when it is not covered": {writeCheck, 12, money{5, 6, 7}, money{5, -7, 7}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := ledger{make([]row, 10), make([]row, 10)}
			places := [3]*row{&l[savings][a], &l[checking][a], &l[checking][b]}
			for i, p := range places {
				p.cents = c.before[i]
			}
			before := l.totals()
			var o op
			o.set(c.kind, a, b, c.amount)
			if committed := l.run(&o); committed == c.rolledBack {
				t.Fatalf("committed is %v", committed)
			}
			for i, p := range places {
				if p.cents != c.after[i] {
					t.Errorf("place %d holds %d, want %d", i, p.cents, c.after[i])
				}
			}
			if after := l.totals(); after.cents-before.cents != o.delta || after.updates != uint64(o.writes) {
				t.Errorf("the sums changed by %d and %d, apply said %d and %d",
					after.cents-before.cents, after.updates, o.delta, o.writes)
			}
		})
	}
}

func TestGeneratorDrawsTheMix(t *testing.T) {
	const n = 100_000
	want := map[kind]float64{amalgamate: 15, balance: 15, depositChecking: 15, sendPayment: 25, transactSavings: 15, writeCheck: 15}
	for _, s := range settings() {
		t.Run(s.name, func(t *testing.T) {
			g := newGenerator(s, 1, 0)
			got := map[kind]int{}
			hot, accounts := 0, 0
			var o op
			for range n {
				g.next(&o)
				got[o.kind]++
				last := o.keys[o.n-1].account
				switch o.kind {
				case amalgamate, sendPayment:
					if o.keys[0].account == last {
						t.Fatalf("%v from account %d to itself", o.kind, last)
					}
					accounts += 2
					if last < s.hot {
						hot++
					}
				case balance, depositChecking, transactSavings, writeCheck:
					accounts++
				}
				if o.keys[0].account < s.hot {
					hot++
				}
				if o.keys[0].account >= s.accounts || last >= s.accounts {
					t.Fatalf("%v of accounts %d and %d, there are only %d", o.kind, o.keys[0].account, last, s.accounts)
				}
			}
			for k, percent := range want {
				if p := 100 * float64(got[k]) / n; math.Abs(p-percent) > 0.5 {
					t.Errorf("%.1f %% %v, want %v", p, k, percent)
				}
			}
			if p := 100 * float64(hot) / float64(accounts); s.hot > 0 && math.Abs(p-hotShare) > 0.5 {
				t.Errorf("%.1f %% of the accesses are hot, want %d", p, hotShare)
			}
		})
	}
}

func TestLedgerHasAgedEnough(t *testing.T) {
	for _, s := range settings() {
		t.Run(s.name, func(t *testing.T) {
			l := newLedger(s, 1)
			if l.totals().updates != 0 {
				t.Error("it counts updates from before")
			}
			early, late := refused(l, s, 1), 0.0
			for stream := range uint64(10) {
				late = refused(l, s, 2+stream)
			}
			if math.Abs(late-early) > 0.02 {
				t.Errorf("%.1f %% of transactions roll back at first and %.1f %% later", 100*early, 100*late)
			}
		})
	}
}

// refused runs some more transactions and returns the share that rolled back.
func refused(l ledger, s setting, stream uint64) float64 {
	const n = 50_000
	g := newGenerator(s, 1, stream)
	rolledBack := 0
	var o op
	for range n {
		g.next(&o)
		if !l.run(&o) {
			rolledBack++
		}
	}
	return float64(rolledBack) / n
}

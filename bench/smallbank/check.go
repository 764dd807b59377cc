package main

import (
	"context"
	"errors"
	"fmt"

	"fjord/bench"
	"fjord/txn"
)

// Check compares the accounts with the committed effects: money_conserved holds
// if the sum of all balances is the opening one plus all deposits less all
// withdrawals, to the cent, and updates_counted if the rows were written as often as
// transactions wrote them. A transaction of unknown outcome counts if DB.Resolve
// says that it committed; if it cannot say, both checks fail.
func (k *bank) Check(ctx context.Context, db *txn.DB, c *bench.Checks) error {
	want := effect{cents: k.opening.Load()}
	var unresolved []error
	for _, cl := range k.clients {
		want.add(cl.committed)
		for _, u := range cl.unknown {
			switch outcome, err := cl.w.DB.Resolve(ctx, u.id); {
			case err != nil:
				unresolved = append(unresolved, fmt.Errorf("transaction %v: %w", u.id, err))
			case outcome == txn.Committed:
				want.add(u.effect)
			case outcome == txn.Unknown:
				unresolved = append(unresolved, fmt.Errorf("transaction %v is still unknown", u.id))
			}
		}
	}
	got, err := k.sum(ctx, db)
	if err != nil {
		return err
	}
	open := ""
	if err := errors.Join(unresolved...); err != nil {
		open = fmt.Sprintf("; unresolved: %v", err)
	}
	c.Add("money_conserved", got.cents == want.cents && open == "", "%s", difference(got.cents, want.cents, " cents")+open)
	c.Add("updates_counted", got.writes == want.writes && open == "", "%s", difference(got.writes, want.writes, " updates")+open)
	return nil
}

func difference[T int64 | uint64](got, want T, unit string) string {
	if got == want {
		return fmt.Sprintf("%d%s", got, unit)
	}
	return fmt.Sprintf("%d%s, it should be %d", got, unit, want)
}

// sum reads all accounts. No other transaction runs, so that it may do so in
// several.
func (k *bank) sum(ctx context.Context, db *txn.DB) (effect, error) {
	var total effect
	for lo := 0; lo < k.accounts; lo += batch {
		var part effect
		err := db.View(ctx, func(tx *txn.Tx) (err error) {
			part, err = k.tables[db].sum(tx, lo, min(lo+batch, k.accounts))
			return err
		})
		if err != nil {
			return effect{}, err
		}
		total.add(part)
	}
	return total, nil
}

// sum reads accounts lo to hi-1.
func (t tables) sum(tx *txn.Tx, lo, hi int) (effect, error) {
	var (
		keys [batch][keySize]byte
		refs []txn.Ref
		sum  effect
	)
	for a := lo; a < hi; a++ {
		key := keys[a-lo][:]
		putKey(key, uint64(a))
		refs = append(refs, txn.ForRead(t.savings, key), txn.ForRead(t.checking, key))
	}
	if err := tx.Fetch(refs...); err != nil {
		return effect{}, err
	}
	for a := lo; a < hi; a++ {
		for _, t := range []*txn.Table{t.savings, t.checking} {
			v, err := tx.Get(t, keys[a-lo][:])
			if err != nil {
				return effect{}, fmt.Errorf("account %d in %s: %w", a, t.Name(), err)
			}
			r, err := rowOf(v)
			if err != nil {
				return effect{}, err
			}
			sum.add(effect{r.cents, r.updates})
		}
	}
	return sum, nil
}

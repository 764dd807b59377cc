package main

import (
	"context"
	"errors"

	"fjord/txn"
)

// fjordSpecs are fjord with one copy, the fair match for engines in plain memory, and with three, the
// way it is meant to be used. Memory nodes and transactions share this process.
func fjordSpecs() []spec {
	return []spec{
		{name: "fjord-1", open: openFjord(1)},
		{name: "fjord-3", open: openFjord(3)},
	}
}

type fjordEngine struct {
	db     *txn.DB
	tables [tables]*txn.Table
	ledger ledger // for the number of accounts
}

func openFjord(copies int) func(ledger) (engine, error) {
	return func(l ledger) (engine, error) {
		ctx := context.Background()
		db, err := txn.Open(ctx, txn.Options{MemoryNodes: copies, Replicas: copies})
		if err != nil {
			return nil, err
		}
		e := &fjordEngine{db: db, ledger: l}
		if err := e.load(ctx, l); err != nil {
			return nil, errors.Join(err, db.Close())
		}
		return e, nil
	}
}

// fjordBatch is how many records one transaction of the load inserts, and one of the check reads. It
// stays well within a log slot.
const fjordBatch = 16

func (e *fjordEngine) load(ctx context.Context, l ledger) (err error) {
	for t := range table(tables) {
		e.tables[t], err = e.db.CreateTable(ctx, txn.Schema{
			Name: t.String(), KeySize: keySize, ValueSize: rowSize, Capacity: l.accounts(),
		})
		if err != nil {
			return err
		}
		for from := 0; from < l.accounts(); from += fjordBatch {
			batch := l[t][from:min(from+fjordBatch, l.accounts())]
			err := e.db.Update(ctx, func(tx *txn.Tx) error {
				for i, r := range batch {
					key, value := make([]byte, keySize), make([]byte, rowSize)
					putKey(key, uint64(from+i))
					r.put(value)
					if err := tx.Insert(e.tables[t], key, value); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *fjordEngine) worker() (worker, error) {
	w := &fjordWorker{engine: e, ctx: context.Background()}
	w.body = w.attempt // once, as a method value takes an allocation
	return w, nil
}

func (e *fjordEngine) totals() (sum totals, err error) {
	for t := range table(tables) {
		for from := 0; from < e.ledger.accounts(); from += fjordBatch {
			var part totals
			err := e.db.View(context.Background(), func(tx *txn.Tx) error {
				part = totals{}
				for a := from; a < min(from+fjordBatch, e.ledger.accounts()); a++ {
					key := make([]byte, keySize)
					putKey(key, uint64(a))
					b, err := tx.Get(e.tables[t], key)
					if err != nil {
						return err
					}
					r, err := rowOf(b)
					if err != nil {
						return err
					}
					part.add(r)
				}
				return nil
			})
			if err != nil {
				return sum, err
			}
			sum.cents += part.cents
			sum.updates += part.updates
		}
	}
	return sum, nil
}

func (e *fjordEngine) close() error { return e.db.Close() }

// errRollback makes Update abort. Until it has, all records that apply looked at are locked or
// validated, so that the refusal is as serializable as a commit.
var errRollback = errors.New("rolled back by the bank's rules")

type fjordWorker struct {
	_        [cacheLine]byte
	engine   *fjordEngine
	ctx      context.Context
	body     func(*txn.Tx) error // attempt
	op       *op
	attempts int
	keys     [maxKeys][keySize]byte
	refs     [maxKeys]txn.Ref
	values   [maxKeys][rowSize]byte
	_        [cacheLine]byte
}

func (w *fjordWorker) run(o *op) (committed bool, retries int, err error) {
	w.op, w.attempts = o, 0
	for i := range o.n {
		k := &o.keys[i]
		putKey(w.keys[i][:], k.account)
		if k.write {
			w.refs[i] = txn.ForUpdate(w.engine.tables[k.table], w.keys[i][:])
		} else {
			w.refs[i] = txn.ForRead(w.engine.tables[k.table], w.keys[i][:])
		}
	}
	for {
		if o.readOnly() {
			err = w.engine.db.View(w.ctx, w.body)
		} else {
			err = w.engine.db.Update(w.ctx, w.body)
		}
		switch {
		case err == nil:
			return true, w.attempts - 1, nil
		case errors.Is(err, errRollback):
			return false, w.attempts - 1, nil
		case !errors.Is(err, txn.ErrConflict): // else: fjord's own limit of reruns is used up
			return false, w.attempts - 1, err
		}
	}
}

func (w *fjordWorker) attempt(tx *txn.Tx) error {
	w.attempts++
	o := w.op
	if err := tx.Fetch(w.refs[:o.n]...); err != nil {
		return err
	}
	var rows [maxKeys]row
	for i := range o.n {
		b, err := tx.Get(w.engine.tables[o.keys[i].table], w.keys[i][:])
		if err != nil {
			return err
		}
		if rows[i], err = rowOf(b); err != nil {
			return err
		}
	}
	if !o.apply(&rows) {
		return errRollback
	}
	for i := range o.n {
		if o.keys[i].write {
			rows[i].put(w.values[i][:])
			if err := tx.Put(w.engine.tables[o.keys[i].table], w.keys[i][:], w.values[i][:]); err != nil {
				return err
			}
		}
	}
	return nil
}

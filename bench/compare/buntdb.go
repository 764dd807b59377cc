package main

import (
	"errors"

	"github.com/tidwall/buntdb"
)

// buntEngine is buntdb in memory: a B-tree under one reader-writer lock. Keys and values are strings,
// so each takes an allocation, as it would for any user of it.
type buntEngine struct {
	db *buntdb.DB
}

func openBunt(l ledger) (engine, error) {
	db, err := buntdb.Open(":memory:")
	if err != nil {
		return nil, err
	}
	if err := db.Update(func(tx *buntdb.Tx) error { return loadBunt(tx, l) }); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &buntEngine{db}, nil
}

func loadBunt(tx *buntdb.Tx, l ledger) error {
	var key [prefixedKeySize]byte
	var value [rowSize]byte
	for t := range table(tables) {
		for a, r := range l[t] {
			putPrefixedKey(key[:], t, uint64(a))
			r.put(value[:])
			if _, _, err := tx.Set(string(key[:]), string(value[:]), nil); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *buntEngine) worker() (worker, error) { return &buntWorker{db: e.db}, nil }

func (e *buntEngine) totals() (sum totals, err error) {
	err = e.db.View(func(tx *buntdb.Tx) error {
		var bad error
		err := tx.Ascend("", func(_, value string) bool {
			var r row
			r, bad = rowOf([]byte(value))
			sum.add(r)
			return bad == nil
		})
		return errors.Join(err, bad)
	})
	return sum, err
}

func (e *buntEngine) close() error { return e.db.Close() }

type buntWorker struct {
	db    *buntdb.DB
	value [rowSize]byte
}

func (w *buntWorker) run(o *op) (committed bool, retries int, err error) {
	tx, err := w.db.Begin(!o.readOnly())
	if err != nil {
		return false, 0, err
	}
	committed, err = w.body(tx, o)
	if committed && !o.readOnly() {
		err = tx.Commit()
		return err == nil, 0, err
	}
	return committed, 0, errors.Join(err, tx.Rollback())
}

func (w *buntWorker) body(tx *buntdb.Tx, o *op) (commit bool, err error) {
	var (
		rows [maxKeys]row
		keys [maxKeys]string
	)
	for i := range o.n {
		var key [prefixedKeySize]byte
		putPrefixedKey(key[:], o.keys[i].table, o.keys[i].account)
		keys[i] = string(key[:])
		value, err := tx.Get(keys[i])
		if err != nil {
			return false, err
		}
		copy(w.value[:], value)
		if rows[i], err = rowOf(w.value[:len(value)]); err != nil {
			return false, err
		}
	}
	if !o.apply(&rows) {
		return false, nil
	}
	for i := range o.n {
		if o.keys[i].write {
			rows[i].put(w.value[:])
			if _, _, err := tx.Set(keys[i], string(w.value[:]), nil); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

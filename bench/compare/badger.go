package main

import (
	"errors"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// badgerEngine is badger in memory: optimistic, serializable, an LSM tree underneath. Both tables
// share its one key space, told apart by a leading byte.
type badgerEngine struct {
	db *badger.DB
}

const prefixedKeySize = 1 + keySize

func putPrefixedKey(dst []byte, t table, account uint64) {
	dst[0] = byte(t)
	putKey(dst[1:], account)
}

func openBadger(l ledger) (engine, error) {
	// Without compression the block cache would only copy what is in memory anyway.
	db, err := badger.Open(badger.DefaultOptions("").
		WithInMemory(true).
		WithLogger(nil).
		WithMetricsEnabled(false).
		WithCompression(options.None).
		WithBlockCacheSize(0))
	if err != nil {
		return nil, err
	}
	e := &badgerEngine{db}
	if err := e.load(l); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return e, nil
}

func (e *badgerEngine) load(l ledger) error {
	batch := e.db.NewWriteBatch()
	defer batch.Cancel()
	for t := range table(tables) {
		for a, r := range l[t] {
			// The batch keeps both.
			key, value := make([]byte, prefixedKeySize), make([]byte, rowSize)
			putPrefixedKey(key, t, uint64(a))
			r.put(value)
			if err := batch.Set(key, value); err != nil {
				return err
			}
		}
	}
	return batch.Flush()
}

func (e *badgerEngine) worker() (worker, error) { return &badgerWorker{db: e.db}, nil }

func (e *badgerEngine) totals() (sum totals, err error) {
	err = e.db.View(func(tx *badger.Txn) error {
		it := tx.NewIterator(badger.DefaultIteratorOptions)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			err := it.Item().Value(func(b []byte) error {
				r, err := rowOf(b)
				sum.add(r)
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return sum, err
}

func (e *badgerEngine) close() error { return e.db.Close() }

// badgerWorker owns the buffers that badger refers to until a commit has returned.
type badgerWorker struct {
	db     *badger.DB
	keys   [maxKeys][prefixedKeySize]byte
	values [maxKeys][rowSize]byte
}

func (w *badgerWorker) run(o *op) (committed bool, retries int, err error) {
	for {
		committed, err = w.attempt(o)
		if !errors.Is(err, badger.ErrConflict) {
			return committed, retries, err
		}
		retries++
	}
}

func (w *badgerWorker) attempt(o *op) (committed bool, err error) {
	tx := w.db.NewTransaction(!o.readOnly())
	defer tx.Discard()
	var rows [maxKeys]row
	for i := range o.n {
		putPrefixedKey(w.keys[i][:], o.keys[i].table, o.keys[i].account)
		item, err := tx.Get(w.keys[i][:])
		if err != nil {
			return false, err
		}
		b, err := item.ValueCopy(w.values[i][:0])
		if err != nil {
			return false, err
		}
		if rows[i], err = rowOf(b); err != nil {
			return false, err
		}
	}
	if !o.apply(&rows) {
		return false, nil
	}
	if o.readOnly() {
		return true, nil
	}
	for i := range o.n {
		if o.keys[i].write {
			rows[i].put(w.values[i][:])
			if err := tx.Set(w.keys[i][:], w.values[i][:]); err != nil {
				return false, err
			}
		}
	}
	err = tx.Commit()
	return err == nil, err
}

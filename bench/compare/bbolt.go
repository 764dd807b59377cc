package main

import (
	"errors"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// boltEngine is bbolt on a temporary file that is never synced: a copy-on-write B+ tree in a mapped
// file, one writer at a time, readers on snapshots.
type boltEngine struct {
	db  *bbolt.DB
	dir string
}

// boltMapSize spares the load and the run from growing the map, which has to wait for all readers.
const boltMapSize = 1 << 30

func openBolt(l ledger) (engine, error) {
	dir, err := os.MkdirTemp("", "compare-bbolt-")
	if err != nil {
		return nil, err
	}
	db, err := bbolt.Open(filepath.Join(dir, "db"), 0o600, &bbolt.Options{
		NoSync:          true,
		NoGrowSync:      true,
		NoFreelistSync:  true,
		FreelistType:    bbolt.FreelistMapType,
		InitialMmapSize: boltMapSize,
	})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	e := &boltEngine{db, dir}
	if err := e.load(l); err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

func (e *boltEngine) load(l ledger) error {
	return e.db.Update(func(tx *bbolt.Tx) error {
		var key [keySize]byte
		values := make([]byte, 0, tables*rowSize*l.accounts()) // bbolt refers to them until it commits
		for t := range table(tables) {
			b, err := tx.CreateBucket([]byte(t.String()))
			if err != nil {
				return err
			}
			for a, r := range l[t] {
				putKey(key[:], uint64(a))
				values = values[:len(values)+rowSize]
				value := values[len(values)-rowSize:]
				r.put(value)
				if err := b.Put(key[:], value); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func (e *boltEngine) worker() (worker, error) {
	w := &boltWorker{db: e.db}
	for t := range table(tables) {
		w.names[t] = []byte(t.String())
	}
	return w, nil
}

func (e *boltEngine) totals() (sum totals, err error) {
	err = e.db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(_, value []byte) error {
				r, err := rowOf(value)
				sum.add(r)
				return err
			})
		})
	})
	return sum, err
}

func (e *boltEngine) close() error { return errors.Join(e.db.Close(), os.RemoveAll(e.dir)) }

// boltWorker owns the values that bbolt refers to until a transaction ends. Keys it copies.
type boltWorker struct {
	db     *bbolt.DB
	names  [tables][]byte
	values [maxKeys][rowSize]byte
}

func (w *boltWorker) run(o *op) (committed bool, retries int, err error) {
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

func (w *boltWorker) body(tx *bbolt.Tx, o *op) (commit bool, err error) {
	var (
		rows    [maxKeys]row
		key     [keySize]byte
		buckets [maxKeys]*bbolt.Bucket
	)
	for i := range o.n {
		buckets[i] = tx.Bucket(w.names[o.keys[i].table])
		putKey(key[:], o.keys[i].account)
		if rows[i], err = rowOf(buckets[i].Get(key[:])); err != nil {
			return false, err
		}
	}
	if !o.apply(&rows) {
		return false, nil
	}
	for i := range o.n {
		if o.keys[i].write {
			putKey(key[:], o.keys[i].account)
			rows[i].put(w.values[i][:])
			if err := buckets[i].Put(key[:], w.values[i][:]); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

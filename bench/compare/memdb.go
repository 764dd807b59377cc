package main

import (
	"fmt"

	"github.com/hashicorp/go-memdb"
)

// memdbEngine is go-memdb: immutable radix trees, one writer at a time, readers on snapshots.
type memdbEngine struct{ db *memdb.MemDB }

// memdbRow is what the tree holds. It is not changed once inserted, so its key can serve as the index
// entry without a copy.
type memdbRow struct {
	key [keySize]byte
	row
}

// memdbIndex finds a *memdbRow by its key. The indexers that come with memdb go through reflection.
type memdbIndex struct{}

func (memdbIndex) FromObject(obj any) (bool, []byte, error) { return true, obj.(*memdbRow).key[:], nil }

func (memdbIndex) FromArgs(args ...any) ([]byte, error) { return args[0].(*memdbRow).key[:], nil }

func openMemdb(l ledger) (engine, error) {
	schema := &memdb.DBSchema{Tables: map[string]*memdb.TableSchema{}}
	for t := range table(tables) {
		schema.Tables[t.String()] = &memdb.TableSchema{
			Name: t.String(),
			Indexes: map[string]*memdb.IndexSchema{
				"id": {Name: "id", Unique: true, Indexer: memdbIndex{}},
			},
		}
	}
	db, err := memdb.NewMemDB(schema)
	if err != nil {
		return nil, err
	}
	tx := db.Txn(true)
	defer tx.Abort()
	for t := range table(tables) {
		for a, initial := range l[t] {
			r := &memdbRow{row: initial}
			putKey(r.key[:], uint64(a))
			if err := tx.Insert(t.String(), r); err != nil {
				return nil, err
			}
		}
	}
	tx.Commit()
	return &memdbEngine{db}, nil
}

func (e *memdbEngine) worker() (worker, error) {
	w := &memdbWorker{db: e.db}
	w.args = []any{&w.wanted}
	return w, nil
}

func (e *memdbEngine) totals() (sum totals, err error) {
	tx := e.db.Txn(false)
	for t := range table(tables) {
		it, err := tx.Get(t.String(), "id") // without a key: all
		if err != nil {
			return sum, err
		}
		for obj := it.Next(); obj != nil; obj = it.Next() {
			sum.add(obj.(*memdbRow).row)
		}
	}
	return sum, nil
}

func (e *memdbEngine) close() error { return nil }

type memdbWorker struct {
	db     *memdb.MemDB
	wanted memdbRow // holds the key that is looked up
	args   []any    // &wanted
}

func (w *memdbWorker) run(o *op) (committed bool, retries int, err error) {
	tx := w.db.Txn(!o.readOnly())
	defer tx.Abort() // does nothing after Commit
	var rows [maxKeys]row
	for i := range o.n {
		putKey(w.wanted.key[:], o.keys[i].account)
		obj, err := tx.First(o.keys[i].table.String(), "id", w.args...)
		if err != nil {
			return false, 0, err
		}
		if obj == nil {
			return false, 0, fmt.Errorf("no %v for account %d", o.keys[i].table, o.keys[i].account)
		}
		rows[i] = obj.(*memdbRow).row
	}
	if !o.apply(&rows) {
		return false, 0, nil
	}
	if o.readOnly() {
		return true, 0, nil
	}
	for i := range o.n {
		if o.keys[i].write {
			r := &memdbRow{row: rows[i]}
			putKey(r.key[:], o.keys[i].account)
			if err := tx.Insert(o.keys[i].table.String(), r); err != nil {
				return false, 0, err
			}
		}
	}
	tx.Commit()
	return true, 0, nil
}

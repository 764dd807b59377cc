package simtest

import (
	"context"
	"errors"

	"fjord/txn"
)

// tx is an attempt as a workload sees it: it notes what is read and put.
type tx struct {
	*txn.Tx
	c *life
	v *values
}

func (c *life) wrap(t *txn.Tx) *tx {
	v := &values{seen: make(map[string]uint64), put: make(map[string]uint64)}
	c.run.history.values[t.ID()] = v
	return &tx{t, c, v}
}

// errUser is what a function returns that has changed its mind.
var errUser = errors.New("simtest: rolled back")

// errBroken is what it returns when it saw what must not be: if the engine passes it
// on, that was consistent.
var errBroken = errors.New("simtest: a rule of the workload is broken")

// background is the only context there is: those with deadlines know real time.
var background = context.Background()

// update runs fn in a transaction.
func (k *worker) update(label string, fn func(*tx) error) error {
	return k.life.db.Update(background, func(t *txn.Tx) error {
		t.SetLabel(label)
		x := k.life.wrap(t)
		k.id = t.ID()
		return fn(x)
	})
}

// view runs fn in a read-only transaction.
func (k *worker) view(label string, fn func(*tx) error) error {
	return k.life.db.View(background, func(t *txn.Tx) error {
		t.SetLabel(label)
		k.id = t.ID()
		return fn(k.life.wrap(t))
	})
}

// manual runs fn in a transaction that is begun and ended by hand.
func (k *worker) manual(label string, fn func(*tx) error) error {
	t, err := k.life.db.Begin(background)
	if err != nil {
		return err
	}
	t.SetLabel(label)
	k.id = t.ID()
	if err := fn(k.life.wrap(t)); err != nil {
		if e := t.Abort(); e != nil {
			return e
		}
		if errors.Is(err, errBroken) {
			return errUser // nothing says that what it saw was consistent
		}
		return err
	}
	return t.Commit(background)
}

// get returns a value; ok is false if there is none.
func (t *tx) get(table, key string) (b []byte, ok bool, err error) {
	return t.look(table, key, t.Get)
}

func (t *tx) getForUpdate(table, key string) (b []byte, ok bool, err error) {
	return t.look(table, key, t.GetForUpdate)
}

func (t *tx) look(table, key string, by func(*txn.Table, []byte) ([]byte, error)) ([]byte, bool, error) {
	b, err := by(t.c.tables[table], []byte(key))
	switch {
	case errors.Is(err, txn.ErrNotFound):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	t.c.run.genuine(table, key, b)
	if put, mine := t.v.put[key]; mine {
		if got := stampOf(b); len(b) >= stampedSize && got != put {
			t.c.run.fail("values: %v put stamp %d under %q and reads %d", t.ID(), put, key, got)
		}
	} else if _, seen := t.v.seen[key]; !seen {
		t.v.seen[key] = stampOf(b)
	}
	return b, true, nil
}

func (t *tx) put(table, key string, size int, n uint64) error {
	stamp := t.c.run.stamp(key)
	err := t.Put(t.c.tables[table], []byte(key), encode(size, n, stamp))
	if err == nil {
		t.v.put[key] = stamp
	}
	return err
}

// insert is put of what must not be there; ok is false if it is.
func (t *tx) insert(table, key string, size int, n uint64) (ok bool, err error) {
	stamp := t.c.run.stamp(key)
	err = t.Insert(t.c.tables[table], []byte(key), encode(size, n, stamp))
	if errors.Is(err, txn.ErrExists) {
		return false, nil
	}
	if err == nil {
		t.v.put[key] = stamp
	}
	return err == nil, err
}

// remove deletes; ok is false if there was nothing.
func (t *tx) remove(table, key string) (ok bool, err error) {
	err = t.Delete(t.c.tables[table], []byte(key))
	if errors.Is(err, txn.ErrNotFound) {
		return false, nil
	}
	delete(t.v.put, key)
	return err == nil, err
}

// fetch reads keys of one table in one go.
func (t *tx) fetch(table string, by func(*txn.Table, []byte) txn.Ref, keys ...string) error {
	refs := make([]txn.Ref, len(keys))
	for i, k := range keys {
		refs[i] = by(t.c.tables[table], []byte(k))
	}
	return t.Fetch(refs...)
}

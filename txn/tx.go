package txn

import (
	"bytes"
	"context"
	"fmt"

	"fjord/coord"
	"fjord/layout"
	"fjord/lock"
)

// Tx is one attempt of a transaction. It belongs to the goroutine that its
// function runs in.
type Tx struct {
	db          *DB
	s           *coord.Session
	u           *session
	ctx         context.Context
	token       lock.Token
	label       string
	attempt     int
	last        *ConflictError // of the attempt before
	lost        ConflictError  // of this one
	prev        ConflictError  // what last points to
	begin       int64
	readOnly    bool
	manual      bool
	live        bool
	lostSession bool // could not be ended: the session is kept for Resolve

	doomed  error // sticks: the attempt cannot commit
	locking bool  // has posted a CAS
	turned  bool  // has turned to the next log slot
	unready bool  // has writes that need more locks
	logged  bool  // an entry may stand in log slots

	keys     []byte
	latest   int32 // access that was found last
	accs     []access
	index    []int32 // of accs by hash, when they are many
	searches []search
	work     []int32 // accesses that wait for something
	cells    []cell
	heads    []int32 // cells that are head headers
	seen     []int32 // of those, looked at behind their lock
	links    []link
	turns    []cursor
	slots    []int32 // cells of slots taken for inserts

	writes   []int32 // cells with new images, in the order they are logged
	reads    []int32 // cells to validate
	logs     []logged
	oldBytes int            // of all old images
	group    layout.Version // new version of the structural cells
}

// cursor is a table's overflow cursor in one shard, as this transaction leaves it.
type cursor struct {
	cell int32
	cur  layout.OverflowCursor
}

// logged is a node that a log entry goes to.
type logged struct {
	node  int
	entry coord.Buf
}

// start makes tx ready for an attempt.
func (tx *Tx) start(ctx context.Context, readOnly bool, attempt int) error {
	token, err := tx.s.NextToken()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	tx.s.Reset()
	tx.ctx, tx.token, tx.readOnly, tx.attempt = ctx, token, readOnly, attempt
	tx.label, tx.doomed, tx.group = "", nil, 0
	tx.locking, tx.turned, tx.unready, tx.logged, tx.live = false, false, false, false, true
	tx.keys, tx.accs, tx.work, tx.cells, tx.searches = tx.keys[:0], tx.accs[:0], tx.work[:0], tx.cells[:0], tx.searches[:0]
	if len(tx.index) > 0 {
		clear(tx.index)
		tx.index = tx.index[:0]
	}
	tx.heads, tx.seen, tx.links, tx.turns = tx.heads[:0], tx.seen[:0], tx.links[:0], tx.turns[:0]
	tx.writes, tx.reads, tx.logs = tx.writes[:0], tx.reads[:0], tx.logs[:0]
	if tx.db.opt.Recorder != nil {
		tx.begin = tx.db.rt.Now()
	}
	return nil
}

// alloc takes registered memory for this attempt.
func (tx *Tx) alloc(n int) (coord.Buf, error) {
	b, ok := tx.s.Alloc(n)
	if !ok {
		return b, tx.doom(fmt.Errorf("%w: the transaction needs more local memory than there is", ErrTooLarge))
	}
	return b, nil
}

// usable tells whether a key of a table may be asked for.
func (tx *Tx) usable(t *Table, key []byte) bool {
	return tx.live && tx.doomed == nil && t != nil && t.db == tx.db && uint(len(key)-1) < uint(t.schema.KeySize) && !t.dropped.Load()
}

// unusable says why not.
func (tx *Tx) unusable(t *Table, key []byte) error {
	switch {
	case !tx.live:
		return fmt.Errorf("%w: the transaction has ended", ErrClosed)
	case tx.doomed != nil:
		return tx.doomed
	case t == nil || t.db != tx.db:
		return fmt.Errorf("%w: the table is nil or of another DB", ErrNoTable)
	case t.dropped.Load():
		return fmt.Errorf("%w: %q was dropped", ErrNoTable, t.schema.Name)
	}
	return fmt.Errorf("%w: table %q: key has %d bytes, right is 1 to %d", ErrTooLarge, t.schema.Name, len(key), t.schema.KeySize)
}

// ID names this attempt, for Resolve and in histories.
func (tx *Tx) ID() ID { return tx.token }

// Attempt is 1 in the first run of the function, and one more in each rerun.
func (tx *Tx) Attempt() int { return tx.attempt }

// LastConflict is why the attempt before this one was undone; nil in the first.
func (tx *Tx) LastConflict() *ConflictError { return tx.last }

// SetLabel names the kind of transaction in histories.
func (tx *Tx) SetLabel(label string) { tx.label = label }

// Fetch reads keys, and locks those that say so, in one round trip when their
// addresses are known. A key that does not exist is no error here; Get tells.
func (tx *Tx) Fetch(refs ...Ref) error {
	for i := range refs { // all are looked at before any is queued
		r := &refs[i]
		if r.mode != modeRead && tx.readOnly {
			return ErrReadOnly
		}
		if !tx.usable(r.table, r.key) {
			return tx.unusable(r.table, r.key)
		}
	}
	first := len(tx.accs)
	for i := range refs { // the cache's lines are on their way while the keys are listed
		tx.enlist(refs[i].table, refs[i].key)
	}
	for i := range refs {
		r := &refs[i]
		j := int32(first + i)
		if len(tx.accs) != first+len(refs) { // some were there, or are there twice
			j = tx.find(r.table, r.key)
		}
		tx.require(j, r.mode)
		tx.accs[j].asked = true
	}
	return tx.resolve()
}

// Get returns the value of a key, or ErrNotFound. It sees what this transaction
// has put.
func (tx *Tx) Get(t *Table, key []byte) ([]byte, error) { return tx.get(t, key, modeRead) }

// GetForUpdate is Get, and locks the key, if it is there, until the transaction
// ends.
func (tx *Tx) GetForUpdate(t *Table, key []byte) ([]byte, error) {
	if tx.readOnly {
		return nil, ErrReadOnly
	}
	return tx.get(t, key, modeUpdate)
}

func (tx *Tx) get(t *Table, key []byte, m mode) ([]byte, error) {
	i, err := tx.access(t, key)
	if err != nil {
		return nil, err
	}
	a := &tx.accs[i]
	if a.op == opNone {
		if !a.known || a.mode < m {
			tx.require(i, m)
			if err := tx.resolve(); err != nil {
				return nil, err
			}
			a = &tx.accs[i]
		}
		a.asked = true
	}
	switch {
	case a.op == opDelete, a.op == opNone && !a.present:
		return nil, ErrNotFound
	case a.op == opPut:
		return tx.show(a, layoutValue(&a.put))
	}
	if c := &tx.cells[a.cell]; c.locked {
		return tx.show(a, layout.Value(c.img.B()))
	}
	return layout.Value(tx.cells[a.cell].img.B()), nil
}

// show gives the user a copy of a value: he may change it, and keeps it until the
// transaction ends, while the value goes into the undo log, or is put again.
func (tx *Tx) show(a *access, value []byte) ([]byte, error) {
	if a.view.Nil() || !bytes.Equal(a.view.B(), value) {
		b := tx.spare(a, a.view, a.t.slot, len(value))
		if b.Nil() {
			var err error
			if b, err = tx.alloc(len(value)); err != nil {
				return nil, err
			}
		}
		copy(b.B(), value)
		a.view = b
	}
	return a.view.B(), nil
}

// spare returns the part of the memory behind a locked cell's image that is meant
// for a new image or the user's copy, if used is nil: not in use yet.
func (tx *Tx) spare(a *access, used coord.Buf, from, n int) coord.Buf {
	if !used.Nil() || a.cell == noCell || tx.cells[a.cell].spare.Nil() {
		return coord.Buf{}
	}
	return tx.cells[a.cell].spare.Slice(from, from+n)
}

// image is a record's new image: key and value in place, not yet sealed.
type image struct {
	buf    coord.Buf
	keyLen int
	valLen int
}

func layoutValue(m *image) []byte {
	start := layout.ImageSize(m.keyLen, 0)
	return m.buf.B()[start : start+m.valLen : start+m.valLen]
}

// writable refuses writes that cannot be.
func (tx *Tx) writable(t *Table, value []byte) error {
	if tx.readOnly {
		return ErrReadOnly
	}
	if len(value) > t.schema.ValueSize {
		return fmt.Errorf("%w: table %q: value has %d bytes, right is %d at most", ErrTooLarge, t.schema.Name, len(value), t.schema.ValueSize)
	}
	return nil
}

// access returns the access of a key without fetching anything.
func (tx *Tx) access(t *Table, key []byte) (int32, error) {
	if !tx.usable(t, key) {
		return noCell, tx.unusable(t, key)
	}
	return tx.enlist(t, key), nil
}

// enlist returns the access of a key that was found usable.
func (tx *Tx) enlist(t *Table, key []byte) int32 {
	i := tx.find(t, key)
	if i == noCell {
		i = tx.add(t, key)
	}
	return i
}

// Put writes a value, whether the key exists or not. A key that was not fetched
// for update is locked when commit begins.
func (tx *Tx) Put(t *Table, key, value []byte) error {
	i, err := tx.access(t, key)
	if err != nil {
		return err
	}
	if err := tx.writable(t, value); err != nil {
		return err
	}
	return tx.put(i, key, value)
}

func (tx *Tx) put(i int32, key, value []byte) error {
	a := &tx.accs[i]
	if a.put.buf.Nil() {
		b := tx.spare(a, a.put.buf, 0, a.t.slot)
		if b.Nil() {
			var err error
			if b, err = tx.alloc(a.t.slot); err != nil {
				return err
			}
		}
		a.put.buf, a.put.keyLen = b, len(key)
		copy(b.B()[layout.HeaderSize:], key)
	}
	a.put.valLen = len(value)
	copy(layoutValue(&a.put), value)
	a.op = opPut
	tx.unready = tx.unready || !a.known || !a.present || !tx.cells[a.cell].locked
	return nil
}

// Insert writes a value under a key that must not exist; else ErrExists.
func (tx *Tx) Insert(t *Table, key, value []byte) error {
	i, err := tx.access(t, key)
	if err != nil {
		return err
	}
	if err := tx.writable(t, value); err != nil {
		return err
	}
	a := &tx.accs[i]
	exists := a.op == opPut && a.known
	if a.op == opNone || !a.known {
		tx.require(i, modeInsert)
		if err := tx.resolve(); err != nil {
			return err
		}
		a = &tx.accs[i]
		a.asked = true
		exists = a.present || a.op == opPut
	}
	if exists {
		return ErrExists
	}
	return tx.put(i, key, value)
}

// Delete removes a key; ErrNotFound if it does not exist.
func (tx *Tx) Delete(t *Table, key []byte) error {
	i, err := tx.access(t, key)
	if err != nil {
		return err
	}
	if tx.readOnly {
		return ErrReadOnly
	}
	a := &tx.accs[i]
	if a.op == opNone || !a.known {
		tx.require(i, modeUpdate)
		if err := tx.resolve(); err != nil {
			return err
		}
		a = &tx.accs[i]
		a.asked = true
	}
	if a.op == opDelete || a.op == opNone && !a.present {
		return ErrNotFound
	}
	a.op = opDelete
	tx.unready = true
	return nil
}

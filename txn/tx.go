package txn

import (
	"bytes"
	"context"
	"encoding/binary"
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
	repairs     int  // attempts that a failed QP has ended
	lostSession bool // could not be ended: the session is kept for Resolve

	doomed  error // sticks: the attempt cannot commit
	locking bool  // has posted a CAS
	turned  bool  // has turned to the next log slot
	unready bool  // has writes that need more locks
	logged  bool  // an entry may stand in log slots

	keys     []byte
	latest   int       // access that was found last
	accs     []*access // in the order of first use; they stay where they are
	cells    []*cell   // all that are known
	fresh    []*cell   // those of them that are no access's own; they stay where they are
	searches []*search // likewise
	index    []int32   // of accs by hash, when they are many
	work     []*access // those that wait for something
	heads    []*cell   // cells that are head headers
	links    []link
	turns    []cursor
	slots    []*cell // cells of slots taken for inserts

	writes   []*cell // cells with new images, sealed, in the order they are logged
	reads    []*cell // cells to validate
	logs     []logged
	oldBytes int            // of all old images
	group    layout.Version // new version of the structural cells
}

// cursor is a table's overflow cursor in one shard, as this transaction leaves it.
type cursor struct {
	cell *cell
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
	tx.keys, tx.accs, tx.work, tx.cells = tx.keys[:0], tx.accs[:0], tx.work[:0], tx.cells[:0]
	tx.fresh, tx.searches = tx.fresh[:0], tx.searches[:0]
	if len(tx.index) > 0 {
		clear(tx.index)
		tx.index = tx.index[:0]
	}
	tx.heads, tx.links, tx.turns = tx.heads[:0], tx.links[:0], tx.turns[:0]
	tx.writes, tx.reads, tx.logs = tx.writes[:0], tx.reads[:0], tx.logs[:0]
	if tx.db.opt.Recorder != nil {
		tx.begin = tx.db.rt.Now()
	}
	return nil
}

// alloc takes registered memory for this attempt.
func (tx *Tx) alloc(n int) (coord.Buf, error) {
	if b := tx.s.Quick(n); !b.Nil() {
		return b, nil
	}
	b, ok := tx.s.Alloc(n)
	if !ok {
		return b, tx.tooLarge()
	}
	return b, nil
}

func (tx *Tx) tooLarge() error {
	return tx.doom(fmt.Errorf("%w: the transaction needs more local memory than there is", ErrTooLarge))
}

// unusable says why a key cannot be asked for.
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
	first := len(tx.accs)
	for i := range refs { // all are looked at before any is queued; the cache's lines are on their way meanwhile
		r := &refs[i]
		if r.mode != modeRead && tx.readOnly {
			return ErrReadOnly
		}
		if tx.enlist(r.table, r.key, prefix(r.key)) == nil {
			return tx.unusable(r.table, r.key)
		}
	}
	fresh := tx.accs[first:]
	if len(fresh) != len(refs) { // some were there, or are there twice
		return tx.refetch(refs)
	}
	for i, a := range fresh {
		tx.seek(a, refs[i].mode)
		a.asked = true
	}
	for _, a := range fresh {
		tx.post(a)
	}
	tx.latest = first - 1
	return tx.await(fresh)
}

// refetch is Fetch of keys of which some were asked for before.
func (tx *Tx) refetch(refs []Ref) error {
	for i := range refs {
		a := tx.access(refs[i].table, refs[i].key)
		tx.require(a, refs[i].mode)
		a.asked = true
	}
	return tx.resolve()
}

// Get returns the value of a key, or ErrNotFound. It sees what this transaction
// has put.
func (tx *Tx) Get(t *Table, key []byte) ([]byte, error) {
	a := tx.access(t, key)
	if a == nil {
		return nil, tx.unusable(t, key)
	}
	if a.op != opNone || !a.present {
		return tx.get(a, modeRead)
	}
	return tx.valueOf(a)
}

// valueOf is what Get returns of a record that is there.
func (tx *Tx) valueOf(a *access) ([]byte, error) {
	a.asked = true
	value := layout.Value(a.cell.mem.B())
	if a.cell.locked {
		return tx.show(a, value)
	}
	return value, nil
}

// GetForUpdate is Get, and locks the key, if it is there, until the transaction
// ends.
func (tx *Tx) GetForUpdate(t *Table, key []byte) ([]byte, error) {
	if tx.readOnly {
		return nil, ErrReadOnly
	}
	a := tx.access(t, key)
	if a == nil {
		return nil, tx.unusable(t, key)
	}
	return tx.get(a, modeUpdate)
}

func (tx *Tx) get(a *access, m mode) ([]byte, error) {
	switch a.op {
	case opNone:
		if !a.known || a.mode < m {
			tx.require(a, m)
			if err := tx.resolve(); err != nil {
				return nil, err
			}
		}
		if a.present {
			return tx.valueOf(a)
		}
		a.asked = true
	case opPut:
		return tx.show(a, a.value(int(a.valLen)).B())
	case opDelete:
	}
	return nil, ErrNotFound
}

// show gives the user a copy of a value: he may change it, and keeps it until the
// transaction ends, while the value goes into the undo log, or is put again.
func (tx *Tx) show(a *access, value []byte) ([]byte, error) {
	if a.view.Nil() {
		if from, ok := a.spare(); ok {
			a.view = a.cell.mem.Slice(from+a.t.slot, from+a.t.slot+len(value))
			b := a.view.B()
			copyValue(b, value)
			return b, nil
		}
	} else if bytes.Equal(a.view.B(), value) {
		return a.view.B(), nil
	}
	b, err := tx.alloc(len(value))
	if err != nil {
		return nil, err
	}
	copy(b.B(), value)
	a.view = b
	return b.B(), nil
}

// copyValue is copy for values of one length, most of which are short.
func copyValue(to, from []byte) {
	if len(to) == 16 && len(from) == 16 {
		binary.LittleEndian.PutUint64(to, binary.LittleEndian.Uint64(from))
		binary.LittleEndian.PutUint64(to[8:], binary.LittleEndian.Uint64(from[8:]))
		return
	}
	copy(to, from)
}

// spare tells where the spare memory of the access's cell begins, and whether there
// is any.
func (a *access) spare() (from int, ok bool) {
	if a.cell == nil {
		return 0, false
	}
	return a.cell.spare()
}

// value is where a value of n bytes stands in the image that is to be put.
func (a *access) value(n int) coord.Buf {
	start := layout.ImageSize(int(a.keyLen), 0)
	return a.put.Slice(start, start+n)
}

// unwritable says why a value cannot be written.
func (tx *Tx) unwritable(t *Table, value []byte) error {
	if tx.readOnly {
		return ErrReadOnly
	}
	return fmt.Errorf("%w: table %q: value has %d bytes, right is %d at most", ErrTooLarge, t.schema.Name, len(value), t.schema.ValueSize)
}

// Put writes a value, whether the key exists or not. A key that was not fetched
// for update is locked when commit begins.
func (tx *Tx) Put(t *Table, key, value []byte) error {
	a := tx.access(t, key)
	if a == nil {
		return tx.unusable(t, key)
	}
	if tx.readOnly || len(value) > t.schema.ValueSize {
		return tx.unwritable(t, value)
	}
	return tx.put(a, value)
}

func (tx *Tx) put(a *access, value []byte) error {
	if a.put.Nil() {
		if from, ok := a.spare(); ok {
			a.put = a.cell.mem.Slice(from, from+a.t.slot)
		} else {
			var err error
			if a.put, err = tx.alloc(a.t.slot); err != nil {
				return err
			}
		}
		if a.put.SetWord(layout.HeaderSize, a.first); a.keyLen > 8 {
			copy(a.put.B()[layout.HeaderSize:], tx.keyOf(a))
		}
	}
	a.valLen = int32(len(value))
	copyValue(a.value(len(value)).B(), value)
	a.op = opPut
	if a.present && a.cell.locked {
		a.replace()
	} else {
		tx.unready = true
	}
	return nil
}

// replace has the cell of an access, which is locked, get what was put.
func (a *access) replace() {
	c := a.cell
	c.next, c.keyLen, c.valLen, c.write = a.put, a.keyLen, a.valLen, true
}

// Insert writes a value under a key that must not exist; else ErrExists.
func (tx *Tx) Insert(t *Table, key, value []byte) error {
	a := tx.access(t, key)
	if a == nil {
		return tx.unusable(t, key)
	}
	if tx.readOnly || len(value) > t.schema.ValueSize {
		return tx.unwritable(t, value)
	}
	switch {
	case a.op == opPut: // by this transaction, whatever was there before
		return ErrExists
	case a.op == opNone && !a.present:
		tx.require(a, modeInsert)
		if err := tx.resolve(); err != nil {
			return err
		}
	}
	if a.op == opNone {
		a.asked = true
		if a.present {
			return ErrExists
		}
	}
	return tx.put(a, value)
}

// Delete removes a key; ErrNotFound if it does not exist.
func (tx *Tx) Delete(t *Table, key []byte) error {
	a := tx.access(t, key)
	if a == nil {
		return tx.unusable(t, key)
	}
	if tx.readOnly {
		return ErrReadOnly
	}
	if a.op == opNone || !a.known {
		tx.require(a, modeUpdate)
		if err := tx.resolve(); err != nil {
			return err
		}
		a.asked = true
	}
	if a.op == opDelete || a.op == opNone && !a.present {
		return ErrNotFound
	}
	a.op = opDelete
	tx.unready = true
	return nil
}

package txn

import (
	"errors"
	"fmt"
)

// Reasons within the engine, before table and key are added.
var (
	errLocked  = errors.New("locked")
	errVersion = errors.New("version")
	errPending = errors.New("pending")
	errInsert  = errors.New("insert")
)

// conflict turns an internal reason into the transaction's ConflictError; other
// errors pass.
func (tx *Tx) conflict(err error, t *Table, key []byte) error {
	reason := ReasonLocked
	switch err {
	case errLocked:
	case errVersion:
		reason = ReasonVersion
	case errPending:
		reason = ReasonPending
	case errInsert:
		reason = ReasonInsert
	default:
		return err
	}
	name := ""
	if t != nil {
		name = t.schema.Name
	}
	tx.lost = ConflictError{Reason: reason, Table: name, Key: append(tx.lost.Key[:0], key...)}
	return &tx.lost
}

// cellConflict is conflict for a cell: the access that it belongs to is looked
// for, so that the error can name the key.
func (tx *Tx) cellConflict(err error, c *cell) error {
	for _, a := range tx.accs {
		if a.cell == c || a.head == c {
			return tx.conflict(err, a.t, tx.keyOf(a))
		}
	}
	for _, a := range tx.accs { // a cursor or an overflow bucket: a key of its table
		if x := &a.t.meta.Extents[c.addr.Shard()]; c.addr.Offset()-x.Off < x.Len {
			return tx.conflict(err, a.t, tx.keyOf(a))
		}
	}
	if len(tx.accs) > 0 { // an allocator: the table that wants space
		return tx.conflict(err, tx.accs[0].t, tx.keyOf(tx.accs[0]))
	}
	return tx.conflict(err, nil, nil)
}

// doom makes an error stick: the transaction cannot commit any more.
func (tx *Tx) doom(err error) error {
	if tx.doomed == nil {
		tx.doomed = err
	}
	return tx.doomed
}

// brokenError is a failed QP in a transaction that has not begun to commit.
// Update runs it again once the QP is repaired.
type brokenError struct{ cause error }

func (e *brokenError) Error() string        { return fmt.Sprintf("%v: %v", ErrUnavailable, e.cause) }
func (e *brokenError) Is(target error) bool { return target == ErrUnavailable }
func (e *brokenError) Unwrap() error        { return e.cause }

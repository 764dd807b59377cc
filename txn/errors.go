package txn

import (
	"errors"
	"fmt"
)

// Sentinels for errors.Is. Beside each: whether to try again.
var (
	// ErrConflict: the transaction lost against another and did nothing. Update
	// and View retry on their own; after that, or with Begin, retry. The error is
	// a *ConflictError.
	ErrConflict = errors.New("txn: conflict")
	// ErrNotFound: no record has this key. Don't retry.
	ErrNotFound = errors.New("txn: not found")
	// ErrExists: Insert found a record with this key. Don't retry.
	ErrExists = errors.New("txn: exists already")
	// ErrCommitUnknown: a memory node was lost in mid-commit; the transaction is
	// committed or not, and DB.Resolve will say which. Never retry blindly. The
	// error is an *UnknownError.
	ErrCommitUnknown = errors.New("txn: outcome of the commit is unknown")
	// ErrClosed: the DB, or the transaction, has ended. Don't retry.
	ErrClosed = errors.New("txn: closed")
	// ErrTooLarge: a key, a value or a transaction exceeds its limit. Don't retry.
	ErrTooLarge = errors.New("txn: too large")
	// ErrFull: no room for another record, table or session. Retry after
	// something was deleted.
	ErrFull = errors.New("txn: full")
	// ErrBusy: a transaction runs that must have ended first, or its outcome is
	// unknown. Retry when it has ended, or was resolved.
	ErrBusy = errors.New("txn: busy")
	// ErrReadOnly: a write inside View. Don't retry.
	ErrReadOnly = errors.New("txn: read-only transaction")
	// ErrNoTable: no table has this name, or it was dropped. Don't retry.
	ErrNoTable = errors.New("txn: no such table")
	// ErrSchema: a schema is wrong, or differs from that of the table that exists.
	ErrSchema = errors.New("txn: schema")
	// ErrNested: Update or View was called inside a running one by the same
	// goroutine, where it would wait for the outer one's locks. Use the outer Tx.
	ErrNested = errors.New("txn: nested transaction")
	// ErrCorrupt: bytes in a memory node are not what any writer put there. Don't
	// retry; run DB.Check.
	ErrCorrupt = errors.New("txn: corrupt cell")
	// ErrUnavailable: a memory node does not answer. Nothing was committed; retry
	// when it is back.
	ErrUnavailable = errors.New("txn: memory node unavailable")
	// ErrOptions: an option is out of range or contradicts another.
	ErrOptions = errors.New("txn: options")
)

// Reason is why a transaction conflicted.
type Reason uint8

// The reasons.
const (
	ReasonLocked  Reason = iota // a cell was locked by another transaction
	ReasonVersion               // a cell read before has changed
	ReasonPending               // a cell held, for too long, an image not yet known to be committed
	ReasonInsert                // another insert or delete changed the bucket
	numReasons
)

// NumReasons bounds arrays that are indexed by Reason.
const NumReasons = int(numReasons)

// String returns the reason in one word.
func (r Reason) String() string {
	switch r {
	case ReasonLocked:
		return "locked"
	case ReasonVersion:
		return "version"
	case ReasonPending:
		return "pending"
	case ReasonInsert:
		return "insert"
	case numReasons:
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}

// ConflictError tells which key a transaction lost against another, and how.
// What a Tx method returns is valid until its function returns; what Update,
// View and Commit return is the caller's.
type ConflictError struct {
	Reason Reason
	Table  string
	Key    []byte
}

// Error names reason, table and key.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("txn: conflict: %v: table %q key %x", e.Reason, e.Table, e.Key)
}

// Is reports whether target is ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

func (e *ConflictError) clone() *ConflictError {
	c := *e
	c.Key = append([]byte(nil), e.Key...)
	return &c
}

// UnknownError is an ErrCommitUnknown with the transaction to ask Resolve about.
type UnknownError struct {
	ID    ID
	Cause error
}

// Error names the transaction and the cause.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("txn: outcome of the commit of %v is unknown (DB.Resolve tells): %v", e.ID, e.Cause)
}

// Is reports whether target is ErrCommitUnknown.
func (e *UnknownError) Is(target error) bool { return target == ErrCommitUnknown }

// Unwrap returns what went wrong.
func (e *UnknownError) Unwrap() error { return e.Cause }

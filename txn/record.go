package txn

import (
	"fmt"

	"fjord/lock"
)

// ID names one attempt of a transaction; no two attempts of a cluster share one.
type ID = lock.Token

// Outcome is how an attempt ended.
type Outcome uint8

// The outcomes.
const (
	Aborted   Outcome = iota // nothing happened
	Committed                // all of it happened
	Unknown                  // one of the two, and Resolve tells which
)

// String returns the word that stands in a history: abort, commit or unknown.
func (o Outcome) String() string {
	switch o {
	case Aborted:
		return "abort"
	case Committed:
		return "commit"
	case Unknown:
		return "unknown"
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// Recorder is told of every attempt when it has ended, by the goroutine that ran
// it: the raw material of a history. Recorders are called concurrently.
type Recorder interface {
	// Record may use a and what it points to until it returns.
	Record(a *Attempt)
}

// Attempt is what one run of a transaction read and wrote.
type Attempt struct {
	ID      ID
	Session uint32 // runs one attempt at a time
	Label   string // Tx.SetLabel
	Begin   int64  // Runtime.Now before the first verb
	End     int64  // and after the answer
	Outcome Outcome
	Reason  string // why it was aborted or is unknown; "" when committed
	Reads   []Read
	Writes  []Write
}

// Read is a key that an attempt has read.
type Read struct {
	Table   string
	Key     []byte
	Version uint64 // 0: there was no record
}

// Write is a key that an attempt has, or would have, written.
type Write struct {
	Table   string
	Key     []byte
	Prev    uint64 // version replaced; 0: there was no record
	Version uint64 // version installed; 0 where an aborted attempt had not chosen one
	Delete  bool
}

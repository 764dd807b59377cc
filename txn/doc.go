// Package txn runs serializable transactions over memory nodes that only hold
// bytes. It is the API that programs embed, and the engine below it: optimistic
// concurrency control with one-sided verbs, replication and undo logging.
//
//	db, err := txn.Open(ctx, txn.Options{})
//	accounts, err := db.CreateTable(ctx, txn.Schema{Name: "accounts", KeySize: 8, ValueSize: 16, Capacity: 1 << 20})
//	err = db.Update(ctx, func(tx *txn.Tx) error {
//		if err := tx.Fetch(txn.ForUpdate(accounts, a), txn.ForUpdate(accounts, b)); err != nil {
//			return err
//		}
//		v, err := tx.Get(accounts, a)
//		...
//		return tx.Put(accounts, a, v)
//	})
//
// # Rules
//
// The function given to Update or View is run again after a conflict, so it must
// be idempotent, and must return the errors that Tx methods return. A DB is for
// any number of goroutines, a Tx for the one that its function runs in, and only
// until that returns.
//
// # Memory
//
// Keys and values that are passed in are copied before a method returns. Slices
// that Get returns are valid until the function returns (with Begin: until Commit
// or Abort), and may be changed in place: nothing is written without a Put.
//
// # What is guaranteed
//
// Committed transactions are strictly serializable: there is one order of them
// that explains everything they read and wrote, and one that ended before another
// began stands before it. That holds for read-only ones as well, and for what a
// function saw before it returned an error of its own: such an error is passed on
// only if what was read was consistent. A nil error from Update means that all
// copies hold the transaction.
//
// # When a program dies
//
// Coordinators of one cluster show heartbeats (Options.SuspectAfter). What one that has
// died was doing is committed or undone as a whole by another, and its locks are released.
// One that was only stopped finds itself fenced when it goes on: transactions that had not
// begun to commit run again, those in the middle of it return ErrCommitUnknown, and
// DB.Resolve says, in any DB, what became of them. The DB itself goes on under another
// coordinator number.
//
// The protocol, and why it is right, is told in docs/protocol.md.
package txn

package bench

import (
	"context"

	"fjord/txn"
)

// Benchmark is what one benchmark adds to the harness. Its methods are called by
// one goroutine, in the order in which they stand here.
type Benchmark interface {
	// Name is the benchmark's name in reports: lower case, one word.
	Name() string
	// Flags declares the benchmark's own flags, and what must hold among them.
	Flags(f *Flags)
	// Types are the names of the transaction types, in the order of the report.
	Types() []string
	// Rollbacks are the errors by which its transactions give up on their own.
	Rollbacks() []*Rollback
	// Options sizes the database: it adds the tables to NodeMemory, which has room
	// for all else already, and sets AddressCache. It may be called twice.
	Options(o *txn.Options)
	// Load creates and fills the tables.
	Load(l *Loader) error
	// NewClient returns what w is to run. It is called once for every worker,
	// after Load.
	NewClient(w *Worker) Client
	// Check adds to c what must hold now that no transaction runs any more. An
	// error says that the checks themselves failed.
	Check(ctx context.Context, db *txn.DB, c *Checks) error
}

// Client draws and runs the transactions of one worker. Its methods must not
// allocate: they are on the path that is measured.
type Client interface {
	// Next draws the next transaction and returns its type, an index of Types.
	Next() int
	// Run runs the transaction drawn last, by Worker.Update or Worker.View, and
	// returns their error.
	Run() error
}

// Rollback is an error by which a transaction gives up for a reason of its own,
// which is no fault: the customer has not enough money. It is compared by
// address.
type Rollback struct{ reason string }

// NewRollback returns a rollback that is counted under reason, a word in
// lower_case.
func NewRollback(reason string) *Rollback { return &Rollback{reason} }

// Error names the reason.
func (r *Rollback) Error() string { return "rollback: " + r.reason }

package txn

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"fjord/coord"
	"fjord/verbs"
	"fjord/verbs/mem"
)

// DB is a coordinator of a cluster: what a program opens to run transactions.
// It is safe for concurrent use.
type DB struct {
	opt      Options
	co       *coord.Coordinator
	dev      verbs.Device
	rt       verbs.Runtime
	cluster  *coord.Cluster // non-nil if it ends with the DB
	catalog  *Table
	outcomes *Table // of transactions that recovery has decided about
	opened   atomic.Bool
	metrics  *collector
	closed   atomic.Bool

	mu     sync.Mutex
	tables map[uint32]*Table // by id
	lost   map[ID]unfinished // transactions that Resolve has to finish
	known  map[ID]Outcome    // what Resolve found out
	order  []ID              // of known, oldest first
	ousted map[ID]bool       // transactions of unknown outcome that recovery decides about
}

// unfinished is a transaction that could not be ended.
type unfinished struct {
	tx   *Tx
	goal Outcome // Unknown: to be committed; Aborted: to be undone
}

// Open starts, or joins, a cluster.
func Open(ctx context.Context, o Options) (_ *DB, err error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	db := &DB{opt: o, tables: make(map[uint32]*Table), lost: make(map[ID]unfinished), known: make(map[ID]Outcome),
		ousted: make(map[ID]bool)}
	defer func() {
		if err != nil {
			_ = db.teardown(ctx) // the first error is the one to tell
		}
	}()
	cluster := o.Cluster
	if cluster == nil {
		fabric := mem.NewFabric(nil)
		open := func(name string) (verbs.Device, error) { return fabric.NewDevice(name), nil }
		if cluster, err = coord.NewCluster(o.clusterConfig(), open); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrOptions, err)
		}
		db.cluster = cluster
		for _, w := range cluster.Warnings() {
			o.Logger.Warn("huge pages", zap.Error(w))
		}
	}
	if db.dev, err = cluster.NewDevice("compute"); err != nil {
		return nil, fmt.Errorf("txn: open device: %w", err)
	}
	db.rt = db.dev.Runtime()
	db.co, err = coord.Join(ctx, cluster, db.dev, coord.Config{Sessions: o.Sessions, Cache: o.AddressCache, HugePages: o.HugePages,
		NewUser: func(s *coord.Session) any { return newSession(db, s) }, OnDrain: db.onDrain,
		SuspectAfter: int64(o.suspectAfter(db.rt)), OnRecovered: db.onRecovered, Report: db.reportRecovery, OnRejoin: db.reportRejoin})
	if err != nil {
		return nil, fmt.Errorf("join the cluster: %w", sessionError(err))
	}
	if w := db.co.Fallback(); w != nil {
		o.Logger.Warn("huge pages", zap.Error(w))
	}
	l := db.co.Layout()
	db.catalog = newTable(db, "catalog", coord.CatalogMeta(len(l.Shards)))
	db.outcomes = newTable(db, "outcomes", coord.OutcomesMeta(len(l.Shards), int(l.Header.Sessions)))
	if o.Registerer != nil {
		db.metrics = newCollector(db)
		if err = o.Registerer.Register(db.metrics); err != nil {
			db.metrics = nil
			return nil, fmt.Errorf("txn: register metrics: %w", err)
		}
	}
	db.opened.Store(true)
	o.Logger.Info("opened", zap.Uint16("coordinator", db.co.ID()), zap.Int("memory_nodes", len(db.co.Layout().Nodes)),
		zap.Uint16("replicas", db.co.Layout().Header.Replicas))
	return db, nil
}

// closePatience is how long Close waits for transactions that are running.
const closePatience = 5 * time.Second

// Close waits for running transactions and ends the DB; an embedded cluster and
// what it holds end with it. Later calls do nothing. A transaction whose outcome is
// still unknown is left to another coordinator, which recovers this one as if it had
// died: by itself where heartbeats are shown, else when Recover is called.
func (db *DB) Close() error {
	if db.closed.Swap(true) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	return db.teardown(ctx)
}

func (db *DB) teardown(ctx context.Context) error {
	var first error
	note := func(err error) {
		if err != nil && first == nil {
			first = fmt.Errorf("txn: close: %w", err)
		}
	}
	if db.metrics != nil {
		db.opt.Registerer.Unregister(db.metrics)
	}
	if db.co != nil {
		note(db.co.Close(ctx))
	}
	if db.dev != nil {
		note(db.dev.Close())
	}
	if db.cluster != nil {
		note(db.cluster.Close())
	}
	return first
}

// Update runs fn in a transaction, again after every conflict, and returns nil
// when all it did is committed on every replica. An error of fn's own undoes the
// transaction and is returned as it is. ctx is looked at between attempts, while
// waiting, and last before commit begins: what is committed is reported as such.
func (db *DB) Update(ctx context.Context, fn func(*Tx) error) error { return db.run(ctx, fn, false) }

// View is Update for functions that only read.
func (db *DB) View(ctx context.Context, fn func(*Tx) error) error { return db.run(ctx, fn, true) }

// Begin starts a transaction that the caller ends with Commit or Abort. It is
// not run again after a conflict. It keeps one of the DB's sessions busy.
func (db *DB) Begin(ctx context.Context) (*Tx, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, err := db.co.AcquireManual(ctx)
	if err != nil {
		return nil, sessionError(err)
	}
	u := s.User.(*session)
	u.tx.manual, u.tx.last = true, nil
	tx := u.tx
	if err := tx.start(ctx, false, 1); err != nil {
		u.release(tx)
		return nil, err
	}
	return tx, nil
}

// Commit ends a transaction begun with Begin. After an error other than
// ErrCommitUnknown nothing has happened, and the transaction has ended as well.
func (tx *Tx) Commit(ctx context.Context) error {
	if !tx.manual {
		return fmt.Errorf("%w: Commit is for transactions of Begin; return from the function instead", ErrOptions)
	}
	if !tx.live {
		return fmt.Errorf("%w: the transaction has ended", ErrClosed)
	}
	tx.ctx = ctx
	err := ctx.Err()
	if err == nil {
		err = tx.commit()
	}
	return tx.finish(err)
}

// Abort ends a transaction begun with Begin without writing anything. After
// Commit or Abort it does nothing.
func (tx *Tx) Abort() error {
	if !tx.manual {
		return fmt.Errorf("%w: Abort is for transactions of Begin; return an error from the function instead", ErrOptions)
	}
	if tx.live {
		if err := tx.finish(errAbort); err != errAbort {
			return err
		}
	}
	return nil
}

var errAbort = fmt.Errorf("txn: aborted")

// finish ends a manual transaction with the error that it has met so far.
func (tx *Tx) finish(err error) error {
	u := tx.u
	defer u.release(tx)
	return lasting(u.end(tx, err), 1)
}

// keep remembers a transaction for Resolve.
func (db *DB) keep(tx *Tx, goal Outcome) {
	db.mu.Lock()
	db.lost[tx.token] = unfinished{tx, goal}
	db.mu.Unlock()
	db.warn("transaction could not be ended; its locks stay until Resolve", fmt.Errorf("transaction %v", tx.token))
}

// maxKnown bounds how many resolved outcomes are remembered.
const maxKnown = 4096

// Resolve says what became of a transaction whose commit returned
// ErrCommitUnknown, or that could not be undone. It finishes the transaction if
// the memory nodes are reachable again; else it returns Unknown and an error,
// and may be called again. If the transaction's coordinator was fenced, or has died,
// it says what recovery has decided, whichever DB is asked: that is kept until the
// outcomes of later recoveries need the room, which two always have. ErrNotFound: the
// DB knows no such transaction.
func (db *DB) Resolve(ctx context.Context, id ID) (Outcome, error) {
	var f unfinished
	for {
		db.mu.Lock()
		o, known := db.known[id]
		var lost bool
		f, lost = db.lost[id]
		db.mu.Unlock()
		switch {
		case known:
			return o, nil
		case db.closed.Load():
			return Unknown, ErrClosed
		case !lost:
			return db.recovered(ctx, id)
		}
		if f.tx.s.Unpark() {
			break
		}
		// Another caller is at work on it, or the DB is being closed.
		if err := ctx.Err(); err != nil {
			return Unknown, err
		}
		db.rt.Sleep(retryMax)
	}
	tx := f.tx
	tx.ctx = ctx
	var err error
	outcome := Aborted
	if f.goal == Unknown {
		outcome = Committed
		tx.doomed = nil
		err = tx.insist(nil)
	} else {
		err = tx.abort()
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if err != nil && tx.s.Fenced() {
		delete(db.lost, id)
		db.freeSession(tx)
		db.mu.Unlock()
		db.oust(id)
		defer db.mu.Lock()
		return db.recovered(ctx, id)
	}
	if err != nil {
		tx.s.Park()
		return Unknown, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	delete(db.lost, id)
	db.known[id] = outcome
	db.order = append(db.order, id)
	if len(db.order) > maxKnown {
		delete(db.known, db.order[0])
		db.order = db.order[1:]
	}
	db.freeSession(tx)
	return outcome, nil
}

// freeSession gives the session of a transaction back that was kept for Resolve.
func (db *DB) freeSession(tx *Tx) {
	tx.u.tx = &Tx{db: db, s: tx.s, u: tx.u} // whoever ran the old one does not own the session any more
	tx.s.Release()
}

// Stats returns totals.
func (db *DB) Stats() Stats {
	var sum Stats
	add := func(u *session) {
		u.mu.Lock()
		st := u.mirror
		u.mu.Unlock()
		sum.add(&st)
	}
	db.co.Sessions(
		func(s *coord.Session) {
			u := s.User.(*session)
			u.publish() // so that no later call sees less
			add(u)
		},
		func(s *coord.Session) {
			u := s.User.(*session)
			u.wanted.Store(true)
			add(u)
		})
	return sum
}

// Runtime is the clock and the random numbers of the world that the DB lives in.
func (db *DB) Runtime() verbs.Runtime { return db.rt }

func (db *DB) warn(msg string, err error) { db.opt.Logger.Warn(msg, zap.Error(err)) }

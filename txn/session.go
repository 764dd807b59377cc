package txn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"fjord/coord"
	"fjord/layout"
	"fjord/lock"
)

// session is what the engine keeps with a coord.Session: the transaction that
// runs on it, with its buffers, and counters.
type session struct {
	db      *DB
	s       *coord.Session
	tx      *Tx
	builder layout.LogBuilder
	stats   Stats // of whoever owns the session
	attempt Attempt
	ended   uint64

	// For readers who do not own the session: a copy that is made now and then.
	wanted atomic.Bool
	mu     sync.Mutex
	mirror Stats
}

func newSession(db *DB, s *coord.Session) *session {
	u := &session{db: db, s: s}
	u.tx = &Tx{db: db, s: s, u: u}
	return u
}

// publishEvery is how many attempts pass between two copies of the counters.
const publishEvery = 64

// publish lets others see the counters.
func (u *session) publish() {
	u.mu.Lock()
	u.mirror = u.counted()
	u.mu.Unlock()
}

func (u *session) counted() Stats {
	st := u.stats
	st.Verbs = u.s.Stats
	return st
}

// end finishes an attempt: err is what its function or commit returned. The
// result is what the caller of the API is to see; it is nil only if committed.
func (u *session) end(tx *Tx, err error) error {
	if err == nil && tx.s.Broken() == nil {
		tx.live = false
		u.told(tx, Committed, nil)
		return nil
	}
	return u.endBadly(tx, err)
}

// endBadly is end for all that did not go the usual way.
func (u *session) endBadly(tx *Tx, err error) error {
	outcome, undone := Committed, true
	if err != nil {
		outcome = Aborted
		if isUnknown(tx.doomed) && err == tx.doomed {
			outcome = Unknown
		} else if e := tx.abort(); e != nil {
			undone = false
			err = fmt.Errorf("%w: transaction %v could not be undone (DB.Resolve does it when the node is back): %w", ErrUnavailable, tx.token, e)
		}
	} else if e := tx.s.Repair(context.WithoutCancel(tx.ctx)); e != nil {
		// The unlock was lost. Nobody may use this session for long, so it was to be made good now.
		u.db.warn("memory node not reachable; its locks are freed when it is", e)
	}
	err = tx.ousted(err)
	tx.live = false
	defer func() { // the last thing, and also if the recorder panics: Resolve may run at once
		switch {
		case outcome == Unknown:
			u.lose(tx, Unknown)
		case !undone:
			u.lose(tx, Aborted)
		}
	}()
	u.told(tx, outcome, err)
	return err
}

// told counts an attempt and tells the recorder.
func (u *session) told(tx *Tx, outcome Outcome, err error) {
	u.count(tx, outcome, err)
	if u.db.opt.Recorder != nil {
		u.record(tx, outcome, err)
	}
	u.ended++
	if u.ended%publishEvery == 0 || u.wanted.Load() {
		u.wanted.Store(false)
		u.publish()
	}
}

func (u *session) count(tx *Tx, outcome Outcome, err error) {
	switch outcome {
	case Committed:
		u.stats.Committed++
		if len(tx.writes) == 0 {
			u.stats.ReadOnly++
		}
	case Unknown:
		u.stats.Unknown++
	case Aborted:
		if err == error(&tx.lost) {
			u.stats.Aborted[tx.lost.Reason]++
		} else {
			u.stats.Cancelled++
		}
	}
}

// record tells the recorder about the attempt.
func (u *session) record(tx *Tx, outcome Outcome, err error) {
	a := &u.attempt
	*a = Attempt{ID: tx.token, Session: uint32(tx.token.Coordinator())<<16 | uint32(u.s.Number()), Label: tx.label,
		Begin: tx.begin, End: u.db.rt.Now(), Outcome: outcome, Reads: a.Reads[:0], Writes: a.Writes[:0]}
	if err != nil {
		a.Reason = reasonOf(err)
	}
	for _, x := range tx.accs {
		name, key, prev := x.t.schema.Name, tx.keyOf(x), uint64(0)
		if x.known && x.present {
			prev = x.cell.ver.Counter()
		}
		if x.asked && x.known {
			a.Reads = append(a.Reads, Read{name, key, prev})
		}
		if x.op == opPut || x.op == opDelete && (!x.known || x.present) {
			w := Write{Table: name, Key: key, Prev: prev, Delete: x.op == opDelete}
			if x.cell != nil {
				w.Version = x.cell.newVer.Counter()
			}
			a.Writes = append(a.Writes, w)
		}
	}
	u.db.opt.Recorder.Record(a)
}

// reasonOf puts an error into a word for histories.
func reasonOf(err error) string {
	var c *ConflictError
	switch {
	case errors.As(err, &c):
		return c.Reason.String()
	case errors.Is(err, ErrCommitUnknown):
		return "unknown"
	case errors.Is(err, ErrUnavailable):
		return "unavailable"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "cancelled"
	}
	return "rollback"
}

// release gives the session back, unless its transaction still needs it.
func (u *session) release(tx *Tx) {
	if tx.lostSession {
		return
	}
	if tx.manual {
		u.tx = &Tx{db: u.db, s: u.s, u: u} // the user may keep the old one
	}
	u.s.Release()
}

// lose keeps the session of a transaction that could not be ended, for Resolve.
func (u *session) lose(tx *Tx, o Outcome) {
	if u.s.Fenced() {
		u.db.oust(tx.token) // recovery decides, and Resolve asks for that
		return
	}
	tx.lostSession = true
	u.publish()
	u.s.Park()
	u.db.keep(tx, o)
}

// run executes fn until it commits, fails, or has conflicted too often.
func (db *DB) run(ctx context.Context, fn func(*Tx) error, readOnly bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s, err := db.co.Acquire(ctx)
	if err != nil {
		return sessionError(err)
	}
	u := s.User.(*session)
	tx := u.tx
	tx.last, tx.repairs = nil, 0
	rejoined := 0 // times that this coordinator was fenced meanwhile
	for attempt := 1; ; attempt++ {
		err := u.once(ctx, fn, readOnly, attempt)
		if err == nil {
			u.release(tx)
			return nil
		}
		again, wait := db.retry(tx, err, attempt)
		if !again && rejoined < repairTries && errors.Is(err, coord.ErrFenced) && !isUnknown(err) {
			// Nothing of it is committed, and it can run again under another id.
			rejoined++
			u.release(tx)
			if s, err = db.co.Acquire(ctx); err != nil {
				return sessionError(err)
			}
			u = s.User.(*session)
			tx = u.tx
			tx.last, tx.repairs = nil, 0
			continue
		}
		if !again {
			err = lasting(err, attempt)
			u.release(tx)
			return err
		}
		db.rt.Sleep(wait)
		if cerr := ctx.Err(); cerr != nil {
			err = fmt.Errorf("%w; last attempt: %w", cerr, lasting(err, attempt))
			u.release(tx)
			return err
		}
	}
}

// once is one attempt. Whatever way fn is left, its locks are freed: a panic
// goes on with its own stack.
func (u *session) once(ctx context.Context, fn func(*Tx) error, readOnly bool, attempt int) (err error) {
	tx := u.tx
	if err := tx.start(ctx, readOnly, attempt); err != nil {
		return err
	}
	ended := false
	defer func() {
		if ended {
			return
		}
		// A panic or runtime.Goexit, of fn, the lock.Strategy or the Recorder.
		defer u.release(tx)
		if tx.live {
			_ = u.end(tx, errPanic)
		}
	}()
	err = fn(tx)
	if err == nil {
		err = tx.commit()
	} else {
		err = tx.refuse(err)
	}
	err = u.end(tx, err)
	ended = true
	return err
}

var errPanic = errors.New("txn: the function panicked")

// refuse decides what to do about an error of the user's function. One of his
// own is passed on only if what he saw was consistent: else it may rest on
// something that never was.
func (tx *Tx) refuse(err error) error {
	if tx.doomed != nil {
		return tx.doomed
	}
	if e := tx.confirmReads(); e != nil {
		return e
	}
	return err
}

// confirmReads validates what was read so far, on which an error may rest that ends
// the attempt.
func (tx *Tx) confirmReads() error {
	for _, c := range tx.cells {
		if c.read && !c.locked {
			tx.reads = append(tx.reads, c)
		}
	}
	return tx.confirm()
}

// Back-off between attempts: from about one short transaction to one that is
// long enough for any holder to be scheduled again.
const (
	retryMin = 500
	retryMax = 1_000_000
)

// retry decides whether an attempt that failed is made again, and when.
func (db *DB) retry(tx *Tx, err error, attempt int) (bool, int64) {
	if attempt > db.opt.MaxRetries || tx.lostSession {
		return false, 0
	}
	if err != tx.doomed {
		return false, 0 // the function's own
	}
	var b *brokenError
	switch {
	case err == error(&tx.lost):
		tx.last = &tx.prev
		tx.prev = ConflictError{Reason: tx.lost.Reason, Table: tx.lost.Table, Key: append(tx.prev.Key[:0], tx.lost.Key...)}
	case errors.As(err, &b):
		if tx.repairs++; tx.s.Failed() != nil || tx.repairs > repairTries {
			return false, 0
		}
	default:
		return false, 0
	}
	return true, lock.Jitter(retryMin, retryMax, attempt, db.rt.Rand())
}

// lasting makes an error the caller's to keep.
func lasting(err error, attempts int) error {
	if c, ok := err.(*ConflictError); ok {
		if attempts > 1 {
			return fmt.Errorf("after %d attempts: %w", attempts, c.clone())
		}
		return c.clone()
	}
	return err
}

// sessionError gives an error of coord the sentinel that users look for.
func sessionError(err error) error {
	switch {
	case errors.Is(err, coord.ErrNested):
		return fmt.Errorf("%w: Update or View inside Update or View; use the outer Tx", ErrNested)
	case errors.Is(err, coord.ErrEnded):
		return fmt.Errorf("%w: %w", ErrClosed, err)
	case errors.Is(err, coord.ErrUnresolved):
		return fmt.Errorf("%w: %w", ErrBusy, err)
	case errors.Is(err, coord.ErrNoSession), errors.Is(err, coord.ErrNoSeat), errors.Is(err, coord.ErrNoMemory):
		return fmt.Errorf("%w: %w", ErrFull, err)
	case errors.Is(err, coord.ErrNoNode), errors.Is(err, coord.ErrFenced):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case errors.Is(err, coord.ErrConfig):
		return fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return err
}

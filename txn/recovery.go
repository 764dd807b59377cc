package txn

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"fjord/coord"
	"fjord/layout"
	"fjord/lock"
)

// Coordinator is the number of the DB's coordinator, the first part of the ids of its
// transactions. It is another after the DB was taken for dead and has joined again.
func (db *DB) Coordinator() uint16 { return db.co.ID() }

// Recover settles what a dead coordinator has left, as happens by itself where
// heartbeats are shown (Options.SuspectAfter): its transactions are committed or undone,
// its locks released, its seat is free again. One that shows heartbeats is watched for
// that long before, and refused with coord.ErrAlive if it lives; one that shows none is
// fenced, and joins again if it lives. After an error it may be called again.
func (db *DB) Recover(ctx context.Context, coordinator uint16) (*coord.Recovery, error) {
	if db.closed.Load() {
		return nil, ErrClosed
	}
	r, err := db.co.Recover(ctx, coordinator)
	if err != nil {
		return nil, fmt.Errorf("txn: recover coordinator %d: %w", coordinator, sessionError(err))
	}
	return r, nil
}

// onRecovered does what is left when the transactions of a dead coordinator are
// settled: it keeps their outcomes, and releases every lock that was never logged.
func (db *DB) onRecovered(ctx context.Context, r *coord.Recovery) error {
	for !db.opened.Load() { // the heart beats while Open is at work
		if err := ctx.Err(); err != nil {
			return err
		}
		db.rt.Sleep(retryMax)
	}
	if err := db.keepOutcomes(ctx, r.Outcomes); err != nil {
		return err
	}
	return db.sweep(ctx, r.ID)
}

func (db *DB) reportRecovery(id uint16, r *coord.Recovery, err error) {
	switch {
	case errors.Is(err, coord.ErrAlive), errors.Is(err, coord.ErrClaimed), errors.Is(err, coord.ErrNoMember):
		return // it has come back, or another is at it, or was faster
	case err != nil:
		db.opt.Logger.Warn("recovery of a coordinator failed; it is tried again", zap.Uint16("coordinator", id), zap.Error(err))
	default:
		db.opt.Logger.Warn("recovered a dead coordinator", zap.Uint16("coordinator", id), zap.Int("transactions", r.Entries),
			zap.Int("unfinished", len(r.Outcomes)), zap.Int("rejected_log_entries", r.Rejected))
	}
}

func (db *DB) reportRejoin(old, now uint16) {
	db.opt.Logger.Warn("taken for dead and fenced; joined again", zap.Uint16("was", old), zap.Uint16("coordinator", now))
}

// ousted names the reason where an attempt has ended since its coordinator was fenced.
func (tx *Tx) ousted(err error) error {
	b, ok := err.(*brokenError)
	if !ok || !tx.s.Fenced() || errors.Is(err, coord.ErrFenced) {
		return err
	}
	tx.doomed = &brokenError{fmt.Errorf("%w: coordinator %d: %w", coord.ErrFenced, tx.token.Coordinator(), b.cause)}
	return tx.doomed
}

// orphan frees a cell's lock if its holder was a coordinator that has died, and whose
// transactions are settled: then this lock was never logged, and nothing of the cell
// was changed. It waits for the answer, as the word that the CAS finds needs memory.
func (tx *Tx) orphan(c *cell, holder lock.Token) (freed bool, err error) {
	if holder == 0 || !tx.s.Coordinator().IsRecovered(holder.Coordinator()) {
		return false, nil
	}
	old, err := tx.alloc(8)
	if err != nil {
		return false, err
	}
	tx.s.CAS(c.node, c.va+layout.OffLock, uint64(holder), 0, old)
	tx.s.Ring()
	if err := tx.s.Wait(); err != nil {
		return false, tx.doom(&brokenError{err})
	}
	return lock.Token(old.Word(0)) == holder, nil
}

// Words in the table of outcomes.
const (
	outcomeCommitted = uint64(layout.LogCommitted)
	outcomeAborted   = uint64(layout.LogAborted)
)

// outcomeBatch is how many outcomes are written in one transaction: few enough for the
// smallest log slot.
const outcomeBatch = 4

func outcomeKey(id ID) []byte { return binary.BigEndian.AppendUint64(nil, uint64(id)) }

// keepOutcomes writes outcomes where everybody finds them. The oldest make room: ids of
// coordinators only grow.
func (db *DB) keepOutcomes(ctx context.Context, list []coord.Outcome) error {
	if len(list) == 0 {
		return nil
	}
	if err := db.forgetOutcomes(ctx, len(list)); err != nil {
		return fmt.Errorf("forget old outcomes: %w", err)
	}
	for len(list) > 0 {
		some := list[:min(outcomeBatch, len(list))]
		list = list[len(some):]
		err := db.surely(ctx, func(tx *Tx) error {
			for _, o := range some {
				word := outcomeAborted
				if o.Committed {
					word = outcomeCommitted
				}
				if err := tx.Put(db.outcomes, outcomeKey(o.Token), binary.LittleEndian.AppendUint64(nil, word)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("keep the outcomes of %d transactions: %w", len(some)+len(list), err)
		}
	}
	return nil
}

// surely is Update for transactions whose outcome nobody else will ask for. One that is
// unknown is found out, however long a memory node is away.
func (db *DB) surely(ctx context.Context, fn func(*Tx) error) error {
	for {
		err := db.Update(ctx, fn)
		var u *UnknownError
		if !errors.As(err, &u) {
			return err
		}
		for {
			o, e := db.Resolve(ctx, u.ID)
			if e == nil && o == Committed {
				return nil
			}
			if e == nil || errors.Is(e, ErrNotFound) {
				break // undone
			}
			if errors.Is(e, ErrClosed) || ctx.Err() != nil {
				return err
			}
			db.rt.Sleep(retryMax)
		}
	}
}

// kept lists the transactions whose outcomes are kept, the oldest first.
func (db *DB) kept(ctx context.Context) (ids []ID, err error) {
	err = db.View(ctx, func(tx *Tx) error {
		ids = ids[:0]
		return tx.scanHash(db.outcomes, func(key, _ []byte) error {
			ids = append(ids, ID(binary.BigEndian.Uint64(key)))
			return nil
		})
	})
	slices.Sort(ids)
	return ids, err
}

// forgetOutcomes makes room for n outcomes.
func (db *DB) forgetOutcomes(ctx context.Context, n int) error {
	ids, err := db.kept(ctx)
	if err != nil {
		return err
	}
	over := len(ids) + n - db.outcomes.schema.Capacity
	for old := range slices.Chunk(ids[:max(0, min(over, len(ids)))], outcomeBatch) {
		if err := db.surely(ctx, func(tx *Tx) error {
			for _, id := range old {
				if err := tx.Delete(db.outcomes, outcomeKey(id)); err != nil && !errors.Is(err, ErrNotFound) {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// oust notes a transaction of unknown outcome whose coordinator was fenced.
func (db *DB) oust(id ID) {
	db.mu.Lock()
	if len(db.ousted) < maxKnown {
		db.ousted[id] = true
	}
	db.mu.Unlock()
}

// recovered says what recovery has decided about a transaction that this DB does not
// keep.
func (db *DB) recovered(ctx context.Context, id ID) (Outcome, error) {
	unknown := fmt.Errorf("%w: no transaction %v with an unknown outcome", ErrNotFound, id)
	if id.Coordinator() == db.co.ID() && db.co.Stands() {
		return Unknown, unknown
	}
	for range 2 {
		o, err := db.outcome(ctx, id)
		if !errors.Is(err, ErrNotFound) {
			return o, err
		}
		members, err := db.co.Directory().Members(ctx)
		if err != nil {
			return Unknown, sessionError(err)
		}
		for _, m := range members {
			if m.ID == id.Coordinator() {
				return Unknown, fmt.Errorf("%w: coordinator %d, which ran transaction %v, is not recovered yet", ErrUnavailable, m.ID, id)
			}
		}
		// It is not a member any more: what was decided was kept before.
	}
	db.mu.Lock()
	ousted := db.ousted[id]
	db.mu.Unlock()
	if !ousted {
		return Unknown, unknown
	}
	// It had an unknown outcome, and no node had its log entry: nothing of it has executed.
	// Unless its outcome was kept and had to make room for younger ones.
	ids, err := db.kept(ctx)
	if err != nil {
		return Unknown, err
	}
	if len(ids) >= db.outcomes.schema.Capacity-outcomeBatch && ids[0] > id {
		return Unknown, unknown
	}
	return Aborted, nil
}

// outcome looks a transaction up in the table of outcomes.
func (db *DB) outcome(ctx context.Context, id ID) (o Outcome, err error) {
	err = db.View(ctx, func(tx *Tx) error {
		v, err := tx.Get(db.outcomes, outcomeKey(id))
		if err != nil {
			return err
		}
		switch w := binary.LittleEndian.Uint64(v); w {
		case outcomeCommitted:
			o = Committed
		case outcomeAborted:
			o = Aborted
		default:
			return fmt.Errorf("%w: the outcome of %v is %d, right is %d or %d", ErrCorrupt, id, w, outcomeCommitted, outcomeAborted)
		}
		return nil
	})
	if err != nil {
		return Unknown, err
	}
	return o, nil
}

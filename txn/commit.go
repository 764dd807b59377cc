package txn

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"fjord/coord"
	"fjord/layout"
	"fjord/lock"
)

// commit ends the attempt: locks what is left to lock, validates, logs, writes,
// and unlocks. An error other than an unknown outcome means that nothing
// happened; the caller aborts.
func (tx *Tx) commit() error {
	if tx.doomed != nil {
		return tx.doomed
	}
	if err := tx.prepare(); err != nil {
		return err
	}
	if err := tx.collect(); err != nil {
		return tx.doom(err)
	}
	if len(tx.writes) == 0 {
		return tx.commitReads()
	}
	if err := tx.buildLogs(); err != nil {
		if tx.doomed == nil && len(tx.reads) > 0 { // too large perhaps because of reads of two moments
			if e := tx.validate(); e != nil {
				return e
			}
		}
		return tx.doom(err)
	}
	if err := tx.s.TakeLog(tx.ctx); err != nil {
		return tx.doom(&brokenError{err})
	}
	if tx.s.Broken() != nil {
		if err := tx.allReachable(); err != nil {
			return err
		}
	}
	if err := tx.ctx.Err(); err != nil { // the last moment at which that can matter
		return tx.doom(err)
	}
	tx.postLogs()
	tx.logged = true
	if len(tx.reads) > 0 {
		// The log rides with the validation, the cells go out only when that held.
		if err := tx.validate(); err != nil {
			return err
		}
	}
	tx.postCells()
	tx.s.RingOn()
	if err := tx.s.Wait(); err != nil {
		return tx.insist(err)
	}
	// The commit point: every replica has everything.
	tx.unlock()
	return nil
}

// collect lists the cells to write, with their new images sealed, and those to
// validate.
func (tx *Tx) collect() error {
	if tx.unready {
		for _, a := range tx.accs {
			if a.op == opPut { // deletes were marked by prepare
				a.replace()
			}
		}
	}
	tx.oldBytes = 0
	for _, c := range tx.cells {
		switch {
		case c.write:
			if err := tx.seal(c); err != nil {
				return err
			}
			if c.ver != 0 {
				tx.oldBytes += int(c.oldLen)
			}
			tx.writes = append(tx.writes, c)
		case c.read && !c.locked:
			tx.reads = append(tx.reads, c)
		}
	}
	return nil
}

// commitReads ends an attempt without writes.
func (tx *Tx) commitReads() error {
	if err := tx.confirm(); err != nil {
		return err
	}
	tx.unlock()
	return nil
}

// confirm validates what an attempt that writes nothing has read. One cell that
// is there and not locked, and nothing else, was read in one consistent, committed
// image and needs no validation. A lock in it may be that of a writer who has
// validated already: then somebody may have replaced since what the writer read, and
// ended before this attempt began, which so stands before the one and behind the other.
func (tx *Tx) confirm() error {
	if len(tx.reads) == 0 {
		return nil
	}
	if c := tx.reads[0]; len(tx.reads) == 1 && c.kind == layout.KindRecord && layout.Lock(c.image().B()) == 0 && !tx.holds() {
		return nil
	}
	return tx.validate()
}

// holds tells whether any lock is held: then what is locked and what was read
// have to be of one moment.
func (tx *Tx) holds() bool {
	for _, c := range tx.cells {
		if c.locked {
			return true
		}
	}
	return false
}

// validate READs lock and version of every cell of the read set, and fails if
// one changed or is locked: its holder may be about to change it.
func (tx *Tx) validate() error {
	words, err := tx.alloc(16 * len(tx.reads))
	if err != nil {
		return err
	}
	for n, c := range tx.reads {
		tx.s.Read(c.node, c.va+layout.OffLock, words.Slice(16*n, 16*n+16))
	}
	if err := tx.exchange(); err != nil {
		return err
	}
	for n, c := range tx.reads {
		seen := words.B()[16*n:]
		switch ver := layout.CellVersion(seen); {
		case ver != c.ver && c.kind == layout.KindBucket:
			err = errInsert
		case ver != c.ver:
			err = errVersion
		case layout.Lock(seen) != 0:
			// What a dead coordinator has locked and not logged is as good as free.
			var freed bool
			if freed, err = tx.orphan(c, lock.Token(layout.Lock(seen))); freed {
				continue
			} else if err == nil {
				err = errLocked
			}
		default:
			continue
		}
		return tx.doom(tx.cellConflict(err, c))
	}
	return nil
}

// seal gives a cell's new image its version and sum.
func (tx *Tx) seal(c *cell) error {
	c.newVer = c.ver&layout.CounterMask + 1
	if c.structural {
		c.newVer = tx.group + 1
	}
	n := 0
	if c.kind == layout.KindRecord && !c.erase {
		n = layout.SealCell(c.next.B(), c.addr, c.newVer|layout.Pending, uint64(tx.token), layout.KindRecord, int(c.keyLen), int(c.valLen))
	} else {
		var err error
		if n, err = tx.sealOther(c); err != nil {
			return err
		}
	}
	c.newLen = int32(n)
	c.mem.SetWord(c.slot+auxUnlock, 0)
	c.mem.SetWord(c.slot+auxUnlock+8, uint64(c.newVer))
	c.oldLen = layout.HeaderSize
	if c.ver != 0 {
		c.oldLen = int32(layout.ImageLen(c.mem.B()))
	}
	return nil
}

// sealOther seals whatever is not a record that stays.
func (tx *Tx) sealOther(c *cell) (n int, err error) {
	if c.next.Nil() {
		if c.next, err = tx.alloc(c.slot); err != nil {
			return 0, err
		}
	}
	if c.erase {
		c.newVer |= layout.Absent
	}
	dst, ver, writer := c.next.B(), c.newVer|layout.Pending, uint64(tx.token)
	switch {
	case c.erase:
		return layout.EncodeCell(dst, c.addr, ver, writer, c.kind, nil, nil), nil
	case c.kind == layout.KindBucket:
		return layout.EncodeBucketHeader(dst, c.addr, ver, writer, c.chain, c.table), nil
	case c.kind == layout.KindCursor && c.valLen == 0:
		var value [layout.OverflowCursorSize]byte
		cur := tx.cursorAt(c.addr)
		cur.Encode(value[:])
		return layout.EncodeCell(dst, c.addr, ver, writer, c.kind, nil, value[:]), nil
	}
	return layout.SealCell(dst, c.addr, ver, writer, c.kind, int(c.keyLen), int(c.valLen)), nil
}

func (tx *Tx) cursorAt(addr layout.Addr) *layout.OverflowCursor {
	for i := range tx.turns {
		if k := &tx.turns[i]; k.cell.addr == addr {
			return &k.cur
		}
	}
	panic("txn: a cursor cell is written that no cursor stands for")
}

// logSize is what an entry over all written cells takes.
func (tx *Tx) logSize() int { return layout.LogSize(len(tx.writes), tx.oldBytes) }

// buildLogs makes the log entry of every node that holds a copy of a written
// cell. Where all nodes hold all shards they share one.
func (tx *Tx) buildLogs() error {
	co := tx.s.Coordinator()
	if n := tx.logSize(); n > tx.s.LogSlotSize() {
		return fmt.Errorf("%w: the transaction's undo log of %d cells takes %d bytes, a log slot has %d; raise %s",
			ErrTooLarge, len(tx.writes), n, tx.s.LogSlotSize(), tx.db.logOption())
	}
	l := co.Layout()
	if int(l.Header.Replicas) == len(l.Nodes) {
		entry, err := tx.buildLog(-1)
		if err != nil {
			return err
		}
		for node := range l.Nodes {
			tx.logs = append(tx.logs, logged{node, entry})
		}
		return nil
	}
	for node := range l.Nodes {
		if !slices.ContainsFunc(tx.writes, func(c *cell) bool { return co.Holds(node, c.addr.Shard()) }) {
			continue
		}
		entry, err := tx.buildLog(node)
		if err != nil {
			return err
		}
		tx.logs = append(tx.logs, logged{node, entry})
	}
	return nil
}

// buildLog makes the entry of one node; -1: with the old images of all cells.
func (tx *Tx) buildLog(node int) (coord.Buf, error) {
	co := tx.s.Coordinator()
	buf, err := tx.alloc(tx.logSize())
	if err != nil {
		return buf, err
	}
	b := &tx.u.builder
	b.Begin(buf.B(), uint64(tx.token), co.Epoch(), len(tx.writes))
	for _, c := range tx.writes {
		var image []byte
		if node < 0 || co.Holds(node, c.addr.Shard()) {
			image = c.mem.B()[:c.oldLen]
		}
		b.Add(c.addr, c.ver, c.newVer, image)
		b.Covers(int(c.newLen))
	}
	n, err := b.Finish()
	return buf.Slice(0, n), err
}

// allReachable fails if a node that is to be written to is known not to be reachable:
// as long as nothing is logged the attempt can be undone.
func (tx *Tx) allReachable() error {
	for _, g := range tx.logs {
		if err := tx.s.Use(g.node); err != nil {
			return tx.doom(&brokenError{err})
		}
	}
	return nil
}

func (tx *Tx) postLogs() {
	for i := range tx.logs {
		g := &tx.logs[i]
		tx.s.Write(g.node, tx.s.LogAddr(g.node), g.entry)
	}
}

// postCells stages the new images for every replica, behind the log entries on
// the same QPs: at the primary pending, at the backups as they will stay.
func (tx *Tx) postCells() {
	co := tx.s.Coordinator()
	for _, c := range tx.writes {
		tx.s.Write(c.node, c.va+layout.OffVersion, c.next.Slice(layout.OffVersion, int(c.newLen)))
		for r := 1; r < co.Replicas(c.addr.Shard()); r++ {
			node, va := co.Replica(c.addr, r)
			tx.s.Write2(node, va+layout.OffVersion, c.versionWord(), c.next.Slice(layout.OffWriter, int(c.newLen)))
		}
	}
}

// unlock frees every lock, after the commit point. Nobody waits for it.
func (tx *Tx) unlock() {
	quiet := true
	for _, c := range tx.cells {
		switch {
		case !c.locked:
			continue
		case c.write:
			tx.s.Unlock(c.node, c.va, c.addr, tx.token, c.newVer, c.unlockWords())
			c.locked = false
		default:
			tx.unhold(c)
		}
		quiet = false
	}
	if !quiet {
		tx.s.RingQuiet()
	}
	if tx.unready {
		tx.remember()
	}
}

// remember tells the address cache what a commit has changed.
func (tx *Tx) remember() {
	for _, a := range tx.accs {
		switch {
		case a.op == opPut && !a.present:
			a.t.remember(a.hash, a.cell.addr)
		case a.op == opDelete && a.present:
			a.t.forget(a.hash)
		}
	}
}

// abort undoes the attempt. It returns an error only if that could not be done
// now; then the session is kept for Resolve.
func (tx *Tx) abort() error {
	tx.salvage() // a panic may have come between an answer and the look at it
	if tx.logged {
		// Locks may go only when no copy of the entry can be taken for a live one.
		if err := tx.markAborted(); err != nil {
			if errors.Is(err, coord.ErrFenced) {
				// Whoever recovers this coordinator finds the entry and undoes it. No lock may
				// go before, where a node is not fenced yet.
				return nil
			}
			return err
		}
		tx.logged = false
	}
	for _, c := range tx.cells {
		if c.locked || c.asked {
			// Asked: the QP failed before the answer was known. Nothing is posted on a
			// failed QP; Repair looks at the lock and frees it if it is held.
			tx.unhold(c)
			c.asked = false
		}
	}
	tx.s.RingQuiet() // also what was given back on the way and has not gone out yet
	if tx.s.Broken() != nil {
		if err := tx.s.Repair(context.WithoutCancel(tx.ctx)); err != nil {
			tx.db.warn("memory node not reachable; its locks are freed when it is", err)
		}
	}
	return nil
}

// markAborted marks the log entry on every node that has it, and awaits that.
func (tx *Tx) markAborted() error {
	// After a QP has failed, the entry may not have arrived, and that of an earlier
	// transaction, which was committed, be what stands there: then it is written
	// whole, so that no other is marked.
	from, to := layout.LogOffState, layout.LogOffState+8
	for range repairTries {
		if tx.s.Failed() != nil {
			if err := tx.s.Repair(context.WithoutCancel(tx.ctx)); err != nil {
				return err
			}
			from = 0
		}
		for _, g := range tx.logs {
			if from == 0 {
				to = g.entry.Len()
			}
			binary.LittleEndian.PutUint64(g.entry.B()[layout.LogOffState:], uint64(layout.LogAborted)) // outside of the sum
			tx.s.Write(g.node, tx.s.LogAddr(g.node)+uint64(from), g.entry.Slice(from, to))
		}
		tx.s.Ring()
		if tx.s.Wait() == nil {
			return nil
		}
	}
	return tx.s.Failed()
}

// repairTries is how often a QP may fail again right after its repair.
const repairTries = 3

// insist goes on with a commit in whose middle a QP failed. Everything is
// written again over the repaired QPs: the locks are still held, so that does no
// harm, and the old QPs are gone, so nothing of them lands later. If a node
// cannot be reached the outcome is unknown.
func (tx *Tx) insist(cause error) error {
	for range repairTries {
		if err := tx.s.Repair(context.WithoutCancel(tx.ctx)); err != nil {
			cause = err
			break
		}
		tx.postLogs()
		tx.postCells()
		tx.s.Ring()
		err := tx.s.Wait()
		if err == nil {
			tx.unlock()
			return nil
		}
		cause = err
	}
	return tx.doom(&UnknownError{ID: tx.token, Cause: cause})
}

// isUnknown tells whether an error of commit leaves the outcome open.
func isUnknown(err error) bool {
	_, ok := err.(*UnknownError)
	return ok
}

package txn

import (
	"context"
	"encoding/binary"
	"fmt"

	"fjord/coord"
	"fjord/layout"
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
	tx.collect()
	if len(tx.writes) == 0 {
		return tx.commitReads()
	}
	if err := tx.seal(); err != nil {
		return tx.doom(err)
	}
	if !tx.s.LogFree() {
		if err := tx.s.Settle(tx.ctx); err != nil {
			return tx.doom(&brokenError{err})
		}
	}
	if err := tx.ctx.Err(); err != nil { // the last moment at which that can matter
		return tx.doom(err)
	}
	if len(tx.reads) > 0 {
		// The log rides with the validation, the cells go out only when that held.
		tx.postLogs()
		tx.logged = true
		if err := tx.validate(); err != nil {
			return err
		}
	} else {
		tx.postLogs()
		tx.logged = true
	}
	tx.postCells()
	tx.s.Ring()
	if err := tx.s.Wait(); err != nil {
		return tx.insist(err)
	}
	// The commit point: every replica has everything.
	tx.unlock()
	return nil
}

// collect lists the cells to write and those to validate.
func (tx *Tx) collect() {
	for i := range tx.accs {
		a := &tx.accs[i]
		if a.op != opPut {
			continue // deletes were marked by prepare
		}
		c := &tx.cells[a.cell]
		c.next, c.keyLen, c.valLen, c.write = a.put.buf, int32(a.put.keyLen), int32(a.put.valLen), true
	}
	for i := range tx.cells {
		c := &tx.cells[i]
		switch {
		case c.write:
			tx.writes = append(tx.writes, int32(i))
			if c.structural {
				tx.group = max(tx.group, c.ver&layout.CounterMask)
			}
		case c.read && !c.locked:
			tx.reads = append(tx.reads, int32(i))
		}
	}
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
	if c := &tx.cells[tx.reads[0]]; len(tx.reads) == 1 && c.kind == layout.KindRecord && layout.Lock(c.img.B()) == 0 && !tx.holds() {
		return nil
	}
	return tx.validate()
}

// holds tells whether any lock is held: then what is locked and what was read
// have to be of one moment.
func (tx *Tx) holds() bool {
	for i := range tx.cells {
		if tx.cells[i].locked {
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
	for n, i := range tx.reads {
		node, va := tx.s.Coordinator().Primary(tx.cells[i].addr)
		tx.s.Read(node, va+layout.OffLock, words.Slice(16*n, 16*n+16))
	}
	if err := tx.exchange(); err != nil {
		return err
	}
	for n, i := range tx.reads {
		c := &tx.cells[i]
		seen := words.B()[16*n:]
		switch ver := layout.CellVersion(seen); {
		case ver != c.ver && c.kind == layout.KindBucket:
			err = errInsert
		case ver != c.ver:
			err = errVersion
		case layout.Lock(seen) != 0:
			err = errLocked
		default:
			continue
		}
		return tx.doom(tx.cellConflict(err, c))
	}
	return nil
}

// seal gives the new images their versions and sums, and builds the log entries.
func (tx *Tx) seal() error {
	tx.oldBytes = 0
	for _, i := range tx.writes {
		c := &tx.cells[i]
		c.newVer = (c.ver & layout.CounterMask) + 1
		if c.structural {
			c.newVer = tx.group + 1
		}
		if err := tx.sealCell(c); err != nil {
			return err
		}
		c.oldLen = int32(c.oldSize())
		tx.oldBytes += int(c.oldLen)
	}
	if n := layout.LogSize(len(tx.writes), len(tx.writes), tx.oldBytes); n > tx.s.LogSlotSize() {
		return fmt.Errorf("%w: the transaction's undo log of %d cells takes %d bytes, a log slot has %d", ErrTooLarge, len(tx.writes), n, tx.s.LogSlotSize())
	}
	return tx.buildLogs()
}

// oldSize is the length of the cell's old image.
func (c *cell) oldSize() int {
	if c.ver == 0 {
		return layout.HeaderSize
	}
	return layout.ImageSize(layout.KeyLen(c.img.B()), layout.ValueLen(c.img.B()))
}

// sealCell completes a cell's new image.
func (tx *Tx) sealCell(c *cell) error {
	if c.next.Nil() {
		b, err := tx.alloc(c.slot)
		if err != nil {
			return err
		}
		c.next = b
	}
	writer, ver := uint64(tx.token), c.newVer|layout.Pending
	n := 0
	switch {
	case c.kind == layout.KindRecord && !c.erase:
		n = layout.SealCell(c.next.B(), c.addr, ver, writer, c.kind, int(c.keyLen), int(c.valLen))
	case c.erase:
		c.newVer |= layout.Absent
		ver |= layout.Absent
		n = layout.EncodeCell(c.next.B(), c.addr, ver, writer, c.kind, nil, nil)
	case c.kind == layout.KindBucket:
		n = layout.EncodeBucketHeader(c.next.B(), c.addr, ver, writer, c.chain, c.table)
	case c.kind == layout.KindCursor && c.valLen == 0:
		var value [layout.OverflowCursorSize]byte
		cur := tx.cursorAt(c.addr)
		cur.Encode(value[:])
		n = layout.EncodeCell(c.next.B(), c.addr, ver, writer, c.kind, nil, value[:])
	default:
		n = layout.SealCell(c.next.B(), c.addr, ver, writer, c.kind, int(c.keyLen), int(c.valLen))
	}
	c.next = c.next.Slice(0, n)
	words := c.aux.B()
	binary.LittleEndian.PutUint64(words[auxUnlock:], 0)
	binary.LittleEndian.PutUint64(words[auxUnlock+8:], uint64(c.newVer))
	return nil
}

func (tx *Tx) cursorAt(addr layout.Addr) *layout.OverflowCursor {
	for i := range tx.turns {
		if k := &tx.turns[i]; tx.cells[k.cell].addr == addr {
			return &k.cur
		}
	}
	panic("txn: a cursor cell is written that no cursor stands for")
}

// buildLogs makes the log entry of every node that holds a copy of a written
// cell. Where all nodes hold all shards they share one.
func (tx *Tx) buildLogs() error {
	co := tx.s.Coordinator()
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
		for _, i := range tx.writes {
			if !co.Holds(node, tx.cells[i].addr.Shard()) {
				continue
			}
			entry, err := tx.buildLog(node)
			if err != nil {
				return err
			}
			tx.logs = append(tx.logs, logged{node, entry})
			break
		}
	}
	return nil
}

// buildLog makes the entry of one node; -1: with all images.
func (tx *Tx) buildLog(node int) (coord.Buf, error) {
	co := tx.s.Coordinator()
	kept, bytes := len(tx.writes), tx.oldBytes
	if node >= 0 {
		kept, bytes = 0, 0
		for _, i := range tx.writes {
			if c := &tx.cells[i]; co.Holds(node, c.addr.Shard()) {
				kept++
				bytes += int(c.oldLen)
			}
		}
	}
	buf, err := tx.alloc(layout.LogSize(len(tx.writes), kept, bytes))
	if err != nil {
		return buf, err
	}
	b := &tx.u.builder
	b.Begin(buf.B(), uint64(tx.token), co.Epoch())
	for _, i := range tx.writes {
		c := &tx.cells[i]
		b.AddCell(c.addr, c.ver, c.newVer)
	}
	for n, i := range tx.writes {
		if c := &tx.cells[i]; node < 0 || co.Holds(node, c.addr.Shard()) {
			b.AddImage(n, c.img.B()[:c.oldLen])
		}
	}
	_, err = b.Finish()
	return buf, err
}

func (tx *Tx) postLogs() {
	for _, g := range tx.logs {
		tx.s.Write(g.node, tx.s.LogAddr(g.node), g.entry)
	}
}

// postCells stages the new images for every replica, behind the log entries on
// the same QPs: at the primary pending, at the backups as they will stay.
func (tx *Tx) postCells() {
	co := tx.s.Coordinator()
	for _, i := range tx.writes {
		c := &tx.cells[i]
		n := c.next.Len()
		node, va := co.Primary(c.addr)
		tx.s.Write(node, va+layout.OffVersion, c.next.Slice(layout.OffVersion, n))
		for r := 1; r < co.Replicas(c.addr.Shard()); r++ {
			node, va := co.Replica(c.addr, r)
			tx.s.Write2(node, va+layout.OffVersion, c.versionWord(), c.next.Slice(layout.OffWriter, n))
		}
	}
}

// unlock frees every lock, after the commit point. Nobody waits for it.
func (tx *Tx) unlock() {
	quiet := true
	for i := range tx.cells {
		c := &tx.cells[i]
		switch {
		case !c.locked:
			continue
		case c.write:
			tx.s.Unlock(c.addr, tx.token, c.newVer, c.unlockWords())
			c.locked = false
		default:
			tx.unhold(c)
		}
		quiet = false
	}
	if !quiet {
		tx.s.RingQuiet()
	}
}

// abort undoes the attempt. It returns an error only if that could not be done
// now; then the session must not be used again before finishAbort succeeded.
func (tx *Tx) abort() error {
	if tx.logged {
		// Locks may go only when no copy of the entry can be taken for a live one.
		if err := tx.markAborted(); err != nil {
			return err
		}
		tx.logged = false
	}
	held := false
	for i := range tx.cells {
		c := &tx.cells[i]
		if c.locked || c.asked {
			// Asked: the QP failed before the answer was known. Nothing is posted on a
			// failed QP; Repair looks at the lock and frees it if it is held.
			tx.unhold(c)
			c.asked = false
			held = true
		}
	}
	if held {
		tx.s.RingQuiet()
	}
	if tx.s.Broken() != nil {
		if err := tx.s.Repair(context.WithoutCancel(tx.ctx)); err != nil {
			tx.db.warn("memory node not reachable; its locks are freed when it is", err)
		}
	}
	return nil
}

// markAborted marks the log entry on every node that has it, and awaits that.
func (tx *Tx) markAborted() error {
	state, ok := tx.s.Alloc(8)
	if !ok {
		state = tx.logs[0].entry.Slice(layout.LogOffState, layout.LogOffState+8) // was sent long ago
	}
	binary.LittleEndian.PutUint64(state.B(), uint64(layout.LogAborted))
	for range repairTries {
		if tx.s.Broken() != nil {
			if err := tx.s.Repair(context.WithoutCancel(tx.ctx)); err != nil {
				return err
			}
		}
		for _, g := range tx.logs {
			tx.s.Write(g.node, tx.s.LogAddr(g.node)+layout.LogOffState, state)
		}
		tx.s.Ring()
		if tx.s.Wait() == nil {
			return nil
		}
	}
	return tx.s.Broken()
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

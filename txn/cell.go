package txn

import (
	"fmt"
	"math"

	"fjord/coord"
	"fjord/layout"
	"fjord/lock"
)

// cell is what a transaction knows of one cell: the engine locks, validates,
// logs, writes and unlocks cells, whatever they hold.
type cell struct {
	addr   layout.Addr
	va     uint64         // at its primary
	node   int            // that has the primary
	slot   int            // bytes of its slot
	ver    layout.Version // of the image, or of the header as first seen
	newVer layout.Version
	mem    coord.Buf // the consistent image that was read, and what lies behind it
	next   coord.Buf // memory of the new image: key and value in place, sealed at commit

	chain  layout.Addr // of a bucket header's new image: the next bucket
	table  uint32      // and its table
	keyLen int32       // of the new image
	valLen int32
	newLen int32 // bytes of the new image
	oldLen int32 // and of the old one
	tries  int16 // tries to lock it
	kind   layout.Kind

	asked      bool // a CAS was posted whose result was not yet looked at
	locked     bool // held by this transaction
	read       bool // in the read set: validated unless locked
	write      bool // gets a new image
	erase      bool // the new image is absent
	structural bool // part of an insert or delete
	seen       bool // a head's header: looked at behind its lock
}

// Behind the image of a cell that is locked are the word that the CAS found, and
// the two words of the unlock, of which the second is the version as backups get
// it. Behind these may be spare memory: a slot's size for the new image, and then
// room for the user's copy of a value.
const (
	auxCAS    = 0
	auxUnlock = 8
	auxSize   = 24
)

func (c *cell) image() coord.Buf       { return c.mem.Slice(0, c.slot) }
func (c *cell) casWord() coord.Buf     { return c.mem.Slice(c.slot+auxCAS, c.slot+auxCAS+8) }
func (c *cell) unlockWords() coord.Buf { return c.mem.Slice(c.slot+auxUnlock, c.slot+auxUnlock+16) }
func (c *cell) versionWord() coord.Buf { return c.mem.Slice(c.slot+auxUnlock+8, c.slot+auxUnlock+16) }

// holder is who held the lock when the CAS executed.
func (c *cell) holder() lock.Token { return lock.Token(c.mem.Word(c.slot + auxCAS)) }

// spare tells where spare memory begins, and whether there is any.
func (c *cell) spare() (from int, ok bool) {
	from = c.slot + auxSize
	return from, from < c.mem.Len()
}

// newCell adds a cell.
func (tx *Tx) newCell(addr layout.Addr, slot int, kind layout.Kind) *cell {
	n := len(tx.fresh)
	if n == cap(tx.fresh) {
		tx.fresh = more(tx.fresh)
	}
	tx.fresh = tx.fresh[:n+1]
	c := tx.fresh[n]
	tx.add(c, addr, slot, kind)
	return c
}

// add makes c one of the transaction's cells.
func (tx *Tx) add(c *cell, addr layout.Addr, slot int, kind layout.Kind) {
	*c = cell{}
	c.addr, c.slot, c.kind = addr, slot, kind
	c.node, c.va = tx.s.Coordinator().Primary(addr)
	tx.cells = append(tx.cells, c)
}

// more makes room behind a full list: what its capacity holds is there to be used,
// and stays where it is.
func more[T any](list []*T) []*T {
	n := len(list)
	fresh := make([]T, max(8, n))
	for i := range fresh {
		list = append(list, &fresh[i])
	}
	return list[: n : n+len(fresh)]
}

// imageOf makes room for the cell's slot, for the words beside it, and spare
// bytes behind them.
func (tx *Tx) imageOf(c *cell, spare int) bool {
	if c.mem = tx.s.Quick(c.slot + auxSize + spare); !c.mem.Nil() {
		return true
	}
	var ok bool
	if c.mem, ok = tx.s.Alloc(c.slot + auxSize + spare); !ok {
		_ = tx.tooLarge() // it sticks
	}
	return ok
}

// postLock stages the CAS of the cell's lock and, behind it on the same QP, the
// READ of its slot.
func (tx *Tx) postLock(c *cell) {
	c.asked, tx.locking = true, true
	tx.s.Lock(c.node, c.va, tx.token, c.mem, c.slot)
}

// took looks at the result of a CAS.
func (c *cell) took() bool {
	c.asked, c.locked = false, c.holder() == 0
	return c.locked
}

// busy asks the strategy what to do about a lock that another was found to hold:
// wait before the next try, or give up.
func (tx *Tx) busy(c *cell) (wait int64, err error) {
	if freed, err := tx.orphan(c, c.holder()); freed || err != nil {
		return 0, err
	}
	if c.tries < math.MaxInt16 {
		c.tries++
	}
	wait, again := tx.db.opt.Lock.Busy(lock.Busy{Holder: c.holder(), Tries: int(c.tries), Rand: tx.db.rt.Rand()})
	if !again {
		return 0, errLocked
	}
	return wait, nil
}

// lockedImage judges the image that was read behind a lock that was taken. A pending
// one means that the lock was freed a moment ago and the rest of the unlock is
// still to land: the lock is given back, and the next try comes after wait.
func (tx *Tx) lockedImage(c *cell) (st layout.Status, wait int64, err error) {
	img := c.image().B()
	ver := layout.CellVersion(img)
	if ver.IsPending() {
		wait, err = tx.postpone(c)
		return layout.Torn, wait, err
	}
	if st = layout.Verify(img, c.addr, c.slot); st == layout.Torn {
		return st, 0, c.corrupt()
	}
	if c.read && ver != c.ver {
		return st, 0, errVersion
	}
	c.ver = ver
	return st, 0, nil
}

// postpone gives back the lock of a pending cell.
func (tx *Tx) postpone(c *cell) (wait int64, err error) {
	tx.unhold(c)
	if c.tries++; c.tries > readTries {
		return 0, errPending
	}
	return pendingWait(int(c.tries), tx.db.rt.Rand()), nil
}

// corrupt is the error of a locked image whose sum does not hold: nobody writes to
// a cell that another has locked, nor leaves it half written when it unlocks.
func (c *cell) corrupt() error {
	return fmt.Errorf("%w: %v at %v: sum does not hold under its lock", ErrCorrupt, c.kind, c.addr)
}

// unhold stages the release of a lock that this transaction holds and has not
// used.
func (tx *Tx) unhold(c *cell) {
	tx.s.Unhold(c.node, c.va, c.addr, tx.token)
	c.locked = false
}

// Bounds of waiting for an image that is torn or pending: its writer is about to
// finish, if it lives.
const (
	readTries   = 40
	readWaitMin = 250
	readWaitMax = 100_000
	readSpins   = 4 // tries without a wait
)

func pendingWait(tries int, rnd uint64) int64 {
	if tries <= readSpins {
		return 0
	}
	return lock.Jitter(readWaitMin, readWaitMax, tries-readSpins, rnd)
}

// lockCells locks and reads cells, in one round trip unless some are busy.
func (tx *Tx) lockCells(list ...*cell) error {
	for {
		n := 0
		for _, c := range list {
			if c.locked {
				continue
			}
			n++
			if !c.mem.Nil() || tx.imageOf(c, 0) {
				tx.postLock(c)
			}
		}
		if n == 0 {
			return nil
		}
		if err := tx.exchange(); err != nil {
			return err
		}
		var wait int64
		var fail error
		for _, c := range list {
			if !c.asked {
				continue
			}
			var w int64
			var err error
			if c.took() {
				_, w, err = tx.lockedImage(c)
			} else {
				w, err = tx.busy(c)
			}
			wait = max(wait, w)
			if err != nil && fail == nil {
				fail = tx.cellConflict(err, c)
			}
		}
		if fail != nil {
			return tx.giveUp(fail)
		}
		if err := tx.pause(wait); err != nil {
			return err
		}
	}
}

// giveUp dooms the attempt. What was given back on the way goes out now: the user's
// function runs next, for as long as it likes.
func (tx *Tx) giveUp(err error) error {
	tx.s.RingQuiet()
	return tx.doom(err)
}

// exchange rings the doorbells and waits for the answers: one round trip.
func (tx *Tx) exchange() error {
	if tx.locking && !tx.turned {
		tx.turned = true
		tx.s.NextLog()
	}
	tx.s.Ring()
	err := tx.s.Wait()
	if err != nil {
		err = tx.doom(&brokenError{err})
	}
	if tx.doomed != nil { // perhaps since a buffer was missing: what was staged has gone out all the same
		tx.salvage()
		return tx.doomed
	}
	return err
}

// salvage looks, when the answers are not looked at one by one, at every CAS:
// which locks are held must be known. Those of a QP that failed stay asked, unless it
// had failed before.
func (tx *Tx) salvage() {
	for _, c := range tx.cells {
		switch {
		case !c.asked:
		case !tx.s.Lost(c.node):
			c.asked, c.locked = false, c.holder() == 0
		case tx.s.Void(c.node):
			c.asked = false
		}
	}
}

// pause waits before a next try.
func (tx *Tx) pause(wait int64) error {
	if wait > 0 {
		tx.s.RingQuiet() // locks that were given back are not to wait with it
		tx.db.rt.Sleep(wait)
	}
	if err := tx.ctx.Err(); err != nil {
		return tx.doom(err)
	}
	return nil
}

package txn

import (
	"fmt"

	"fjord/coord"
	"fjord/layout"
	"fjord/lock"
)

// cell is what a transaction knows of one cell: the engine locks, validates,
// logs, writes and unlocks cells, whatever they hold.
type cell struct {
	addr   layout.Addr
	slot   int            // bytes of its slot
	ver    layout.Version // of the image, or of the header as first seen
	newVer layout.Version
	img    coord.Buf // the consistent image that was read
	aux    coord.Buf // words beside it, auxSize bytes; see casWord and the rest
	next   coord.Buf // new image: key and value in place, sealed at commit
	spare  coord.Buf // of a record: for a new image, and a copy of the value

	chain  layout.Addr // of a bucket header's new image: the next bucket
	table  uint32      // and its table
	keyLen int32       // of the new image
	valLen int32
	oldLen int32 // bytes of the old image
	tries  int32 // tries to lock it
	kind   layout.Kind

	asked      bool // a CAS was posted whose result was not yet looked at
	locked     bool // held by this transaction
	read       bool // in the read set: validated unless locked
	write      bool // gets a new image
	erase      bool // the new image is absent
	structural bool // part of an insert or delete
}

// The words beside an image: what a CAS found, and the two words of the unlock,
// of which the second is the version as backups get it.
const (
	auxCAS    = 0
	auxUnlock = 8
	auxSize   = 24
)

func (c *cell) casWord() coord.Buf     { return c.aux.Slice(auxCAS, auxCAS+8) }
func (c *cell) unlockWords() coord.Buf { return c.aux.Slice(auxUnlock, auxUnlock+16) }
func (c *cell) versionWord() coord.Buf { return c.aux.Slice(auxUnlock+8, auxUnlock+16) }

// newCell adds a cell and returns its index: the slice may move.
func (tx *Tx) newCell(addr layout.Addr, slot int, kind layout.Kind) int32 {
	n := len(tx.cells)
	if n == cap(tx.cells) {
		tx.cells = append(tx.cells, cell{})
	}
	tx.cells = tx.cells[:n+1] // in place: cheaper than a copy of a new one
	c := &tx.cells[n]
	*c = cell{}
	c.addr, c.slot, c.kind = addr, slot, kind
	return int32(n)
}

// imageOf makes room for the cell's slot, for the words beside it, and spare
// bytes behind them.
func (tx *Tx) imageOf(c *cell, spare int) bool {
	b, err := tx.alloc(c.slot + auxSize + spare)
	if err != nil {
		return false
	}
	c.img, c.aux = b.Slice(0, c.slot), b.Slice(c.slot, c.slot+auxSize)
	if spare > 0 {
		c.spare = b.Slice(c.slot+auxSize, b.Len())
	}
	return true
}

// postLock stages the CAS of the cell's lock and, behind it on the same QP, the
// READ of its slot.
func (tx *Tx) postLock(c *cell, spare int) {
	if c.img.Nil() && !tx.imageOf(c, spare) {
		return
	}
	node, va := tx.s.Coordinator().Primary(c.addr)
	tx.s.CAS(node, va+layout.OffLock, 0, uint64(tx.token), c.casWord())
	tx.s.Read(node, va, c.img)
	c.asked, tx.locking = true, true
}

// postRead stages the READ of the cell's slot.
func (tx *Tx) postRead(c *cell) {
	if c.img.Nil() && !tx.imageOf(c, 0) {
		return
	}
	node, va := tx.s.Coordinator().Primary(c.addr)
	tx.s.Read(node, va, c.img)
}

// took looks at the result of a CAS. If another holds the word, wait tells how
// long to wait before the next try, and err is the conflict if there is none.
func (tx *Tx) took(c *cell) (ok bool, wait int64, err error) {
	c.asked = false
	old := lock.Token(word(c.aux.B()[auxCAS:]))
	if old == 0 {
		c.locked = true
		return true, 0, nil
	}
	c.tries++
	wait, again := tx.db.opt.Lock.Busy(lock.Busy{Holder: old, Tries: int(c.tries), Rand: tx.db.rt.Rand()})
	if !again {
		return false, 0, errLocked
	}
	return false, wait, nil
}

// lockedImage judges the image that was read behind a lock that was taken. A pending
// one means that the lock was freed a moment ago and the rest of the unlock is
// still to land: the lock is given back, and the next try comes after wait.
func (tx *Tx) lockedImage(c *cell) (st layout.Status, wait int64, err error) {
	ver := layout.CellVersion(c.img.B())
	if ver.IsPending() {
		tx.unhold(c)
		if c.tries++; c.tries > readTries {
			return layout.Torn, 0, errPending
		}
		return layout.Torn, pendingWait(int(c.tries), tx.db.rt.Rand()), nil
	}
	st = layout.Verify(c.img.B(), c.addr, c.slot)
	if st == layout.Torn {
		// Nobody writes to a cell that another has locked, nor leaves it half
		// written when it unlocks.
		return st, 0, fmt.Errorf("%w: %v at %v: sum does not hold under its lock", ErrCorrupt, c.kind, c.addr)
	}
	if c.read && ver != c.ver {
		return st, 0, errVersion
	}
	c.ver = ver
	return st, 0, nil
}

// unhold stages the release of a lock that this transaction holds and has not
// used.
func (tx *Tx) unhold(c *cell) {
	tx.s.Unhold(c.addr, tx.token)
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
func (tx *Tx) lockCells(list []int32) error {
	for {
		n := 0
		for _, i := range list {
			if c := &tx.cells[i]; !c.locked {
				tx.postLock(c, 0)
				n++
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
		for _, i := range list {
			c := &tx.cells[i]
			if !c.asked {
				continue
			}
			ok, w, err := tx.took(c)
			if ok {
				_, w, err = tx.lockedImage(c)
			}
			wait = max(wait, w)
			if err != nil && fail == nil {
				fail = tx.cellConflict(err, c)
			}
		}
		if fail != nil {
			return tx.doom(fail)
		}
		if err := tx.pause(wait); err != nil {
			return err
		}
	}
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
// which locks are held must be known. Those of a QP that failed stay asked.
func (tx *Tx) salvage() {
	for i := range tx.cells {
		c := &tx.cells[i]
		if node, _ := tx.s.Coordinator().Primary(c.addr); c.asked && !tx.s.Lost(node) {
			c.asked, c.locked = false, word(c.aux.B()[auxCAS:]) == 0
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

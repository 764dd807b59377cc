package txn

import (
	"encoding/binary"
	"fmt"

	"fjord/coord"
	"fjord/layout"
)

// resolve fetches what the queued accesses wait for.
func (tx *Tx) resolve() error {
	if len(tx.work) == 0 {
		return tx.doomed
	}
	for _, a := range tx.work {
		tx.post(a)
	}
	return tx.await(tx.work)
}

// post stages the requests that an access waits for.
func (tx *Tx) post(a *access) {
	c := a.cell
	switch {
	case a.stage != stageAt:
		tx.postSearch(a)
	case c.mem.Nil() && !tx.imageOf(c, a.room()):
	case a.mode >= modeUpdate && !c.locked:
		tx.postLock(c)
	default:
		tx.s.Read(c.node, c.va, c.image())
	}
}

// room is how many bytes an access needs behind its image: those of a lock.
func (a *access) room() int {
	if a.mode < modeUpdate {
		return 0
	}
	return a.t.room
}

// await has what was posted for some accesses answered: one round trip for all of
// them if their addresses are known, more where buckets have to be looked at or
// something is busy. After an error the transaction is doomed.
func (tx *Tx) await(list []*access) error {
	if err := tx.exchange(); err != nil {
		return err
	}
	late := false
	for _, a := range list {
		if a.stage != stageAt || !tx.arrived(a) {
			late = true
		}
	}
	if !late {
		tx.work = tx.work[:0]
		return nil
	}
	return tx.chase(list)
}

// chase goes on for those accesses of a list that did not arrive at once.
func (tx *Tx) chase(list []*access) error {
	for {
		// Every answer is looked at, also after a failure: which locks are held
		// must be known.
		var wait int64
		var fail error
		keep := tx.work[:0] // never overtakes list, which may be the same memory
		for _, a := range list {
			if a.stage == stageDone {
				continue
			}
			w, err := tx.absorb(a)
			wait = max(wait, w)
			if err != nil && fail == nil {
				fail = tx.conflict(err, a.t, tx.keyOf(a))
			}
			if a.stage != stageDone {
				keep = append(keep, a)
			}
		}
		tx.work = keep
		if fail != nil {
			return tx.giveUp(fail)
		}
		if len(keep) == 0 {
			return nil
		}
		if err := tx.pause(wait); err != nil {
			return err
		}
		for _, a := range keep {
			tx.post(a)
		}
		if err := tx.exchange(); err != nil {
			return err
		}
		list = keep
	}
}

// arrived is absorb for what nearly always comes back from a known address: the
// record, its lock taken if that was asked for. It changes nothing if it is
// anything else.
func (tx *Tx) arrived(a *access) bool {
	c := a.cell
	if a.known || a.search != nil || c.locked || c.asked && c.holder() != 0 {
		return false
	}
	ver, ok := layout.Match(c.mem.B()[:c.slot], c.addr, a.first, int(a.keyLen))
	if !ok || a.keyLen > 8 && !tx.isKey(a, c.image().B()) {
		return false
	}
	c.locked, c.asked, c.ver, c.read = c.asked, false, ver, true
	a.known, a.present, a.stage = true, true, stageDone
	tx.u.stats.Hits++
	return true
}

// absorb looks at the answers that an access has waited for.
func (tx *Tx) absorb(a *access) (wait int64, err error) {
	if a.stage == stageAt {
		return tx.absorbAt(a)
	}
	return tx.absorbSearch(a)
}

// postSearch stages the requests of an access whose record is looked for.
func (tx *Tx) postSearch(a *access) {
	co := tx.s.Coordinator()
	switch a.stage {
	case stageDone, stageAt:
	case stageBucket:
		// The header's words first, then the bucket: absence is concluded with the
		// version that was there before any slot was read.
		s := tx.bucketBuf(a, a.at)
		if s == nil {
			return
		}
		node, va := co.Primary(s.at)
		tx.s.Read(node, va, s.words)
		tx.s.Read(node, va, s.bucket)
	case stageChain, stageTail:
		s := tx.bucketBuf(a, a.search.at)
		if s == nil {
			return
		}
		node, va := co.Primary(s.at)
		tx.s.Read(node, va, s.bucket)
	case stageHead:
		s := tx.bucketBuf(a, a.at)
		if s == nil {
			return
		}
		if a.head == nil {
			a.head = tx.headCell(a)
		}
		c := a.head
		node, va := c.node, c.va
		if !c.locked && !c.asked {
			if c.mem.Nil() && !tx.imageOf(c, 0) {
				return
			}
			tx.s.CAS(node, va+layout.OffLock, 0, uint64(tx.token), c.casWord())
			c.asked, tx.locking = true, true
		}
		tx.s.Read(node, va, s.bucket)
	}
}

// bucketBuf prepares the look at a bucket: it gets a fresh buffer, since cells
// that were found in older ones are views of them. nil: there is no memory.
func (tx *Tx) bucketBuf(a *access, at layout.Addr) *search {
	size := int(a.t.bucket)
	b, err := tx.alloc(size + 16)
	if err != nil {
		return nil
	}
	if a.search == nil {
		n := len(tx.searches)
		if n == cap(tx.searches) {
			tx.searches = more(tx.searches)
		}
		tx.searches = tx.searches[:n+1]
		a.search = tx.searches[n]
		*a.search = search{}
	}
	s := a.search
	s.at, s.bucket, s.words = at, b.Slice(0, size), b.Slice(size, size+16)
	return s
}

// headCell returns the cell of the access's head bucket header, which accesses
// of one bucket share.
func (tx *Tx) headCell(a *access) *cell {
	addr := a.at
	for _, c := range tx.heads {
		if c.addr == addr {
			return c
		}
	}
	c := tx.newCell(addr, layout.BucketHeaderSize, layout.KindBucket)
	tx.heads = append(tx.heads, c)
	return c
}

// absorbSearch looks at the answers of an access whose record is looked for, and
// moves it on.
func (tx *Tx) absorbSearch(a *access) (wait int64, err error) {
	switch a.stage {
	case stageDone, stageAt:
	case stageBucket:
		return tx.absorbBucket(a)
	case stageChain:
		return tx.searchBucket(a, false)
	case stageHead:
		return tx.absorbHead(a)
	case stageTail:
		return tx.searchBucket(a, true)
	}
	return 0, nil
}

// absorbAt looks at the image at an address where the record is thought to be.
func (tx *Tx) absorbAt(a *access) (wait int64, err error) {
	c := a.cell
	var st layout.Status
	if c.asked {
		switch {
		case c.took():
			if st, wait, err = tx.lockedImage(c); err != nil || !c.locked {
				return wait, err
			}
		case c.holder() != tx.token:
			return tx.busy(c)
		default:
			// Held by this transaction: for the key that is there now; or that is this
			// key, and another, which was thought to be here, is about to give it back.
			st = layout.Verify(c.image().B(), c.addr, c.slot)
			if st == layout.Torn || st == layout.Valid && tx.isKey(a, c.image().B()) {
				return tx.again(a)
			}
		}
	} else if st, wait, err = tx.freeImage(a, c); err != nil || st == layout.Torn {
		return wait, err
	}
	if st == layout.Valid && !c.ver.IsAbsent() && tx.isKey(a, c.image().B()) {
		tx.found(a, c)
		return 0, nil
	}
	return 0, tx.stray(a, c)
}

// isKey tells whether a verified image is of the access's key. Most keys need no
// comparison beyond that of their first word.
func (tx *Tx) isKey(a *access, img []byte) bool {
	return layout.KeyLen(img) == int(a.keyLen) && word(img[layout.HeaderSize:]) == a.first &&
		(a.keyLen <= 8 || string(tx.keyOf(a)) == string(layout.Key(img)))
}

// stray deals with a record that is not, or no longer, where it was remembered to
// be. A lock taken there is not the key's: it goes back, and the key is looked up
// again.
func (tx *Tx) stray(a *access, c *cell) error {
	if a.known { // it was read here before, and is gone
		return errVersion
	}
	if c.locked {
		tx.unhold(c)
	}
	a.stale = true
	a.t.forget(a.hash)
	a.stage = stageBucket
	return nil
}

// freeImage judges the image of a cell that was read without a lock. Torn with a
// nil error means: read the whole of it again.
func (tx *Tx) freeImage(a *access, c *cell) (st layout.Status, wait int64, err error) {
	img := c.image().B()
	ver := layout.CellVersion(img)
	if st = layout.Verify(img, c.addr, c.slot); st == layout.Torn || ver.IsPending() {
		wait, err = tx.again(a)
		return layout.Torn, wait, err
	}
	if c.read && ver != c.ver {
		return st, 0, errVersion
	}
	c.ver = ver
	return st, 0, nil
}

// again counts a try that met a torn or pending image.
func (tx *Tx) again(a *access) (int64, error) {
	if a.tries++; a.tries > readTries {
		return 0, errPending
	}
	return pendingWait(int(a.tries), tx.db.rt.Rand()), nil
}

// found ends the search of a key whose record's cell is known.
func (tx *Tx) found(a *access, c *cell) {
	switch {
	case a.known:
	case a.search == nil:
		tx.u.stats.Hits++
	default:
		tx.missed(a)
		a.t.remember(a.hash, c.addr)
	}
	c.read, a.known, a.present, a.stage = true, true, true, stageDone
}

// missed counts a key that was not found by way of the cache.
func (tx *Tx) missed(a *access) {
	tx.u.stats.Misses++
	if a.stale {
		tx.u.stats.Stale++
	}
}

func (tx *Tx) absorbBucket(a *access) (int64, error) {
	s := a.search
	s.first = layout.CellVersion(s.words.B())
	st := layout.Verify(s.bucket.B()[:layout.BucketHeaderSize], s.at, layout.BucketHeaderSize)
	if s.first.IsPending() || st == layout.Torn || layout.CellVersion(s.bucket.B()) != s.first {
		// A structural change is under way. A record that is found is there all the
		// same; absence cannot be told.
		if wait, err, ok := tx.searchSlots(a, false); ok || err != nil {
			return wait, err
		}
		return tx.again(a)
	}
	if err := tx.ownBucket(a); err != nil {
		return 0, err
	}
	return tx.searchBucket(a, false)
}

// ownBucket checks that the bucket, whose header is verified, is the table's.
func (tx *Tx) ownBucket(a *access) error {
	s := a.search
	if id := layout.BucketTable(s.bucket.B()); id != 0 && id != a.t.meta.ID {
		return fmt.Errorf("%w: bucket at %v is of table %d, not of %q (%d)", ErrCorrupt, s.at, id, a.t.schema.Name, a.t.meta.ID)
	}
	return nil
}

// searchBucket looks for the key in the bucket just read, whose header is good,
// and moves on along the chain. behind: its head's header is locked by this
// transaction.
func (tx *Tx) searchBucket(a *access, behind bool) (int64, error) {
	if a.stage == stageChain || a.stage == stageTail {
		s := a.search
		if st := layout.Verify(s.bucket.B()[:layout.BucketHeaderSize], s.at, layout.BucketHeaderSize); st == layout.Torn {
			return tx.restart(a)
		}
	}
	if behind {
		tx.addLink(a)
	}
	wait, err, done := tx.searchSlots(a, behind)
	if done || err != nil {
		return wait, err
	}
	if a.stage == stageDone {
		return 0, nil
	}
	s := a.search
	if next := chainOf(s.bucket.B()); next != 0 {
		s.at, a.stage = next, stageChain
		if behind {
			a.stage = stageTail
		}
		return 0, nil
	}
	return 0, tx.absent(a, behind)
}

// restart looks the bucket up from its head: the chain has changed underfoot.
func (tx *Tx) restart(a *access) (int64, error) {
	if a.stage == stageTail {
		return 0, fmt.Errorf("%w: overflow bucket at %v: header's sum does not hold under its head's lock", ErrCorrupt, a.search.at)
	}
	a.stage = stageBucket
	return tx.again(a)
}

// searchSlots looks for the key in the slots of a bucket. done: it was found and
// dealt with, or has to be read again.
func (tx *Tx) searchSlots(a *access, behind bool) (wait int64, err error, done bool) {
	s := a.search
	torn := false
	for i := range a.t.geo.Slots {
		off := a.t.geo.SlotOffset(i)
		img := s.bucket.B()[off : off+a.t.slot]
		addr := s.at + layout.Addr(off)
		ver := layout.CellVersion(img)
		// A key's bytes may be looked at before the sum is: a mismatch in a torn
		// image only means that the slot has to be read again.
		switch layout.Verify(img, addr, a.t.slot) {
		case layout.Virgin:
			continue
		case layout.Torn:
			torn = true
			continue
		case layout.Valid:
		}
		if ver.IsAbsent() {
			// A deletion that is not yet committed may be undone, and no image is left that
			// says whose key it is.
			torn = torn || ver.IsPending()
			continue
		}
		if !tx.isKey(a, img) {
			continue
		}
		if a.known && !a.present { // seen absent before
			return 0, errInsert, true
		}
		if a.known && a.cell.addr != addr {
			return 0, errVersion, true
		}
		if a.cell == nil {
			a.cell = tx.newCell(addr, a.t.slot, layout.KindRecord)
		}
		c := a.cell
		if c.locked {
			tx.found(a, c)
			return 0, nil, true
		}
		*c = cell{addr: addr, slot: a.t.slot, kind: layout.KindRecord, read: c.read, ver: c.ver}
		c.node, c.va = tx.s.Coordinator().Primary(addr)
		if a.mode == modeInsert {
			a.mode = modeRead // it exists: there is nothing to insert, and no reason to lock it
		}
		if a.mode == modeUpdate || ver.IsPending() {
			a.stage = stageAt // lock it, or read it until it is not pending
			if ver.IsPending() {
				wait, err = tx.again(a)
			}
			return wait, err, true
		}
		if c.read && c.ver != ver {
			return 0, errVersion, true
		}
		c.mem, c.ver = s.bucket.Slice(off, off+a.t.slot), ver
		tx.found(a, c)
		return 0, nil, true
	}
	if torn {
		// Some record is being written. It may be the one sought: read again from
		// where nothing has been concluded yet.
		if !behind {
			a.stage = stageBucket
		}
		wait, err = tx.again(a)
		return wait, err, true
	}
	return 0, nil, false
}

// absent concludes that no record has the key. That rests on the bucket header's
// version, which goes into the read set unless the header is locked.
func (tx *Tx) absent(a *access, behind bool) error {
	if a.known && a.present {
		return errVersion
	}
	if !behind {
		if a.head == nil {
			a.head = tx.headCell(a)
		}
		c := a.head
		if (c.read || c.locked) && c.ver != a.search.first {
			return errInsert
		}
		c.ver, c.read = a.search.first, true
	}
	if a.cell != nil { // what was thought to be its cell
		a.cell.read = false
		a.cell = nil
	}
	if !a.known {
		tx.missed(a)
	}
	a.known, a.present, a.walked, a.stage = true, false, behind, stageDone
	return nil
}

// absorbHead looks at the head bucket read behind the CAS of its header.
func (tx *Tx) absorbHead(a *access) (int64, error) {
	c := a.head
	if c.asked {
		if !c.took() {
			return tx.busy(c)
		}
	}
	if !c.locked { // another access of this bucket has asked, and it was busy
		return 0, nil
	}
	if !c.seen {
		// First sight of the header under its lock.
		copy(c.image().B(), a.search.bucket.B()[:c.slot])
		_, wait, err := tx.lockedImage(c)
		if err == errVersion {
			err = errInsert
		}
		if err != nil || !c.locked {
			return wait, err
		}
		if err := tx.ownBucket(a); err != nil {
			return 0, err
		}
		c.seen = true
	}
	return tx.searchBucket(a, true)
}

// link is a bucket of a chain, read behind the lock of the chain's head.
type link struct {
	head *cell
	addr layout.Addr
	img  coord.Buf
	used uint64 // slots that this transaction has chosen
	gone bool   // unlinked by this transaction
}

// addLink notes a bucket of a locked chain, once, with its newest image.
func (tx *Tx) addLink(a *access) {
	s := a.search
	for i := range tx.links {
		if tx.links[i].addr == s.at {
			tx.links[i].img = s.bucket
			return
		}
	}
	tx.links = append(tx.links, link{head: a.head, addr: s.at, img: s.bucket})
}

// chainOf returns the next bucket of a verified header. A virgin one has none;
// its body means nothing.
func chainOf(header []byte) layout.Addr {
	if layout.CellVersion(header) == 0 {
		return 0
	}
	return layout.BucketNext(header)
}

func word(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

package txn

import (
	"fmt"

	"fjord/coord"
	"fjord/layout"
)

// prepare takes every lock that the writes need and that is not held: of keys
// put without a fetch, then of bucket headers and slots for inserts and deletes.
func (tx *Tx) prepare() error {
	if !tx.unready {
		return nil // every write is of a record that is there and locked
	}
	structural := false
	for _, a := range tx.accs {
		if a.op == opNone {
			continue
		}
		if !a.known || a.present && !a.cell.locked {
			tx.require(a, modeUpdate)
		}
	}
	if len(tx.work) > 0 {
		if err := tx.resolve(); err != nil {
			return err
		}
	}
	for _, a := range tx.accs {
		switch {
		case a.op == opNone || a.op == opPut && a.present:
			continue
		case a.op == opDelete && !a.present:
			continue // inserted and deleted again by this very transaction
		}
		structural = true
		if !a.walked || a.present {
			// Also where the bucket's header is locked already: for an insert the whole
			// chain has to be known, for a delete that up to the record.
			a.stage = stageHead
			tx.work = append(tx.work, a)
		}
	}
	if !structural {
		return nil
	}
	if len(tx.work) > 0 {
		if err := tx.resolve(); err != nil {
			return err
		}
	}
	if err := tx.placeInserts(); err != nil {
		return err
	}
	return tx.removeDeletes()
}

// restructure marks a locked cell, read behind its lock, as part of a structural
// change.
func (tx *Tx) restructure(c *cell) *cell {
	if c.kind == layout.KindBucket && !c.write {
		c.chain = chainOf(c.image().B())
	}
	c.write, c.structural = true, true
	tx.group = max(tx.group, c.ver&layout.CounterMask)
	return c
}

// placeInserts finds, locks and takes a free slot for every key to be inserted.
func (tx *Tx) placeInserts() error {
	tx.slots = tx.slots[:0]
	for _, a := range tx.accs {
		if a.op != opPut || a.present {
			continue
		}
		addr, locked := tx.freeSlot(a)
		if addr == 0 {
			if err := tx.addBucket(a, locked); err != nil {
				return err
			}
			if addr, _ = tx.freeSlot(a); addr == 0 {
				// Whoever took it before has undone that, and its slots' locks are still to
				// go; or stale addresses have led others there.
				return tx.doom(tx.conflict(errLocked, a.t, tx.keyOf(a)))
			}
		}
		tx.restructure(a.head).table = a.t.meta.ID
		a.cell = tx.newCell(addr, a.t.slot, layout.KindRecord)
		tx.slots = append(tx.slots, a.cell)
	}
	if err := tx.lockCells(tx.slots...); err != nil {
		return err
	}
	for _, c := range tx.slots {
		tx.restructure(c)
		if c.ver != 0 && !c.ver.IsAbsent() {
			return tx.doom(fmt.Errorf("%w: slot at %v was taken under its bucket's lock", ErrCorrupt, c.addr))
		}
	}
	return nil
}

// freeSlot chooses a slot in the locked chain of the access's bucket, 0 if there
// is none. One that somebody has locked, by a stale address or since his release is on
// its way, is passed over; locked tells that there was such a one.
func (tx *Tx) freeSlot(a *access) (addr layout.Addr, locked bool) {
	for i := range tx.links {
		l := &tx.links[i]
		if l.head != a.head {
			continue
		}
		for j := range a.t.geo.Slots {
			off := a.t.geo.SlotOffset(j)
			img := l.img.B()[off : off+a.t.slot]
			addr := l.addr + layout.Addr(off)
			if l.used&(1<<j) != 0 {
				continue
			}
			v := layout.CellVersion(img)
			switch layout.Verify(img, addr, a.t.slot) {
			case layout.Virgin:
			case layout.Valid:
				if !v.IsAbsent() {
					continue
				}
			case layout.Torn:
				continue
			}
			if layout.Lock(img) != 0 || v.IsPending() {
				locked = true
				continue
			}
			l.used |= 1 << j
			return addr, locked
		}
	}
	return 0, locked
}

// cursorOf locks the overflow cursor of a table in a shard, once.
func (tx *Tx) cursorOf(t *Table, shard uint16) (*cursor, error) {
	addr := t.cursorAddr(shard)
	for i := range tx.turns {
		if tx.turns[i].cell.addr == addr {
			return &tx.turns[i], nil
		}
	}
	c := tx.newCell(addr, coord.CursorSlot, layout.KindCursor)
	if err := tx.lockCells(c); err != nil {
		return nil, err
	}
	k := cursor{cell: tx.restructure(c), cur: layout.OverflowCursor{Limit: t.meta.OverflowBuckets}}
	if c.ver != 0 {
		var err error
		if k.cur, err = layout.DecodeOverflowCursor(layout.Value(c.image().B())); err != nil {
			return nil, tx.doom(fmt.Errorf("%w: overflow cursor of table %q at %v: %w", ErrCorrupt, t.schema.Name, addr, err))
		}
	}
	tx.turns = append(tx.turns, k)
	return &tx.turns[len(tx.turns)-1], nil
}

// headerOf locks the header of a bucket of a chain, once.
func (tx *Tx) headerOf(addr layout.Addr) (*cell, error) {
	for _, c := range tx.cells {
		if c.addr == addr && c.kind == layout.KindBucket && c.locked {
			return c, nil
		}
	}
	c := tx.newCell(addr, layout.BucketHeaderSize, layout.KindBucket)
	return c, tx.lockCells(c)
}

// addBucket chains a fresh overflow bucket to the access's bucket. locked tells that
// there is a free slot in the chain that somebody has locked.
func (tx *Tx) addBucket(a *access, locked bool) error {
	t, head := a.t, a.head
	shard := head.addr.Shard()
	k, err := tx.cursorOf(t, shard)
	if err != nil {
		return err
	}
	var addr layout.Addr
	switch {
	case k.cur.FreeHead != 0:
		addr = k.cur.FreeHead
	case k.cur.NextFresh < k.cur.Limit:
		addr = t.bucketAddr(t.extentOf(shard), t.meta.Buckets+k.cur.NextFresh)
	case locked:
		return tx.doom(tx.conflict(errLocked, t, tx.keyOf(a)))
	default:
		if err := tx.confirmReads(); err != nil {
			return err // there may be nothing to insert
		}
		return tx.doom(fmt.Errorf("%w: table %q, made for %d records, has no overflow bucket left in shard %d", ErrFull, t.schema.Name, t.schema.Capacity, shard))
	}
	fresh, err := tx.headerOf(addr)
	if err != nil {
		return err
	}
	if addr == k.cur.FreeHead {
		k.cur.FreeHead = chainOf(fresh.image().B())
		k.cur.FreeCount--
	} else {
		k.cur.NextFresh++
	}
	tail := layout.Addr(0)
	for i := range tx.links {
		if l := &tx.links[i]; l.head == head { // none is gone yet: inserts are placed first
			tail = l.addr
		}
	}
	last, err := tx.headerOf(tail)
	if err != nil {
		return err
	}
	img, err := tx.alloc(int(t.bucket))
	if err != nil {
		return err
	}
	node, va := tx.s.Coordinator().Primary(addr)
	tx.s.Read(node, va, img)
	if err := tx.exchange(); err != nil {
		return err
	}
	c := tx.restructure(last)
	c.chain, c.table = addr, t.meta.ID
	c = tx.restructure(fresh)
	c.chain, c.table = 0, t.meta.ID
	tx.links = append(tx.links, link{head: head, addr: addr, img: img})
	return nil
}

// extentOf returns which of the table's extents lies in a shard.
func (t *Table) extentOf(shard uint16) int {
	for i := range t.meta.Extents {
		if t.meta.Extents[i].Shard == shard {
			return i
		}
	}
	panic("txn: table has no extent in a shard that it has a bucket in")
}

// removeDeletes marks the records to be deleted, and gives back overflow buckets
// that this leaves empty: else churn would in time chain one to every bucket.
func (tx *Tx) removeDeletes() error {
	for _, a := range tx.accs {
		if a.op != opDelete || !a.present {
			continue
		}
		tx.restructure(a.head).table = a.t.meta.ID
		tx.restructure(a.cell).erase = true
	}
	for _, a := range tx.accs {
		if a.op != opDelete || !a.present {
			continue
		}
		if err := tx.unlinkEmpty(a); err != nil {
			return err
		}
	}
	return nil
}

// unlinkEmpty takes the bucket of a deleted record out of its chain if it is an
// overflow bucket and nothing is left in it.
func (tx *Tx) unlinkEmpty(a *access) error {
	addr := a.cell.addr
	before, this := -1, -1
	for i := range tx.links {
		l := &tx.links[i]
		if l.head != a.head || l.gone {
			continue
		}
		if off := uint64(addr - l.addr); off < a.t.bucket {
			this = i
			break
		}
		before = i
	}
	if before < 0 || this < 0 || !tx.emptied(a.t, &tx.links[this]) {
		return nil
	}
	t := a.t
	here, prev := tx.links[this].addr, tx.links[before].addr
	k, err := tx.cursorOf(t, addr.Shard())
	if err != nil {
		return err
	}
	own, err := tx.headerOf(here)
	if err != nil {
		return err
	}
	pred, err := tx.headerOf(prev)
	if err != nil {
		return err
	}
	o := tx.restructure(own)
	next := o.chain
	o.chain, o.table = k.cur.FreeHead, t.meta.ID
	p := tx.restructure(pred)
	p.chain, p.table = next, t.meta.ID
	k.cur.FreeHead = here
	k.cur.FreeCount++
	tx.links[this].gone = true
	return nil
}

// emptied tells whether no record will be left in a bucket.
func (tx *Tx) emptied(t *Table, l *link) bool {
	if l.used != 0 {
		return false
	}
	for j := range t.geo.Slots {
		off := t.geo.SlotOffset(j)
		img := l.img.B()[off : off+t.slot]
		addr := l.addr + layout.Addr(off)
		switch layout.Verify(img, addr, t.slot) {
		case layout.Virgin:
			continue
		case layout.Torn:
			return false
		case layout.Valid:
		}
		if layout.CellVersion(img).IsAbsent() {
			continue
		}
		if !tx.erasing(addr) {
			return false
		}
	}
	return true
}

// erasing tells whether this transaction deletes the record at an address.
func (tx *Tx) erasing(addr layout.Addr) bool {
	for _, c := range tx.cells {
		if c.addr == addr && c.erase {
			return true
		}
	}
	return false
}

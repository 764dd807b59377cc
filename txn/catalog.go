package txn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"fjord/coord"
	"fjord/layout"
)

// errDropping: the table is on its way out; the drop has to be finished first.
var errDropping = errors.New("txn: table is being dropped")

// CreateTable makes a table, or returns the one that exists if its schema is the
// same; ErrSchema if it differs, ErrFull if there is no room for the capacity.
func (db *DB) CreateTable(ctx context.Context, s Schema) (*Table, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	for {
		err := db.Update(ctx, func(tx *Tx) error { return tx.createTable(s) })
		if errors.Is(err, errDropping) {
			if err := db.finishDrop(ctx, s.Name); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("create table %q: %w", s.Name, err)
		}
		return db.Table(ctx, s.Name)
	}
}

func (tx *Tx) createTable(s Schema) error {
	meta, err := tx.tableMeta(s.Name)
	if err == nil {
		if meta.State == layout.TableDropping {
			return errDropping
		}
		return sameSchema(s, &meta)
	}
	if !errors.Is(err, ErrNoTable) {
		return err
	}
	shards := len(tx.db.co.Layout().Shards)
	if n, slot := deleteLog(s), tx.s.LogSlotSize(); n > slot {
		return fmt.Errorf("%w: table %q: a key of %d bytes and a value of %d could never be deleted: the undo log would take %d bytes, a log slot has %d; raise %s",
			ErrSchema, s.Name, s.KeySize, s.ValueSize, n, slot, tx.db.logOption())
	}
	meta = coord.PlanTable(s.KeySize, s.ValueSize, uint64(s.Capacity), shards)
	size := coord.TableBytes(&meta)
	if size > tx.db.co.Layout().Header.ExtentSize {
		return fmt.Errorf("%w: a capacity of %d takes %d bytes in each of %d shards, which have %d in all; raise NodeMemory",
			ErrFull, s.Capacity, size, shards, tx.db.co.Layout().Header.ExtentSize)
	}
	lists, cells, err := tx.allocators()
	if err != nil {
		return err
	}
	// The first allocator changes with every table that is made: its counter
	// names tables without another cell.
	meta.ID = firstTableID + uint32(cells[0].ver.Counter())
	for i := range lists {
		off, ok := lists[i].Alloc(size, layout.CellAlign)
		if !ok {
			return fmt.Errorf("%w: a capacity of %d takes %d bytes in each of %d shards, shard %d has %d free in %d pieces; raise NodeMemory",
				ErrFull, s.Capacity, size, shards, i, lists[i].Total(), len(lists[i].Ranges()))
		}
		meta.Extents = append(meta.Extents, layout.Extent{Shard: uint16(i), Off: off, Len: size})
	}
	if err := tx.putAllocators(lists, cells); err != nil {
		return err
	}
	value, err := encodeMeta(&meta)
	if err != nil {
		return err
	}
	return tx.Insert(tx.db.catalog, []byte(s.Name), value)
}

// deleteLog is the size of the largest log entry that a change of one record
// makes: a delete that leaves an overflow bucket empty changes the record, the
// headers of three buckets of its chain, and the overflow cursor.
func deleteLog(s Schema) int {
	return layout.LogSize(5, layout.ImageSize(s.KeySize, s.ValueSize)+3*layout.BucketHeaderImage+layout.ImageSize(0, layout.OverflowCursorSize))
}

// firstTableID leaves the small ids to the engine's own tables.
const firstTableID = 16

func encodeMeta(m *layout.TableMeta) ([]byte, error) {
	b := make([]byte, layout.TableMetaSize(len(m.Extents)))
	if _, err := m.Encode(b); err != nil {
		return nil, err
	}
	return b, nil
}

func sameSchema(s Schema, m *layout.TableMeta) error {
	var diff []string
	add := func(name string, want, have uint64) {
		if want != have {
			diff = append(diff, fmt.Sprintf("%s is %d, not %d", name, have, want))
		}
	}
	add("KeySize", uint64(s.KeySize), uint64(m.KeySize))
	add("ValueSize", uint64(s.ValueSize), uint64(m.ValueSize))
	add("Capacity", uint64(s.Capacity), m.Capacity)
	if diff != nil {
		return fmt.Errorf("%w: the table exists with another schema: %s", ErrSchema, strings.Join(diff, ", "))
	}
	return nil
}

// tableMeta reads a table's catalog entry.
func (tx *Tx) tableMeta(name string) (layout.TableMeta, error) {
	if name == "" || len(name) > layout.MaxTableName {
		return layout.TableMeta{}, fmt.Errorf("%w: %q; names have 1 to %d bytes", ErrNoTable, name, layout.MaxTableName)
	}
	v, err := tx.Get(tx.db.catalog, []byte(name))
	if errors.Is(err, ErrNotFound) {
		return layout.TableMeta{}, fmt.Errorf("%w: %q", ErrNoTable, name)
	}
	if err != nil {
		return layout.TableMeta{}, err
	}
	m, err := layout.DecodeTableMeta(v)
	if err != nil {
		return m, fmt.Errorf("%w: catalog entry of %q: %w", ErrCorrupt, name, err)
	}
	return m, nil
}

// allocators locks every shard's allocation cursor and decodes the free lists.
func (tx *Tx) allocators() ([]layout.FreeList, []*cell, error) {
	n := len(tx.db.co.Layout().Shards)
	lists, cells := make([]layout.FreeList, n), make([]*cell, n)
	for i := range n {
		cells[i] = tx.newCell(coord.AllocatorAddr(i), coord.AllocatorSlot, layout.KindCursor)
	}
	if err := tx.lockCells(cells...); err != nil {
		return nil, nil, err
	}
	for i := range n {
		if err := lists[i].Decode(layout.Value(cells[i].image().B())); err != nil {
			return nil, nil, tx.doom(fmt.Errorf("%w: allocator of shard %d: %w", ErrCorrupt, i, err))
		}
	}
	return lists, cells, nil
}

func (tx *Tx) putAllocators(lists []layout.FreeList, cells []*cell) error {
	for i := range lists {
		b, err := tx.alloc(coord.AllocatorSlot)
		if err != nil {
			return err
		}
		lists[i].Encode(b.B()[layout.HeaderSize:])
		c := cells[i]
		c.next, c.keyLen, c.valLen, c.write = b, 0, layout.FreeListSize, true
	}
	return nil
}

// handle returns the one handle of a table: transactions compare them.
func (db *DB) handle(name string, m layout.TableMeta) *Table {
	db.mu.Lock()
	defer db.mu.Unlock()
	t := db.tables[m.ID]
	if t == nil {
		t = newTable(db, name, m)
		t.index = db.co.Cache.NewSlotIndex(m.Buckets*t.shards, t.geo.Slots)
		db.tables[m.ID] = t
	}
	return t
}

// Table returns the table of that name, or ErrNoTable.
func (db *DB) Table(ctx context.Context, name string) (*Table, error) {
	var t *Table
	err := db.View(ctx, func(tx *Tx) error {
		m, err := tx.tableMeta(name)
		if err == nil && m.State == layout.TableDropping {
			err = fmt.Errorf("%w: %q is being dropped", ErrNoTable, name)
		}
		if err == nil {
			t = db.handle(name, m) // within the transaction: an epoch that begins now waits for it
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Tables returns all tables, by name.
func (db *DB) Tables(ctx context.Context) ([]*Table, error) {
	var all []*Table
	err := db.View(ctx, func(tx *Tx) error {
		all = all[:0]
		return tx.scanHash(db.catalog, func(key, value []byte) error {
			m, err := layout.DecodeTableMeta(value)
			if err != nil {
				return fmt.Errorf("%w: catalog entry of %q: %w", ErrCorrupt, key, err)
			}
			if m.State == layout.TableLive {
				all = append(all, db.handle(string(key), m))
			}
			return nil
		})
	})
	slices.SortFunc(all, func(a, b *Table) int { return strings.Compare(a.schema.Name, b.schema.Name) })
	return all, err
}

// DropTable removes a table and frees its space. It waits until transactions
// that may be using it, on every coordinator, have ended; if ctx ends before,
// the table is gone but its space is freed by the next DropTable or CreateTable
// of that name. The same holds after ErrFull: so many pieces of space are free
// that there is no room to note another, until a table beside it is dropped.
func (db *DB) DropTable(ctx context.Context, name string) error {
	err := db.Update(ctx, func(tx *Tx) error {
		m, err := tx.tableMeta(name)
		if err != nil || m.State == layout.TableDropping {
			return err
		}
		m.State = layout.TableDropping
		value, err := encodeMeta(&m)
		if err != nil {
			return err
		}
		return tx.Put(db.catalog, []byte(name), value)
	})
	if err != nil {
		return fmt.Errorf("drop table %q: %w", name, err)
	}
	return db.finishDrop(ctx, name)
}

// finishDrop frees the space of a table that is marked as dropping: after every
// coordinator has acknowledged that it is, nobody touches its cells any more.
func (db *DB) finishDrop(ctx context.Context, name string) error {
	var meta layout.TableMeta
	err := db.View(ctx, func(tx *Tx) (err error) {
		meta, err = tx.tableMeta(name)
		return err
	})
	if errors.Is(err, ErrNoTable) || err == nil && meta.State != layout.TableDropping {
		return nil // somebody else was faster
	}
	if err != nil {
		return err
	}
	if _, err := db.co.Directory().NewEpoch(ctx); err != nil {
		return fmt.Errorf("drop table %q: %w", name, sessionError(err))
	}
	// Several may get here at once. The lock of the catalog entry lets one at a time
	// go on, and only while the space is the table's: what is zeroed must not be
	// another's already.
	wiped := false
	err = db.Update(ctx, func(tx *Tx) error {
		m, err := tx.tableMeta(name)
		if err != nil || m.State != layout.TableDropping || m.ID != meta.ID {
			return err
		}
		if err := tx.Fetch(ForUpdate(db.catalog, []byte(name))); err != nil {
			return err
		}
		if !wiped {
			if err := tx.wipe(&m); err != nil {
				return err
			}
			wiped = true
		}
		lists, cells, err := tx.allocators()
		if err != nil {
			return err
		}
		for _, x := range m.Extents {
			err := lists[x.Shard].Free(x.Off, x.Len)
			if errors.Is(err, layout.ErrFreeListFull) {
				return fmt.Errorf("%w: its space is freed by another DropTable of it once a table beside it was dropped: %w", ErrFull, err)
			}
			if err != nil {
				return tx.doom(fmt.Errorf("%w: %w", ErrCorrupt, err))
			}
		}
		if err := tx.putAllocators(lists, cells); err != nil {
			return err
		}
		return tx.Delete(db.catalog, []byte(name))
	})
	if errors.Is(err, ErrNoTable) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("drop table %q: %w", name, err)
	}
	db.mu.Lock()
	t := db.tables[meta.ID]
	delete(db.tables, meta.ID)
	db.mu.Unlock()
	if t != nil && t.index != nil {
		t.index.Close() // the epoch has seen to it that nobody uses the handle any more
	}
	return nil
}

// onDrain is this coordinator's part of an epoch: handles of tables that are
// being dropped, or are gone, are refused from now on.
func (db *DB) onDrain(ctx context.Context, _ uint64) error {
	db.mu.Lock()
	tables := make([]*Table, 0, len(db.tables))
	for _, t := range db.tables {
		tables = append(tables, t)
	}
	db.mu.Unlock()
	slices.SortFunc(tables, func(a, b *Table) int { return cmp.Compare(a.meta.ID, b.meta.ID) })
	for _, t := range tables {
		err := db.View(ctx, func(tx *Tx) error {
			m, err := tx.tableMeta(t.schema.Name)
			if errors.Is(err, ErrNoTable) || err == nil && (m.ID != t.meta.ID || m.State != layout.TableLive) {
				t.dropped.Store(true)
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
		if t.dropped.Load() {
			db.mu.Lock()
			delete(db.tables, t.meta.ID)
			db.mu.Unlock()
		}
	}
	return nil
}

// wipe zeroes a dropped table's extents on every replica: virgin cells for
// whoever gets the space next.
func (tx *Tx) wipe(m *layout.TableMeta) error {
	chunk := min(wipeChunk, coord.TableBytes(m))
	zero, err := tx.alloc(int(chunk))
	if err != nil {
		return err
	}
	clear(zero.B())
	co := tx.s.Coordinator()
	for _, x := range m.Extents {
		for off := uint64(0); off < x.Len; off += chunk {
			n := int(min(chunk, x.Len-off))
			a := layout.MakeAddr(x.Shard, x.Off+off)
			for r := range co.Replicas(x.Shard) {
				node, va := co.Replica(a, r)
				tx.s.Write(node, va, zero.Slice(0, n))
			}
			if err := tx.exchange(); err != nil {
				return err
			}
			if err := tx.ctx.Err(); err != nil {
				return tx.doom(err)
			}
		}
	}
	return nil
}

const wipeChunk = 1 << 20

// scanHash calls fn with every record of a hash table, as of one moment: what it
// has seen goes into the read set.
func (tx *Tx) scanHash(t *Table, fn func(key, value []byte) error) error {
	for shard := range t.meta.Extents {
		for b := range t.meta.Buckets {
			if err := tx.scanBucket(t, t.bucketAddr(shard, b), fn); err != nil {
				return err
			}
		}
	}
	return nil
}

func (tx *Tx) scanBucket(t *Table, head layout.Addr, fn func(key, value []byte) error) error {
	for tries := 1; ; tries++ {
		if tries > readTries {
			return tx.doom(tx.conflict(errPending, t, nil))
		}
		chain, ok, err := tx.readChain(t, head)
		if err != nil {
			return err
		}
		if !ok {
			if err := tx.pause(pendingWait(tries, tx.db.rt.Rand())); err != nil {
				return err
			}
			continue
		}
		for _, b := range chain {
			for j := range t.geo.Slots {
				off := t.geo.SlotOffset(j)
				img := b.img.Slice(off, off+t.slot)
				if v := layout.CellVersion(img.B()); v == 0 || v.IsAbsent() {
					continue
				}
				c := tx.newCell(b.addr+layout.Addr(off), t.slot, layout.KindRecord)
				c.mem, c.ver, c.read = img, layout.CellVersion(img.B()), true
				if err := fn(layout.Key(img.B()), layout.Value(img.B())); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// readChain reads a bucket and its overflow buckets. It is not ok if any of it
// was being written.
func (tx *Tx) readChain(t *Table, head layout.Addr) (chain []link, ok bool, err error) {
	var first layout.Version
	for addr := head; addr != 0; {
		b, err := tx.alloc(int(t.bucket) + 16)
		if err != nil {
			return nil, false, err
		}
		words, img := b.Slice(int(t.bucket), int(t.bucket)+16), b.Slice(0, int(t.bucket))
		node, va := tx.s.Coordinator().Primary(addr)
		if addr == head {
			tx.s.Read(node, va, words)
		}
		tx.s.Read(node, va, img)
		if err := tx.exchange(); err != nil {
			return nil, false, err
		}
		header := img.B()[:layout.BucketHeaderSize]
		if layout.Verify(header, addr, layout.BucketHeaderSize) == layout.Torn {
			return nil, false, nil
		}
		if addr == head {
			if first = layout.CellVersion(words.B()); first.IsPending() || first != layout.CellVersion(header) {
				return nil, false, nil
			}
		}
		for j := range t.geo.Slots {
			off := t.geo.SlotOffset(j)
			cell := img.B()[off : off+t.slot]
			if layout.Verify(cell, addr+layout.Addr(off), t.slot) == layout.Torn || layout.CellVersion(cell).IsPending() {
				return nil, false, nil
			}
		}
		chain = append(chain, link{addr: addr, img: img})
		addr = chainOf(header)
	}
	c := tx.newCell(head, layout.BucketHeaderSize, layout.KindBucket)
	c.ver, c.read = first, true
	return chain, true, nil
}

package txn

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"fjord/coord"
	"fjord/layout"
)

// CheckReport says what Check found.
type CheckReport struct {
	// Checks has a verdict under every name:
	//
	//	no_locks        no cell is locked
	//	no_pending      no cell waits for its commit to be known
	//	sums_valid      every cell's sum holds
	//	replicas_equal  all copies are alike, byte for byte, locks aside
	//	catalog_sound   tables and free space do not overlap, chains lead somewhere,
	//	                every record is in the bucket of its key, once
	Checks map[string]bool
	// Details describes what is wrong, up to a bound.
	Details []string
	// Records is the number of records found, by table.
	Records map[string]uint64
}

// OK tells whether all checks passed.
func (r *CheckReport) OK() bool {
	for _, ok := range r.Checks {
		if !ok {
			return false
		}
	}
	return true
}

// Check reads everything on every memory node and looks for what must not be. No
// transaction of any coordinator may run meanwhile: what it is doing would look
// like damage. ErrBusy tells of this DB's own.
func (db *DB) Check(ctx context.Context) (*CheckReport, error) {
	if db.closed.Load() {
		return nil, ErrClosed
	}
	var err error
	db.co.Sessions(func(s *coord.Session) {
		if e := s.Settle(ctx); e != nil && err == nil {
			err = fmt.Errorf("%w: %w", ErrUnavailable, e)
		}
	}, func(s *coord.Session) {
		if err == nil {
			err = fmt.Errorf("%w: session %d is in a transaction", ErrBusy, s.Index())
		}
	})
	if err != nil {
		return nil, fmt.Errorf("txn: check: %w", err)
	}
	s, err := db.co.AcquireManual(ctx)
	if err != nil {
		return nil, sessionError(err)
	}
	defer s.Release()
	c := &checker{db: db, s: s, ctx: ctx, report: &CheckReport{Records: make(map[string]uint64), Checks: map[string]bool{
		"no_locks": true, "no_pending": true, "sums_valid": true, "replicas_equal": true, "catalog_sound": true}}}
	if err := c.run(); err != nil {
		return nil, fmt.Errorf("txn: check: %w", err)
	}
	return c.report, nil
}

type checker struct {
	db     *DB
	s      *coord.Session
	ctx    context.Context
	report *CheckReport
	taken  map[uint16][]layout.Extent // by shard
}

const maxDetails = 100

func (c *checker) bad(check, format string, args ...any) {
	c.report.Checks[check] = false
	if len(c.report.Details) < maxDetails {
		c.report.Details = append(c.report.Details, check+": "+fmt.Sprintf(format, args...))
	}
}

func (c *checker) run() error {
	c.taken = make(map[uint16][]layout.Extent)
	for shard := range c.db.co.Layout().Shards {
		if err := c.allocator(shard); err != nil {
			return err
		}
	}
	metas := make(map[string]layout.TableMeta)
	err := c.table("catalog", &c.db.catalog.meta, func(key, value []byte) {
		m, err := layout.DecodeTableMeta(value)
		if err != nil {
			c.bad("catalog_sound", "entry of %q: %v", key, err)
			return
		}
		metas[string(key)] = m
	})
	if err != nil {
		return err
	}
	delete(c.report.Records, "catalog")
	if err := c.table("outcomes", &c.db.outcomes.meta, func([]byte, []byte) {}); err != nil {
		return err
	}
	delete(c.report.Records, "outcomes")
	for _, name := range slices.Sorted(maps.Keys(metas)) {
		m := metas[name]
		if err := c.table(name, &m, func([]byte, []byte) {}); err != nil {
			return err
		}
	}
	c.overlaps()
	return nil
}

// read returns a range of a shard from its i-th replica.
func (c *checker) read(a layout.Addr, n int, replica int) ([]byte, error) {
	out := make([]byte, n)
	for off := 0; off < n; off += wipeChunk {
		if err := c.ctx.Err(); err != nil {
			return nil, err
		}
		c.s.Reset()
		b, ok := c.s.Alloc(min(wipeChunk, n-off))
		if !ok {
			return nil, ErrTooLarge
		}
		node, va := c.db.co.Replica(a+layout.Addr(off), replica)
		c.s.Read(node, va, b.Slice(0, min(wipeChunk, n-off)))
		c.s.Ring()
		if err := c.s.Wait(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		copy(out[off:], b.B())
	}
	return out, nil
}

// cell checks one cell at its primary, and the same bytes at the backups.
func (c *checker) cell(what string, a layout.Addr, img []byte, copies [][]byte) layout.Status {
	if w := layout.Lock(img); w != 0 {
		c.bad("no_locks", "%s at %v is locked by %v", what, a, ID(w))
	}
	st := layout.Verify(img, a, len(img))
	if st == layout.Torn {
		c.bad("sums_valid", "%s at %v: sum does not hold", what, a)
	}
	if layout.CellVersion(img).IsPending() {
		c.bad("no_pending", "%s at %v is pending", what, a)
	}
	for i, b := range copies {
		if w := layout.Lock(b); w != 0 {
			c.bad("no_locks", "%s at %v: copy %d is locked by %v", what, a, i+1, ID(w))
		}
		if !bytes.Equal(b[8:], img[8:]) {
			c.bad("replicas_equal", "%s at %v: copy %d differs from the primary: version %v, not %v", what, a, i+1,
				layout.CellVersion(b), layout.CellVersion(img))
		}
	}
	return st
}

// replicas reads a range from every replica.
func (c *checker) replicas(a layout.Addr, n int) (primary []byte, copies [][]byte, err error) {
	for r := range c.db.co.Replicas(a.Shard()) {
		b, err := c.read(a, n, r)
		if err != nil {
			return nil, nil, err
		}
		if r == 0 {
			primary = b
		} else {
			copies = append(copies, b)
		}
	}
	return primary, copies, nil
}

func slices2(bs [][]byte, from, to int) [][]byte {
	out := make([][]byte, len(bs))
	for i := range bs {
		out[i] = bs[i][from:to]
	}
	return out
}

func (c *checker) allocator(shard int) error {
	a := coord.AllocatorAddr(shard)
	img, copies, err := c.replicas(a, coord.AllocatorSlot)
	if err != nil {
		return err
	}
	if c.cell("allocator", a, img, copies) == layout.Valid {
		var f layout.FreeList
		if err := f.Decode(layout.Value(img)); err != nil {
			c.bad("catalog_sound", "allocator of shard %d: %v", shard, err)
		}
		for _, r := range f.Ranges() {
			c.taken[uint16(shard)] = append(c.taken[uint16(shard)], layout.Extent{Shard: uint16(shard), Off: r.Off, Len: r.Len})
		}
	}
	return nil
}

// overlaps looks for space that has two owners, or lies outside its extent.
func (c *checker) overlaps() {
	size := c.db.co.Layout().Header.ExtentSize
	for shard, list := range c.taken {
		slices.SortFunc(list, func(a, b layout.Extent) int {
			if a.Off < b.Off {
				return -1
			}
			return 1
		})
		end := uint64(0)
		for _, x := range list {
			if x.Off < end || x.Len > size || x.Off > size-x.Len {
				c.bad("catalog_sound", "shard %d: %d bytes at %#x overlap another range or the extent's end", shard, x.Len, x.Off)
			}
			end = max(end, x.Off+x.Len)
		}
	}
}

// table checks the cells of a table, and calls fn with every record.
func (c *checker) table(name string, m *layout.TableMeta, fn func(key, value []byte)) error {
	t := newTable(c.db, name, *m)
	for i, x := range m.Extents {
		if x.Len != coord.TableBytes(m) || x.Off+x.Len > c.db.co.Layout().Header.ExtentSize {
			c.bad("catalog_sound", "table %q: extent %d has %d bytes at %#x, not the %d that it needs", name, i, x.Len, x.Off, coord.TableBytes(m))
			continue
		}
		c.taken[x.Shard] = append(c.taken[x.Shard], x)
		base := layout.MakeAddr(x.Shard, x.Off)
		img, copies, err := c.replicas(base, int(x.Len))
		if err != nil {
			return err
		}
		c.part(t, i, base, img, copies, fn)
	}
	return nil
}

// part checks a table's part in one shard.
func (c *checker) part(t *Table, shard int, base layout.Addr, img []byte, copies [][]byte, fn func(key, value []byte)) {
	name := t.schema.Name
	cur := layout.OverflowCursor{Limit: t.meta.OverflowBuckets}
	if c.cell("cursor of "+name, base, img[:coord.CursorSlot], slices2(copies, 0, coord.CursorSlot)) == layout.Valid {
		var err error
		if cur, err = layout.DecodeOverflowCursor(layout.Value(img[:coord.CursorSlot])); err != nil {
			c.bad("catalog_sound", "table %q: overflow cursor at %v: %v", name, base, err)
		}
	}
	total := t.meta.Buckets + t.meta.OverflowBuckets
	chain := make([]layout.Addr, total) // next of every bucket
	for b := range total {
		at := int(coord.CursorSlot + b*t.bucket)
		a := base + layout.Addr(at)
		h := img[at : at+layout.BucketHeaderSize]
		if c.cell("bucket of "+name, a, h, slices2(copies, at, at+layout.BucketHeaderSize)) == layout.Valid {
			chain[b] = chainOf(h)
			if id := layout.BucketTable(h); id != t.meta.ID {
				c.bad("catalog_sound", "table %q: bucket at %v says it is of table %d, not %d", name, a, id, t.meta.ID)
			}
		}
		for j := range t.geo.Slots {
			from := at + t.geo.SlotOffset(j)
			c.cell("record of "+name, base+layout.Addr(from), img[from:from+t.slot], slices2(copies, from, from+t.slot))
		}
	}
	// Every chain, and the list of free buckets, leads over overflow buckets that
	// no other leads over.
	owner := make(map[uint64]bool)
	walk := func(a layout.Addr) (uint64, bool) {
		off := uint64(a-base) - coord.CursorSlot
		n := off / t.bucket
		if a < base || off%t.bucket != 0 || n < t.meta.Buckets || n >= t.meta.Buckets+cur.NextFresh || owner[n] {
			c.bad("catalog_sound", "table %q: a chain leads to %v, which is no overflow bucket in use, or in two chains", name, a)
			return 0, false
		}
		owner[n] = true
		return n, true
	}
	free := uint64(0)
	for a := cur.FreeHead; a != 0; free++ {
		n, ok := walk(a)
		if !ok {
			break
		}
		c.records(t, base, img, n, nil, fn)
		a = chain[n]
	}
	if free != cur.FreeCount {
		c.bad("catalog_sound", "table %q: %d free overflow buckets in shard %d, the cursor counts %d", name, free, shard, cur.FreeCount)
	}
	for b := range t.meta.Buckets {
		seen := make(map[string]bool)
		c.records(t, base, img, b, seen, fn)
		head := base + layout.Addr(coord.CursorSlot+b*t.bucket)
		for a := chain[b]; a != 0; {
			n, ok := walk(a)
			if !ok {
				break
			}
			c.records(t, base, img, n, seen, fn)
			a = chain[n]
		}
		for key := range seen {
			if _, at := t.head(layout.HashKey(t.meta.ID, []byte(key))); at != head {
				c.bad("catalog_sound", "table %q: key %x is in the bucket at %v, which is not its own", name, key, head)
			}
		}
	}
	for n := t.meta.Buckets; n < t.meta.Buckets+cur.NextFresh && n < total; n++ {
		if !owner[n] {
			c.bad("catalog_sound", "table %q: the overflow bucket at %v is in use, but in no chain", name, base+layout.Addr(coord.CursorSlot+n*t.bucket))
		}
	}
}

// records notes the keys in a bucket; seen is nil for a bucket that must be empty.
func (c *checker) records(t *Table, base layout.Addr, img []byte, n uint64, seen map[string]bool, fn func(key, value []byte)) {
	at := int(coord.CursorSlot + n*t.bucket)
	for j := range t.geo.Slots {
		from := at + t.geo.SlotOffset(j)
		b := img[from : from+t.slot]
		if layout.Verify(b, base+layout.Addr(from), t.slot) != layout.Valid || layout.CellVersion(b).IsAbsent() {
			continue
		}
		key := string(layout.Key(b))
		switch {
		case seen == nil:
			c.bad("catalog_sound", "table %q: key %x is in a free bucket", t.schema.Name, key)
		case seen[key]:
			c.bad("catalog_sound", "table %q: key %x is there twice", t.schema.Name, key)
		default:
			seen[key] = true
			c.report.Records[t.schema.Name]++
			fn(layout.Key(b), layout.Value(b))
		}
	}
}

package txn

import (
	"context"
	"errors"
	"fmt"

	"fjord/coord"
	"fjord/layout"
	"fjord/lock"
)

// sweep releases every lock that a dead coordinator has left, in all cells there are.
// Its transactions are settled, so none of these locks was logged. Nobody may be given
// its log area before: who finds one of its locks must find it in no log.
func (db *DB) sweep(ctx context.Context, dead uint16) error {
	w := &sweeper{db: db, ctx: ctx, dead: dead}
	for shard := range db.co.Layout().Shards {
		if err := w.inside(nil, func(s *coord.Session, _ *layout.TableMeta) error {
			return w.cells(s, coord.AllocatorAddr(shard), coord.AllocatorSlot, []int{0})
		}); err != nil {
			return err
		}
	}
	for _, t := range []*Table{db.catalog, db.outcomes} {
		for i := range t.meta.Extents {
			if err := w.inside(nil, func(s *coord.Session, _ *layout.TableMeta) error { return w.extent(s, &t.meta, i) }); err != nil {
				return err
			}
		}
	}
	names, err := w.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		for i := range db.co.Layout().Shards {
			if err := w.inside([]byte(name), func(s *coord.Session, m *layout.TableMeta) error {
				if i < len(m.Extents) {
					return w.extent(s, m, i)
				}
				return nil
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// sweeper looks for the locks of one coordinator.
type sweeper struct {
	db   *DB
	ctx  context.Context
	dead uint16
}

// names lists the tables. One that is made later has no lock of the dead.
func (w *sweeper) names() (names []string, err error) {
	err = w.db.View(w.ctx, func(tx *Tx) error {
		names = names[:0]
		return tx.scanHash(w.db.catalog, func(key, _ []byte) error {
			names = append(names, string(key))
			return nil
		})
	})
	return names, err
}

// inside runs fn on a session, in a transaction that has seen the table of that name: so
// no epoch ends, and no cell of the table becomes another, before fn has. A table that
// is gone, or about to go, is left out: its space is zeroed before anybody gets it. nil
// is for cells that never go.
func (w *sweeper) inside(name []byte, fn func(*coord.Session, *layout.TableMeta) error) error {
	for tries := 1; ; tries++ {
		tx, err := w.db.Begin(w.ctx)
		if err != nil {
			return err
		}
		var m layout.TableMeta
		if name != nil {
			m, err = tx.tableMeta(string(name))
		}
		if err == nil && (name == nil || m.State == layout.TableLive) {
			err = fn(tx.s, &m)
		}
		if e := tx.Abort(); e != nil && err == nil {
			err = e
		}
		switch {
		case errors.Is(err, ErrNoTable):
			return nil
		case errors.Is(err, ErrConflict) && tries <= w.db.opt.MaxRetries:
			w.db.rt.Sleep(lock.Jitter(retryMin, retryMax, tries, w.db.rt.Rand()))
		default:
			return err
		}
	}
}

// extent sweeps a table's part in one shard.
func (w *sweeper) extent(s *coord.Session, m *layout.TableMeta, i int) error {
	g := m.Geometry()
	base := layout.MakeAddr(m.Extents[i].Shard, m.Extents[i].Off)
	if err := w.cells(s, base, coord.CursorSlot, []int{0}); err != nil {
		return err
	}
	size := g.BucketSize()
	offs := []int{0}
	for j := range g.Slots {
		offs = append(offs, g.SlotOffset(j))
	}
	per := max(1, sweepChunk/size) // buckets in one READ
	var list []int
	for k := range per {
		for _, o := range offs {
			list = append(list, k*size+o)
		}
	}
	total := int(m.Buckets + m.OverflowBuckets)
	for b := 0; b < total; b += per {
		n := min(per, total-b)
		if err := w.cells(s, base+layout.Addr(coord.CursorSlot+b*size), n*size, list[:n*len(offs)]); err != nil {
			return err
		}
	}
	return nil
}

// sweepChunk is what is read at once: enough to make round trips cheap, and not more
// than a session has at hand for ever.
const sweepChunk = 48 << 10

// cells releases the locks of the dead in a range. A QP that fails in a long sweep does
// not have it begin anew.
func (w *sweeper) cells(s *coord.Session, a layout.Addr, n int, offs []int) error {
	for tries := 1; ; tries++ {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		err := w.once(s, a, n, offs)
		if err == nil || tries > repairTries || s.Broken() == nil || s.Repair(w.ctx) != nil {
			return err
		}
	}
}

// once reads a range at its primary, and releases the locks of the dead in the cells that
// begin at those offsets.
func (w *sweeper) once(s *coord.Session, a layout.Addr, n int, offs []int) error {
	s.Reset()
	img, ok := s.Alloc(n)
	if !ok {
		return fmt.Errorf("%w: to read %d bytes takes more local memory than there is", ErrTooLarge, n)
	}
	node, va := w.db.co.Primary(a)
	s.Read(node, va, img)
	s.Ring()
	if err := s.Wait(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	freed := false
	for _, o := range offs {
		holder := lock.Token(img.Word(o + layout.OffLock))
		if holder.Coordinator() != w.dead {
			continue
		}
		old, ok := s.Alloc(8)
		if !ok {
			return fmt.Errorf("%w: no local memory", ErrTooLarge)
		}
		// Somebody who met it may have released it meanwhile, and another have it.
		s.CAS(node, va+uint64(o)+layout.OffLock, uint64(holder), 0, old)
		freed = true
	}
	if !freed {
		return nil
	}
	s.Ring()
	if err := s.Wait(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

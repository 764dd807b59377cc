package txn_test

import (
	"context"
	"errors"
	"testing"

	"fjord/txn"
	"fjord/verbs"
)

// What a transaction costs in round trips and doorbells is part of what fjord
// promises; the table is that of the design, section 4, for known addresses.
func TestRoundTrips(t *testing.T) {
	ignore := func(err error, want error) error {
		if errors.Is(err, want) {
			return nil
		}
		return err
	}
	for i, copies := range []int{1, 3, 3, 3} {
		w := newWorld(t, shape(copies, copies))
		w.device = device(max(0, i-1))
		db := w.open()
		tab := newTable(t, db, "t", 8, 16, 1000)
		for k := range 100 {
			put(t, db, tab, u64(k), "old")
		}
		next := 1000
		fresh := func() []byte { next++; return u64(next) }
		old := 0
		doomed := func() []byte { old++; return u64(old) }
		for _, c := range []struct {
			name  string
			view  bool
			trips uint64 // to the answer
			fn    func(tx *txn.Tx) error
			err   error // that ends it
		}{
			{"nothing", false, 0, func(*txn.Tx) error { return nil }, nil},
			{"read one key", true, 1, func(tx *txn.Tx) error { _, err := tx.Get(tab, u64(90)); return err }, nil},
			{"read one key in Update", false, 1, func(tx *txn.Tx) error { _, err := tx.Get(tab, u64(90)); return err }, nil},
			{"read one key twice", true, 1, func(tx *txn.Tx) error {
				_, err := tx.Get(tab, u64(90))
				_, err2 := tx.Get(tab, u64(90))
				return errors.Join(err, err2)
			}, nil},
			{"read many", true, 2, func(tx *txn.Tx) error {
				return tx.Fetch(txn.ForRead(tab, u64(90)), txn.ForRead(tab, u64(91)), txn.ForRead(tab, u64(92)))
			}, nil},
			{"read an absent key", true, 2, func(tx *txn.Tx) error {
				_, err := tx.Get(tab, u64(999))
				return ignore(err, txn.ErrNotFound)
			}, nil},
			{"lock one, write nothing", false, 1, func(tx *txn.Tx) error { _, err := tx.GetForUpdate(tab, u64(90)); return err }, nil},
			{"write what was read", false, 2, func(tx *txn.Tx) error {
				if err := tx.Fetch(txn.ForUpdate(tab, u64(90)), txn.ForUpdate(tab, u64(91))); err != nil {
					return err
				}
				v, err := tx.Get(tab, u64(90))
				return errors.Join(err, tx.Put(tab, u64(90), v), tx.Put(tab, u64(91), v))
			}, nil},
			{"GetForUpdate and Put", false, 2, func(tx *txn.Tx) error {
				v, err := tx.GetForUpdate(tab, u64(90))
				return errors.Join(err, tx.Put(tab, u64(90), v))
			}, nil},
			{"blind Put", false, 2, func(tx *txn.Tx) error { return tx.Put(tab, u64(90), nil) }, nil},
			{"blind Puts", false, 2, func(tx *txn.Tx) error {
				return errors.Join(tx.Put(tab, u64(90), nil), tx.Put(tab, u64(91), nil), tx.Put(tab, u64(92), nil))
			}, nil},
			{"write with a read set", false, 3, func(tx *txn.Tx) error {
				err := tx.Fetch(txn.ForRead(tab, u64(90)), txn.ForUpdate(tab, u64(91)))
				return errors.Join(err, tx.Put(tab, u64(91), nil))
			}, nil},
			{"Get and then Put of the key", false, 3, func(tx *txn.Tx) error {
				v, err := tx.Get(tab, u64(90))
				return errors.Join(err, tx.Put(tab, u64(90), v))
			}, nil},
			// One more than 2 as the bucket is not cached.
			{"Insert", false, 3, func(tx *txn.Tx) error { return tx.Insert(tab, fresh(), nil) }, nil},
			{"Inserts", false, 3, func(tx *txn.Tx) error {
				a, b := fresh(), fresh()
				return errors.Join(tx.Fetch(txn.ForInsert(tab, a), txn.ForInsert(tab, b)), tx.Insert(tab, a, nil), tx.Insert(tab, b, nil))
			}, nil},
			{"Delete", false, 3, func(tx *txn.Tx) error { return tx.Delete(tab, doomed()) }, nil},
			{"Deletes", false, 3, func(tx *txn.Tx) error {
				a, b := doomed(), doomed()
				return errors.Join(tx.Fetch(txn.ForUpdate(tab, a), txn.ForUpdate(tab, b)), tx.Delete(tab, a), tx.Delete(tab, b))
			}, nil},
			{"error after a read", false, 1, func(tx *txn.Tx) error { _, err := tx.Get(tab, u64(90)); return errors.Join(err, errMine) }, errMine},
			{"error after a lock", false, 1, func(tx *txn.Tx) error { _, err := tx.GetForUpdate(tab, u64(90)); return errors.Join(err, errMine) }, errMine},
			{"error after a Put", false, 0, func(tx *txn.Tx) error { return errors.Join(tx.Put(tab, u64(90), nil), errMine) }, errMine},
			{"error after reads", false, 2, func(tx *txn.Tx) error {
				return errors.Join(tx.Fetch(txn.ForRead(tab, u64(90)), txn.ForRead(tab, u64(91))), errMine)
			}, errMine},
			// Its bucket was locked: what was locked and what was read have to be of one moment.
			{"Insert of a key that is there", false, 2, func(tx *txn.Tx) error { return tx.Insert(tab, u64(90), nil) }, txn.ErrExists},
			{"Insert of a key read before", false, 1, func(tx *txn.Tx) error {
				if _, err := tx.Get(tab, u64(90)); err != nil {
					return err
				}
				return tx.Insert(tab, u64(90), nil)
			}, txn.ErrExists},
			{"Delete of an absent key", false, 2, func(tx *txn.Tx) error { return tx.Delete(tab, u64(999)) }, txn.ErrNotFound},
		} {
			t.Run(name(copies, "copies", w.device, c.name), func(t *testing.T) {
				rings := make(map[verbs.QP]uint64)
				total := uint64(0)
				before := db.Stats()
				w.script.set(func(d *doorbell) (int, error) { rings[d.qp]++; total++; return d.pass() })
				run := db.Update
				if c.view {
					run = db.View
				}
				err := run(context.Background(), c.fn)
				w.script.set(nil)
				if !errors.Is(err, c.err) || c.err == nil && err != nil {
					t.Fatalf("got %v, want %v", err, c.err)
				}
				d := db.Stats().Sub(before)
				if d.Verbs.RoundTrips > c.trips {
					t.Errorf("%d round trips, want %d at most", d.Verbs.RoundTrips, c.trips)
				}
				if d.Verbs.RoundTrips < c.trips {
					t.Errorf("%d round trips, want %d: mend this table", d.Verbs.RoundTrips, c.trips)
				}
				if d.Verbs.Doorbells != total {
					t.Errorf("Stats count %d doorbells, %d were rung", d.Verbs.Doorbells, total)
				}
				for _, n := range rings { // one in each phase, and one for the unlock
					if n > d.Verbs.RoundTrips+1 {
						t.Errorf("%d doorbells on one QP in %d round trips", n, d.Verbs.RoundTrips)
					}
				}
				t.Logf("%d round trips, %d doorbells, %d verbs", d.Verbs.RoundTrips, total,
					d.Verbs.Read+d.Verbs.Write+d.Verbs.CAS+d.Verbs.FAA)
			})
		}
		w.sound(db, nil)
	}
}

// A cold key costs one look into its bucket, and no more when it has many
// companions.
func TestRoundTripsOfColdKeys(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db := w.open()
	tab := newTable(t, db, "t", 8, 16, 1000)
	for k := range 100 {
		put(t, db, tab, u64(k), "old")
	}
	for what, c := range map[string]struct {
		trips uint64
		fn    func(tx *txn.Tx) error
	}{
		"read one":  {1, func(tx *txn.Tx) error { _, err := tx.Get(tab, u64(1)); return err }},
		"write one": {3, func(tx *txn.Tx) error { return tx.Put(tab, u64(1), nil) }},
		"write many": {3, func(tx *txn.Tx) error {
			return errors.Join(tx.Put(tab, u64(1), nil), tx.Put(tab, u64(2), nil), tx.Put(tab, u64(3), nil))
		}},
		"delete": {4, func(tx *txn.Tx) error { return tx.Delete(tab, u64(50)) }},
	} {
		t.Run(name(what), func(t *testing.T) {
			cold := w.open()
			tab = newTable(t, cold, "t", 8, 16, 1000)
			defer cold.Close()
			before := cold.Stats()
			update(t, cold, c.fn)
			if n := cold.Stats().Sub(before).Verbs.RoundTrips; n != c.trips {
				t.Errorf("%d round trips, want %d", n, c.trips)
			}
		})
	}
}

// The payloads that Stats count are those of the requests.
func TestVerbBytes(t *testing.T) {
	w := newWorld(t, shape(2, 2))
	db := w.open()
	tab := newTable(t, db, "t", 8, 16, 100)
	put(t, db, tab, u64(1), "x")
	var in, out uint64
	count := make(map[verbs.Opcode]uint64)
	w.script.set(func(d *doorbell) (int, error) {
		for i := range d.wrs {
			wr := &d.wrs[i]
			count[wr.Opcode]++
			n := uint64(0)
			for _, s := range wr.SGL {
				n += uint64(s.Length)
			}
			switch wr.Opcode {
			case verbs.OpRead:
				in += n
			case verbs.OpWrite:
				out += n
			case verbs.OpCAS:
				in, out = in+8, out+16
			case verbs.OpFAA, verbs.OpWriteImm, verbs.OpSend, verbs.OpSendImm, verbs.OpInvalid:
				t.Errorf("a %v was posted", wr.Opcode)
			}
		}
		return d.pass()
	})
	before := db.Stats().Verbs
	put(t, db, tab, u64(1), "y")
	put(t, db, tab, u64(2), "z")
	read(t, db, tab, u64(2))
	w.script.set(nil)
	d := db.Stats().Verbs.Sub(before)
	if d.BytesIn != in || d.BytesOut != out || d.Read != count[verbs.OpRead] || d.Write != count[verbs.OpWrite] || d.CAS != count[verbs.OpCAS] {
		t.Errorf("Stats are %+v; posted were %v, %d bytes in, %d out", d, count, in, out)
	}
}

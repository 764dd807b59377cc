package txn_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fjord/coord"
	"fjord/txn"
)

// Coordinators are fenced again and again, at any moment of what they are doing, while
// all of them move money. Each joins again and goes on; nothing is lost or doubled, what
// had an unknown outcome is resolved by another DB as its own says, and nothing is left
// behind. With heartbeats, fences come from the others' claims by hand alone: nobody is
// suspected who beats.
func TestFencedUnderLoad(t *testing.T) {
	const accounts, money = 12, 1000
	for _, see := range []device{deviceAsIs, deviceAsync} {
		t.Run(name(see), func(t *testing.T) {
			w := newWorld(t, shape(3, 2))
			w.device = see
			ctx := context.Background()
			dbs, tabs := make([]*txn.DB, 3), make([]*txn.Table, 3)
			for i := range dbs {
				dbs[i] = w.open(func(o *txn.Options) { o.MaxRetries = 1 << 20 })
				tabs[i] = newTable(t, dbs[i], "t", 8, 16, 100)
			}
			for k := range accounts {
				put(t, dbs[0], tabs[0], u64(k), string(binary.BigEndian.AppendUint64(nil, money)))
			}
			var stop atomic.Bool
			var wg sync.WaitGroup
			var committed, unknown atomic.Int64
			for i, db := range dbs {
				for n := range 2 {
					wg.Go(func() {
						rng := rand.New(rand.NewPCG(uint64(i), uint64(n)))
						for !stop.Load() {
							from, to := u64(rng.IntN(accounts)), u64(rng.IntN(accounts))
							if string(from) == string(to) {
								continue
							}
							err := db.Update(ctx, func(tx *txn.Tx) error {
								if err := tx.Fetch(txn.ForUpdate(tabs[i], from), txn.ForUpdate(tabs[i], to)); err != nil {
									return err
								}
								for key, d := range map[string]uint64{string(from): ^uint64(0), string(to): 1} {
									v, err := tx.Get(tabs[i], []byte(key))
									if err != nil {
										return err
									}
									if err := tx.Put(tabs[i], []byte(key), binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64(v)+d)); err != nil {
										return err
									}
								}
								return nil
							})
							var u *txn.UnknownError
							switch {
							case err == nil:
								committed.Add(1)
							case errors.As(err, &u):
								unknown.Add(1)
								own, err := resolve(ctx, db, u.ID)
								if err != nil {
									t.Errorf("Resolve of %v: %v", u.ID, err)
								}
								o, err := dbs[(i+1)%3].Resolve(ctx, u.ID)
								if err == nil && o != own {
									t.Errorf("%v is %v, and %v as another says", u.ID, own, o)
								}
							case errors.Is(err, txn.ErrUnavailable), errors.Is(err, txn.ErrConflict), errors.Is(err, txn.ErrFull):
							default:
								t.Errorf("Update: %v", err)
							}
						}
					})
				}
			}
			rounds := 30
			if raceEnabled {
				rounds = 8
			}
			for i := range rounds {
				time.Sleep(3 * time.Millisecond)
				id := dbs[i%3].Coordinator()
				for range 100 {
					_, err := dbs[(i+1)%3].Recover(ctx, id)
					if err == nil || errors.Is(err, coord.ErrNoMember) {
						break
					}
					time.Sleep(time.Millisecond) // its own transactions may have been in the way
				}
			}
			stop.Store(true)
			wg.Wait()
			// Whoever was fenced last has joined again, and what a claim was given up on is free.
			for i, db := range dbs {
				put(t, db, tabs[i], u64(accounts+i), "")
			}
			sum := uint64(0)
			for k := range accounts {
				sum += binary.BigEndian.Uint64([]byte(read(t, dbs[0], tabs[0], u64(k))))
			}
			if sum != accounts*money {
				t.Errorf("money: %d, want %d", sum, accounts*money)
			}
			for _, db := range dbs { // each gives back what it owes
				if _, err := db.Check(ctx); err != nil {
					t.Error(err)
				}
			}
			w.sound(dbs[0], map[string]int{"t": accounts + 3})
			t.Logf("%d committed, %d unknown, last coordinator %d", committed.Load(), unknown.Load(), dbs[0].Coordinator())
			if dbs[0].Coordinator() < 5 {
				t.Error("nobody was fenced")
			}
		})
	}
}

// resolve asks until the coordinator of the transaction is recovered.
func resolve(ctx context.Context, db *txn.DB, id txn.ID) (o txn.Outcome, err error) {
	for range 5000 {
		if o, err = db.Resolve(ctx, id); !errors.Is(err, txn.ErrUnavailable) {
			return o, err
		}
		time.Sleep(time.Millisecond)
	}
	return o, err
}

// Heartbeats in real time. A DB that lives for several suspicion times is not taken for
// dead. One that is abandoned by its program, here: closed with a transaction of unknown
// outcome, is recovered by another within about twice the time.
func TestHeartbeatsInRealTime(t *testing.T) {
	const suspicion = 300 * time.Millisecond
	beat := func(o *txn.Options) { o.SuspectAfter = suspicion }
	w := newWorld(t, shape(2, 2))
	ctx := context.Background()
	db, other := w.open(beat), w.open(beat)
	tab, tab2 := newTable(t, db, "t", 8, 16, 20), newTable(t, other, "t", 8, 16, 20)
	put(t, db, tab, u64(1), "old")
	ids := [2]uint16{db.Coordinator(), other.Coordinator()}
	time.Sleep(3 * suspicion)
	put(t, db, tab, u64(1), "older")
	put(t, other, tab2, u64(1), "old")
	if now := [2]uint16{db.Coordinator(), other.Coordinator()}; now != ids {
		t.Errorf("coordinators are %d, were %d", now, ids)
	}
	w.script.set(func(d *doorbell) (int, error) {
		if carriesWrite(d) && len(d.wrs) > 1 && d.wrs[len(d.wrs)-1].SGL[0].Length > 8 {
			return d.cut(0, 1)
		}
		return d.pass()
	})
	err := db.Update(ctx, func(tx *txn.Tx) error { return tx.Put(tab, u64(1), []byte("new")) })
	w.script.set(nil)
	var u *txn.UnknownError
	if !errors.As(err, &u) {
		t.Fatalf("got %v, want an unknown outcome", err)
	}
	_ = db.Close() // may say that something is left
	begun := time.Now()
	o, err := resolve(ctx, other, u.ID)
	if err != nil || o == txn.Unknown {
		t.Fatalf("Resolve: %v, %v", o, err)
	}
	if d := time.Since(begun); d > 5*suspicion {
		t.Errorf("recovered after %v", d)
	}
	want := "old"
	if o == txn.Committed {
		want = "new"
	}
	if got := read(t, other, tab2, u64(1)); got != want {
		t.Errorf("%v, and the key is %q", o, got)
	}
	put(t, other, tab2, u64(1), "newer")
	for range 5000 { // the sweep runs on a session
		if _, err := other.Check(ctx); !errors.Is(err, txn.ErrBusy) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	w.sound(other, map[string]int{"t": 1})
}

// Suspicion times out of range are refused by name.
func TestSuspectAfterBounds(t *testing.T) {
	for _, d := range []time.Duration{-2, 1, time.Microsecond, 2 * time.Hour} {
		_, err := txn.Open(context.Background(), txn.Options{SuspectAfter: d})
		wantErr(t, err, txn.ErrOptions, "SuspectAfter", d.String(), "NoSuspicion")
	}
}

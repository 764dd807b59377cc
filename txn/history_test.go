package txn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"fjord/internal/serial"
	"fjord/layout"
	"fjord/lock"
	"fjord/txn"
)

// recorder keeps every attempt.
type recorder struct {
	mu       sync.Mutex
	attempts []txn.Attempt
}

func (r *recorder) Record(a *txn.Attempt) {
	c := *a
	c.Reads, c.Writes = slices.Clone(a.Reads), slices.Clone(a.Writes)
	for i := range c.Reads {
		c.Reads[i].Key = bytes.Clone(c.Reads[i].Key)
	}
	for i := range c.Writes {
		c.Writes[i].Key = bytes.Clone(c.Writes[i].Key)
	}
	r.mu.Lock()
	r.attempts = append(r.attempts, c)
	r.mu.Unlock()
}

// take returns the attempts so far, and forgets them.
func (r *recorder) take() []txn.Attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.attempts
	r.attempts = nil
	return all
}

// history is what the checker wants.
func history(attempts []txn.Attempt) *serial.History {
	h := &serial.History{}
	outcome := map[txn.Outcome]serial.Outcome{txn.Committed: serial.Commit, txn.Aborted: serial.Abort, txn.Unknown: serial.Unknown}
	for i := range attempts {
		a := &attempts[i]
		b := serial.Attempt{ID: a.ID.String(), Session: fmt.Sprint(a.Session), Type: a.Label, Begin: a.Begin, End: a.End,
			Outcome: outcome[a.Outcome], Reason: a.Reason}
		for _, r := range a.Reads {
			b.Reads = append(b.Reads, serial.Read{Table: r.Table, Key: string(r.Key), Version: r.Version})
		}
		for _, w := range a.Writes {
			b.Writes = append(b.Writes, serial.Write{Table: w.Table, Key: string(w.Key), Prev: w.Prev, Version: w.Version, Delete: w.Delete})
		}
		h.Attempts = append(h.Attempts, b)
	}
	return h
}

// serializable fails the test unless the attempts are strictly serializable.
func serializable(t testing.TB, attempts []txn.Attempt) {
	t.Helper()
	res := serial.Check(history(attempts), serial.Options{})
	if !res.OK || res.Undecided {
		t.Errorf("%v", &res)
		for i := range res.Violations {
			t.Log(res.Violations[i].Explain())
		}
	}
}

// load is a random mix of transactions by many workers on several coordinators.
type load struct {
	nodes, copies, dbs, workers int
	keys, capacity              int
	lock                        lock.Strategy
	cache                       int
	cuts                        int // one of so many doorbells breaks its QP; 0: none
	device                      device
}

func (l load) String() string {
	return name(l.nodes, "nodes", l.copies, "copies", l.dbs, "coordinators", l.workers, "workers", l.keys, "keys", l.lock.Name(), "cuts", l.cuts, "device", l.device)
}

func TestConcurrentTransactions(t *testing.T) {
	each := 300
	if raceEnabled {
		each = 40
	}
	backoff := lock.DefaultBackoff()
	for _, l := range []load{
		{nodes: 1, copies: 1, dbs: 1, workers: 4, keys: 3, capacity: 1, lock: lock.CAS{}, cache: 1000},
		{nodes: 3, copies: 3, dbs: 1, workers: 6, keys: 8, capacity: 4, lock: backoff, cache: 1000},
		{nodes: 2, copies: 1, dbs: 2, workers: 6, keys: 30, capacity: 4, lock: lock.CAS{}, cache: 8},
		{nodes: 1, copies: 1, dbs: 3, workers: 6, keys: 40, capacity: 1, lock: lock.CAS{}, cache: 1000},
		{nodes: 3, copies: 2, dbs: 3, workers: 6, keys: 20, capacity: 2, lock: backoff, cache: 8},
		{nodes: 5, copies: 3, dbs: 2, workers: 8, keys: 60, capacity: 4, lock: lock.CAS{}, cache: 1000},
		{nodes: 1, copies: 1, dbs: 2, workers: 8, keys: 100, capacity: 1, lock: backoff, cache: 1000},
		{nodes: 3, copies: 2, dbs: 2, workers: 6, keys: 20, capacity: 2, lock: lock.CAS{}, cache: 1000, device: deviceAsync},
		{nodes: 3, copies: 3, dbs: 2, workers: 6, keys: 30, capacity: 1, lock: lock.CAS{}, cache: 8, device: deviceNoInline},
	} {
		t.Run(l.String(), func(t *testing.T) { l.run(t, each) })
	}
}

// The same while QPs break all the time, in the middle of whatever they carry:
// with requests executed whose answers are lost.
func TestConcurrentTransactionsWithBrokenQPs(t *testing.T) {
	each := 200
	if raceEnabled {
		each = 40
	}
	for _, l := range []load{
		{nodes: 1, copies: 1, dbs: 2, workers: 4, keys: 10, capacity: 4, lock: lock.CAS{}, cache: 1000, cuts: 20},
		{nodes: 3, copies: 3, dbs: 2, workers: 4, keys: 10, capacity: 4, lock: lock.CAS{}, cache: 8, cuts: 50},
		{nodes: 3, copies: 2, dbs: 3, workers: 6, keys: 40, capacity: 1, lock: lock.DefaultBackoff(), cache: 1000, cuts: 50},
		{nodes: 2, copies: 2, dbs: 2, workers: 4, keys: 10, capacity: 4, lock: lock.CAS{}, cache: 1000, cuts: 20, device: deviceAsync},
		{nodes: 3, copies: 2, dbs: 2, workers: 4, keys: 30, capacity: 1, lock: lock.CAS{}, cache: 1000, cuts: 50, device: deviceNoInline},
	} {
		t.Run(l.String(), func(t *testing.T) { l.run(t, each) })
	}
}

// written is what a value in these tests says: who wrote it.
func written(id txn.ID, key, n int) []byte { return fmt.Appendf(nil, "%v key %d #%d", id, key, n) }

func (l load) run(t *testing.T, each int) {
	w := newWorld(t, shape(l.nodes, l.copies))
	w.device = l.device
	rec := &recorder{}
	var dbs []*txn.DB
	var tabs []*txn.Table
	for range l.dbs {
		db := w.open(func(o *txn.Options) {
			o.Lock, o.AddressCache, o.Recorder, o.MaxRetries = l.lock, l.cache, rec, 3000
		})
		dbs, tabs = append(dbs, db), append(tabs, newTable(t, db, "t", 8, 48, l.capacity))
	}
	rec.take() // the catalog's
	if l.cuts > 0 {
		w.script.set(func(d *doorbell) (int, error) {
			if rand.IntN(l.cuts) != 0 {
				return d.pass()
			}
			told := rand.IntN(len(d.wrs) + 1)
			if told == len(d.wrs) {
				told--
			}
			return d.cut(told, told+rand.IntN(len(d.wrs)-told+1))
		})
	}

	// What the functions have seen, to be compared with what was recorded.
	type sight struct {
		id    txn.ID
		key   int
		value string
	}
	var mu sync.Mutex
	var sights []sight
	fates := make(map[txn.ID]*txn.DB) // of those whose outcome was unknown
	var wg sync.WaitGroup
	for g := range l.workers {
		wg.Go(func() {
			db, tab := dbs[g%l.dbs], tabs[g%l.dbs]
			rnd := rand.New(rand.NewPCG(uint64(g), 1))
			var mine []sight
			defer func() {
				mu.Lock()
				sights = append(sights, mine...)
				mu.Unlock()
			}()
			for range each {
				seed := rnd.Uint64()
				fn := func(tx *txn.Tx) error {
					if c := tx.LastConflict(); c != nil && (c.Table != "t" || len(c.Key) != 8) {
						return fmt.Errorf("a conflict that names neither table nor key: %w", c)
					}
					rnd := rand.New(rand.NewPCG(seed, 2)) // the same in every run
					wrote := make(map[int]bool)
					pick := func() int { return rnd.IntN(l.keys) }
					for op := range 1 + rnd.IntN(5) {
						k := pick()
						var err error
						switch rnd.IntN(8) {
						case 0, 1:
							var v []byte
							v, err = tx.Get(tab, u64(k))
							if !wrote[k] && (err == nil || errors.Is(err, txn.ErrNotFound)) {
								s := sight{tx.ID(), k, string(v)}
								if err != nil {
									s.value = absent
								}
								mine = append(mine, s)
							}
						case 2:
							_, err = tx.GetForUpdate(tab, u64(k))
						case 3:
							err = tx.Fetch(txn.ForUpdate(tab, u64(k)), txn.ForRead(tab, u64(pick())), txn.ForInsert(tab, u64(pick())), txn.ForUpdate(tab, u64(pick())))
						case 4, 5:
							if err = tx.Put(tab, u64(k), written(tx.ID(), k, op)); err == nil {
								wrote[k] = true
							}
						case 6:
							if err = tx.Insert(tab, u64(k), written(tx.ID(), k, op)); err == nil {
								wrote[k] = true
							}
						case 7:
							if err = tx.Delete(tab, u64(k)); err == nil {
								wrote[k] = true
							}
						}
						if err != nil && !errors.Is(err, txn.ErrNotFound) && !errors.Is(err, txn.ErrExists) {
							return err
						}
					}
					return nil
				}
				var id txn.ID
				err := db.Update(context.Background(), func(tx *txn.Tx) error { id = tx.ID(); return fn(tx) })
				if (errors.Is(err, txn.ErrCommitUnknown) || errors.Is(err, txn.ErrUnavailable)) && l.cuts > 0 {
					mu.Lock()
					fates[id] = db // the QP broke in every repair: it may not even be undone
					mu.Unlock()
					continue
				}
				if err != nil && !(errors.Is(err, txn.ErrFull) && l.keys > l.capacity) && !(l.cuts > 0 && errors.Is(err, txn.ErrUnavailable)) {
					t.Errorf("%v", err)
					return
				}
			}
		})
	}
	for g := range 2 { // readers
		wg.Go(func() {
			db, tab := dbs[g%l.dbs], tabs[g%l.dbs]
			rnd := rand.New(rand.NewPCG(uint64(g), 3))
			for range each {
				n := 1 + rnd.IntN(3)
				keys := rnd.Perm(l.keys)[:min(n, l.keys)]
				err := db.View(context.Background(), func(tx *txn.Tx) error {
					for _, k := range keys {
						if _, err := tx.Get(tab, u64(k)); err != nil && !errors.Is(err, txn.ErrNotFound) {
							return err
						}
					}
					return nil
				})
				if err != nil && !(l.cuts > 0 && errors.Is(err, txn.ErrUnavailable)) {
					t.Errorf("view: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	w.script.set(nil)
	attempts := rec.take()
	for i := range attempts {
		a := &attempts[i]
		if fates[a.ID] == nil {
			continue
		}
		switch o, err := fates[a.ID].Resolve(context.Background(), a.ID); {
		case errors.Is(err, txn.ErrNotFound) && a.Outcome == txn.Aborted: // it was undone at once
		case err == nil && (o == txn.Aborted || a.Outcome == txn.Unknown):
			a.Outcome, a.End = o, dbs[0].Runtime().Now()
		default:
			t.Errorf("resolve %v, which was %v: %v, %v", a.ID, a.Outcome, o, err)
		}
	}
	for _, db := range dbs[1:] { // makes good what their last transactions could not release
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	serializable(t, attempts)

	// The versions of a key only grow, and each value is the one that its version's writer wrote.
	type version struct {
		key string
		v   uint64
	}
	writer := make(map[version]*txn.Attempt)
	last := make(map[string]*txn.Write)
	byID := make(map[txn.ID]*txn.Attempt)
	committed := 0
	for i := range attempts {
		a := &attempts[i]
		if byID[a.ID] != nil {
			t.Errorf("two attempts are %v", a.ID)
		}
		byID[a.ID] = a
		switch a.Outcome {
		case txn.Aborted, txn.Unknown:
			continue
		case txn.Committed:
			committed++
		}
		for j := range a.Writes {
			x := &a.Writes[j]
			if x.Version <= x.Prev {
				t.Errorf("%v replaces version %d of key %x by %d", a.ID, x.Prev, x.Key, x.Version)
			}
			if o := writer[version{string(x.Key), x.Version}]; o != nil {
				t.Errorf("%v and %v both wrote version %d of key %x", a.ID, o.ID, x.Version, x.Key)
			}
			writer[version{string(x.Key), x.Version}] = a
			if l := last[string(x.Key)]; l == nil || l.Version < x.Version {
				last[string(x.Key)] = x
			}
		}
	}
	for _, s := range sights {
		a := byID[s.id]
		if a == nil || a.Outcome != txn.Committed {
			continue
		}
		i := slices.IndexFunc(a.Reads, func(r txn.Read) bool { return string(r.Key) == string(u64(s.key)) })
		if i < 0 {
			t.Errorf("%v has read key %d, which its record does not tell", s.id, s.key)
			continue
		}
		want := absent
		if v := a.Reads[i].Version; v != 0 {
			o := writer[version{string(u64(s.key)), v}]
			if o == nil {
				t.Errorf("%v has read version %d of key %d, which nobody wrote", s.id, v, s.key)
				continue
			}
			want = fmt.Sprintf("%v key %d #", o.ID, s.key)
		}
		if len(s.value) < len(want) || s.value[:len(want)] != want {
			t.Errorf("%v has read %q under key %d, want a value of %s", s.id, s.value, s.key, want)
		}
	}

	if r, err := dbs[0].Check(context.Background()); err != nil || !r.OK() {
		t.Fatalf("check: %v, %v", r, err)
	}

	// What is left is what was written last.
	left := 0
	for k := range l.keys {
		want := absent
		if x := last[string(u64(k))]; x != nil && !x.Delete {
			left++
			want = fmt.Sprintf("%v key %d #", writer[version{string(u64(k)), x.Version}].ID, k)
		}
		if got := read(t, dbs[0], tabs[0], u64(k)); len(got) < len(want) || got[:len(want)] != want {
			t.Errorf("in the end key %d is %q, want a value of %s", k, got, want)
		}
	}
	w.sound(dbs[0], map[string]int{"t": left})
	// A log entry is marked aborted if its transaction was, and only then: recovery
	// believes it.
	w.logs(func(where string, e layout.LogEntry) {
		if a := byID[txn.ID(e.Token)]; a != nil && (a.Outcome == txn.Aborted) != (e.State == layout.LogAborted) {
			t.Errorf("%s: the log entry of %v is %v, its outcome was %v", where, a.ID, e.State, a.Outcome)
		}
	})
	var st txn.Stats
	for _, db := range dbs {
		s := db.Stats()
		st.Committed += s.Committed
		for r := range s.Aborted {
			st.Aborted[r] += s.Aborted[r]
		}
		st.Cancelled += s.Cancelled
	}
	t.Logf("%d attempts, %d committed, aborted %v, cancelled %d, unknown %d", len(attempts), committed, st.Aborted, st.Cancelled, len(fates))
}

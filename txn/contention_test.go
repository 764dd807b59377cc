package txn_test

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"fjord/lock"
	"fjord/txn"
)

// contend lets many workers increment one counter, each holding its lock for a
// moment, and returns what that took.
func contend(t *testing.T, s lock.Strategy, workers, each int) txn.Stats {
	t.Helper()
	w := newWorld(t, shape(1, 1))
	db := w.open(func(o *txn.Options) { o.Lock = s })
	tab := newTable(t, db, "t", 8, 8, 1)
	put(t, db, tab, u64(1), string(u64(0)))
	before := db.Stats()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				err := db.Update(context.Background(), func(tx *txn.Tx) error {
					v, err := tx.GetForUpdate(tab, u64(1))
					if err != nil {
						return err
					}
					for range 3 {
						runtime.Gosched()
					}
					return tx.Put(tab, u64(1), increment(v))
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := read(t, db, tab, u64(1)); got != string(u64(workers*each)) {
		t.Errorf("%s: the counter is %x after %d increments", s.Name(), got, workers*each)
	}
	w.sound(db, map[string]int{"t": 1})
	return db.Stats().Sub(before)
}

// A contended counter counts every increment, whatever the strategy, and cas asks
// for its lock once in each attempt.
func TestContendedCounter(t *testing.T) {
	const workers, each = 6, 200
	for _, name := range lock.Names() {
		t.Run(name, func(t *testing.T) {
			s, err := lock.ByName(name)
			if err != nil {
				t.Fatal(err)
			}
			st := contend(t, s, workers, each)
			attempts := st.Committed + st.Aborted[txn.ReasonLocked]
			if name == "cas" && st.Verbs.CAS > attempts {
				t.Errorf("%d CASes in %d attempts, want one in each", st.Verbs.CAS, attempts)
			}
		})
	}
}

// Where cas gives up at a lock that is held, backoff tries again in place.
func TestBackoffRetriesInPlace(t *testing.T) {
	for _, c := range []struct {
		s    lock.Strategy
		want uint64
	}{{lock.CAS{}, 1}, {lock.DefaultBackoff(), uint64(lock.DefaultBackoff().Tries)}} {
		w := newWorld(t, shape(1, 1))
		db, other := w.open(func(o *txn.Options) { o.Lock = c.s }), w.open()
		tab, tab2 := newTable(t, db, "t", 8, 8, 10), newTable(t, other, "t", 8, 8, 10)
		put(t, db, tab, u64(1), "x")
		holder := begin(t, other)
		if _, err := holder.GetForUpdate(tab2, u64(1)); err != nil {
			t.Fatal(err)
		}
		before := db.Stats()
		tx := begin(t, db)
		_, err := tx.GetForUpdate(tab, u64(1))
		wantErr(t, err, txn.ErrConflict, "locked")
		if err := tx.Abort(); err != nil {
			t.Error(err)
		}
		if err := holder.Abort(); err != nil {
			t.Error(err)
		}
		if got := db.Stats().Sub(before).Verbs.CAS; got != c.want {
			t.Errorf("%s tried %d times, want %d", c.s.Name(), got, c.want)
		}
	}
}

// watch is a strategy that tells what it was asked.
type watch struct {
	mu    sync.Mutex
	asked []lock.Busy
	tries int
}

func (s *watch) Name() string { return "watch" }

func (s *watch) Busy(b lock.Busy) (int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, b)
	return 1000, b.Tries < s.tries
}

// A strategy is asked with the holder's token and how often it was tried before,
// and what it decides is done.
func TestStrategyIsAsked(t *testing.T) {
	w := newWorld(t, shape(1, 1))
	s := &watch{tries: 4}
	db, other := w.open(func(o *txn.Options) { o.Lock = s }), w.open()
	tab, tab2 := newTable(t, db, "t", 8, 8, 10), newTable(t, other, "t", 8, 8, 10)
	put(t, db, tab, u64(1), "x")
	h := begin(t, other)
	if _, err := h.GetForUpdate(tab2, u64(1)); err != nil {
		t.Fatal(err)
	}
	l := begin(t, db)
	_, err := l.GetForUpdate(tab, u64(1))
	wantErr(t, err, txn.ErrConflict, "locked")
	if len(s.asked) != 4 {
		t.Fatalf("asked %d times, want 4: %v", len(s.asked), s.asked)
	}
	for i, b := range s.asked {
		if b.Holder != h.ID() || b.Tries != i+1 {
			t.Errorf("try %d: asked about %v, try %d; want the holder %v", i+1, b.Holder, b.Tries, h.ID())
		}
	}
	if err := l.Abort(); err != nil {
		t.Error(err)
	}
	if err := h.Abort(); err != nil {
		t.Error(err)
	}

	// A lock that is freed while it is waited for is taken.
	h, l = begin(t, other), begin(t, db)
	if _, err := h.GetForUpdate(tab2, u64(1)); err != nil {
		t.Fatal(err)
	}
	s.asked, s.tries = nil, 1<<30
	done := make(chan error)
	go func() { _, err := l.GetForUpdate(tab, u64(1)); done <- err }()
	for {
		s.mu.Lock()
		n := len(s.asked)
		s.mu.Unlock()
		if n > 3 {
			break
		}
		runtime.Gosched()
	}
	if err := h.Abort(); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Errorf("after the holder is gone: %v", err)
	}
	if err := l.Commit(context.Background()); err != nil {
		t.Error(err)
	}
	w.sound(db, map[string]int{"t": 1})
}

package txn_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"fjord/txn"
)

// Stats count attempts by how they ended, and keys by how they were found.
func TestStats(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db, other := w.open(), w.open()
	ctx := context.Background()
	tab, tab2 := newTable(t, db, "t", 8, 16, 64), newTable(t, other, "t", 8, 16, 64)
	put(t, db, tab, u64(1), "one")
	put(t, db, tab, u64(2), "two")
	get := func(k int) func(tx *txn.Tx) error {
		return func(tx *txn.Tx) error { _, err := tx.Get(tab, u64(k)); return err }
	}
	for _, c := range []struct {
		name string
		act  func()
		want txn.Stats
	}{
		{"nothing", func() {}, txn.Stats{}},
		{"a View", func() { _ = db.View(ctx, get(1)) }, txn.Stats{Committed: 1, ReadOnly: 1, Hits: 1}},
		{"an Update that only reads", func() { _ = db.Update(ctx, get(1)) }, txn.Stats{Committed: 1, ReadOnly: 1, Hits: 1}},
		{"a Put", func() { put(t, db, tab, u64(1), "x") }, txn.Stats{Committed: 1, Hits: 1}},
		{"a key read twice counts once", func() {
			_ = db.View(ctx, func(tx *txn.Tx) error { return errors.Join(get(1)(tx), get(1)(tx)) })
		}, txn.Stats{Committed: 1, ReadOnly: 1, Hits: 1}},
		{"an absent key", func() { _ = db.View(ctx, get(9)) }, txn.Stats{Cancelled: 1, Misses: 1}},
		{"an error", func() { _ = db.Update(ctx, func(*txn.Tx) error { return errMine }) }, txn.Stats{Cancelled: 1}},
		{"an ended context", func() { _ = db.Update(canceled(), get(1)) }, txn.Stats{}},
		{"an Abort", func() { _ = begin(t, db).Abort() }, txn.Stats{Cancelled: 1}},
		{"a panic", func() {
			defer func() { _ = recover() }()
			_ = db.Update(ctx, func(*txn.Tx) error { panic("x") })
		}, txn.Stats{Cancelled: 1}},
		{"locked", func() {
			h, l := begin(t, other), begin(t, db)
			_, _ = h.GetForUpdate(tab2, u64(1))
			_, _ = l.GetForUpdate(tab, u64(1))
			_, _ = l.Commit(ctx), h.Abort()
		}, txn.Stats{Aborted: [txn.NumReasons]uint64{txn.ReasonLocked: 1}}},
		{"version", func() {
			l := begin(t, db)
			_, _ = l.Get(tab, u64(1))
			put(t, other, tab2, u64(1), "y")
			_ = l.Put(tab, u64(2), nil)
			_ = l.Commit(ctx)
		}, txn.Stats{Aborted: [txn.NumReasons]uint64{txn.ReasonVersion: 1}, Hits: 2}},
		{"insert", func() {
			l := begin(t, db)
			_, _ = l.Get(tab, u64(10))
			put(t, other, tab2, u64(10), "y")
			_ = l.Put(tab, u64(2), nil)
			_ = l.Commit(ctx)
		}, txn.Stats{Aborted: [txn.NumReasons]uint64{txn.ReasonInsert: 1}, Hits: 1, Misses: 1}},
		{"a stale address", func() {
			_ = db.View(ctx, get(1))
			update(t, other, func(tx *txn.Tx) error { return tx.Delete(tab2, u64(1)) })
			_ = db.View(ctx, get(1))
		}, txn.Stats{Committed: 1, ReadOnly: 1, Cancelled: 1, Hits: 1, Misses: 1, Stale: 1}},
	} {
		t.Run(name(c.name), func(t *testing.T) {
			before := db.Stats()
			c.act()
			got := db.Stats().Sub(before)
			got.Verbs = txn.Stats{}.Verbs
			if got != c.want {
				t.Errorf("counted %+v, want %+v", got, c.want)
			}
		})
	}
}

// Stats may be read at any time, by anybody; totals never shrink, and are exact
// once all is quiet.
func TestStatsWhileRunning(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	db := w.open()
	ctx := context.Background()
	tab := newTable(t, db, "t", 8, 16, 64)
	begun := db.Stats()
	stop := make(chan struct{})
	var watchers, workers sync.WaitGroup
	for range 2 {
		watchers.Go(func() {
			var last txn.Stats
			for {
				s := db.Stats()
				if s.Committed < last.Committed || s.Verbs.Doorbells < last.Verbs.Doorbells {
					t.Errorf("Stats went back from %+v to %+v", last, s)
				}
				last = s
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	const each = 300
	for g := range 6 {
		workers.Go(func() {
			for range each {
				if err := db.Update(ctx, func(tx *txn.Tx) error { return tx.Put(tab, u64(g), []byte("x")) }); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	workers.Wait()
	close(stop)
	watchers.Wait()
	if n := db.Stats().Sub(begun).Committed; n != 6*each {
		t.Errorf("%d transactions committed, Stats count %d", 6*each, n)
	}
}

// What Prometheus scrapes is what Stats says, under names that its linter accepts.
func TestMetrics(t *testing.T) {
	w := newWorld(t, shape(3, 3))
	reg := prometheus.NewPedanticRegistry()
	db := w.open(func(o *txn.Options) { o.Registerer = reg })
	ctx := context.Background()
	tab := newTable(t, db, "t", 8, 16, 64)
	for k := range 10 {
		put(t, db, tab, u64(k), "x")
		read(t, db, tab, u64(k+5))
	}
	h, l := begin(t, db), begin(t, db)
	_, _ = h.GetForUpdate(tab, u64(1))
	_, _ = l.GetForUpdate(tab, u64(1))
	_, _ = l.Commit(ctx), h.Abort()

	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	s := db.Stats()
	if s.Aborted[txn.ReasonLocked] != 1 || s.Cancelled == 0 || s.Hits == 0 || s.Misses == 0 {
		t.Fatalf("the load has not covered every metric: %+v", s)
	}
	want := fmt.Sprintf(`
		# HELP fjord_transaction_attempts_total Attempts of transactions, by how they ended.
		# TYPE fjord_transaction_attempts_total counter
		fjord_transaction_attempts_total{outcome="commit",reason=""} %d
		fjord_transaction_attempts_total{outcome="abort",reason="locked"} %d
		fjord_transaction_attempts_total{outcome="abort",reason="version"} %d
		fjord_transaction_attempts_total{outcome="abort",reason="pending"} %d
		fjord_transaction_attempts_total{outcome="abort",reason="insert"} %d
		fjord_transaction_attempts_total{outcome="abort",reason="cancelled"} %d
		fjord_transaction_attempts_total{outcome="unknown",reason=""} %d
		# HELP fjord_lookups_total Keys looked up, by whether their cached address was right.
		# TYPE fjord_lookups_total counter
		fjord_lookups_total{result="hit"} %d
		fjord_lookups_total{result="miss"} %d
		fjord_lookups_total{result="stale"} %d
		# HELP fjord_verbs_total Work requests posted.
		# TYPE fjord_verbs_total counter
		fjord_verbs_total{opcode="read"} %d
		fjord_verbs_total{opcode="write"} %d
		fjord_verbs_total{opcode="cas"} %d
		fjord_verbs_total{opcode="faa"} %d
		# HELP fjord_doorbells_total Doorbells rung: PostSend calls.
		# TYPE fjord_doorbells_total counter
		fjord_doorbells_total %d
		# HELP fjord_round_trips_total Waits for the completions of a batch.
		# TYPE fjord_round_trips_total counter
		fjord_round_trips_total %d
		# HELP fjord_verb_bytes_total Payload of work requests.
		# TYPE fjord_verb_bytes_total counter
		fjord_verb_bytes_total{direction="out"} %d
		fjord_verb_bytes_total{direction="in"} %d
		`, s.Committed, s.Aborted[txn.ReasonLocked], s.Aborted[txn.ReasonVersion], s.Aborted[txn.ReasonPending], s.Aborted[txn.ReasonInsert],
		s.Cancelled, s.Unknown, s.Hits, s.Misses-s.Stale, s.Stale, s.Verbs.Read, s.Verbs.Write, s.Verbs.CAS, s.Verbs.FAA,
		s.Verbs.Doorbells, s.Verbs.RoundTrips, s.Verbs.BytesOut, s.Verbs.BytesIn)
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// Enums say what they are, also when they are none.
func TestNamesOfOutcomesAndReasons(t *testing.T) {
	for got, want := range map[string]string{
		txn.Committed.String(): "commit", txn.Aborted.String(): "abort", txn.Unknown.String(): "unknown", txn.Outcome(9).String(): "Outcome(9)",
		txn.ReasonLocked.String(): "locked", txn.ReasonVersion.String(): "version", txn.ReasonPending.String(): "pending",
		txn.ReasonInsert.String(): "insert", txn.Reason(77).String(): "Reason(77)", txn.Reason(txn.NumReasons).String(): fmt.Sprintf("Reason(%d)", txn.NumReasons),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

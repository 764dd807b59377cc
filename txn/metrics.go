package txn

import "github.com/prometheus/client_golang/prometheus"

// collector shows a DB's Stats to Prometheus. It costs nothing until scraped.
type collector struct {
	db *DB

	attempts, lookups, verbs, doorbells, trips, bytes *prometheus.Desc
}

func newCollector(db *DB) *collector {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("fjord_"+name, help, labels, nil)
	}
	return &collector{db: db,
		attempts:  d("transaction_attempts_total", "Attempts of transactions, by how they ended.", "outcome", "reason"),
		lookups:   d("lookups_total", "Keys looked up, by whether their cached address was right.", "result"),
		verbs:     d("verbs_total", "Work requests posted.", "opcode"),
		doorbells: d("doorbells_total", "Doorbells rung: PostSend calls."),
		trips:     d("round_trips_total", "Waits for the completions of a batch."),
		bytes:     d("verb_bytes_total", "Payload of work requests.", "direction"),
	}
}

// Describe lists the metrics.
func (c *collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect reads a snapshot.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := c.db.Stats()
	put := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	put(c.attempts, s.Committed, "commit", "")
	for r := range NumReasons {
		put(c.attempts, s.Aborted[r], "abort", Reason(r).String())
	}
	put(c.attempts, s.Cancelled, "abort", "cancelled")
	put(c.attempts, s.Unknown, "unknown", "")
	put(c.lookups, s.Hits, "hit")
	put(c.lookups, s.Misses-s.Stale, "miss")
	put(c.lookups, s.Stale, "stale")
	put(c.verbs, s.Verbs.Read, "read")
	put(c.verbs, s.Verbs.Write, "write")
	put(c.verbs, s.Verbs.CAS, "cas")
	put(c.verbs, s.Verbs.FAA, "faa")
	put(c.doorbells, s.Verbs.Doorbells)
	put(c.trips, s.Verbs.RoundTrips)
	put(c.bytes, s.Verbs.BytesOut, "out")
	put(c.bytes, s.Verbs.BytesIn, "in")
}

package bench

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histograms go from 1 ns to 1 h. One of three significant digits takes 270 KiB,
// one of two 35 KiB; there is one for every worker and transaction type.
const (
	latencyMax      = int64(time.Hour)
	latencyDigits   = 3
	fewDigits       = 2
	fewDigitsBeyond = 256 // workers
)

// digits returns the significant digits of the histograms of that many workers.
func digits(workers int) int {
	if workers > fewDigitsBeyond {
		return fewDigits
	}
	return latencyDigits
}

// latencies is a histogram of latencies in nanoseconds with its exact sum and
// maximum.
type latencies struct {
	hist *hdrhistogram.Histogram
	sum  int64
	max  int64
}

func newLatencies(digits int) latencies {
	return latencies{hist: hdrhistogram.New(1, latencyMax, digits)}
}

// record adds one latency. It does not allocate.
func (l *latencies) record(ns int64) {
	ns = max(ns, 0)
	l.sum += ns
	l.max = max(l.max, ns)
	_ = l.hist.RecordValue(min(ns, latencyMax)) // within the range, so it cannot fail
}

// merge adds all of o.
func (l *latencies) merge(o *latencies) {
	l.hist.Merge(o.hist) // of one range, so nothing is dropped
	l.sum += o.sum
	l.max = max(l.max, o.max)
}

// Latency summarizes latencies in microseconds. All are 0 if there were none.
type Latency struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

func (l *latencies) summary() Latency {
	n := l.hist.TotalCount()
	if n == 0 {
		return Latency{}
	}
	// A histogram answers with the upper end of a bucket, which may lie above the
	// maximum.
	at := func(quantile float64) float64 { return micros(min(l.hist.ValueAtQuantile(quantile), l.max)) }
	return Latency{
		Mean: micros(l.sum) / float64(n),
		P50:  at(50), P90: at(90), P99: at(99), P999: at(99.9),
		Max: micros(l.max),
	}
}

func micros(ns int64) float64 { return float64(ns) / 1e3 }

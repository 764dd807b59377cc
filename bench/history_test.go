package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"fjord/internal/serial"
	"fjord/txn"
)

// memFile is a file in memory that may fail.
type memFile struct {
	bytes.Buffer
	failAfter int // bytes; 0: never
	closed    int
}

var errDisk = errors.New("disk full")

func (m *memFile) Write(b []byte) (int, error) {
	if m.failAfter > 0 && m.Len()+len(b) > m.failAfter {
		return 0, errDisk
	}
	return m.Buffer.Write(b)
}

func (m *memFile) Close() error { m.closed++; return nil }

func TestHistoryLine(t *testing.T) {
	for _, c := range []struct {
		a    txn.Attempt
		want string
	}{
		{
			txn.Attempt{ID: 1<<64 - 1, Session: 3, Label: "SendPayment", Begin: 5, End: 17, Outcome: txn.Committed,
				Reads:  []txn.Read{{Table: "checking", Key: []byte{0, 0xab}, Version: 4}, {Table: "savings", Key: []byte{1}}},
				Writes: []txn.Write{{Table: "checking", Key: []byte{0, 0xab}, Prev: 4, Version: 9}, {Table: "savings", Key: []byte{1}, Prev: 2, Version: 9, Delete: true}}},
			`{"id":"18446744073709551615","session":3,"type":"SendPayment","begin_ns":5,"end_ns":17,"outcome":"commit","reason":"",` +
				`"reads":[{"t":"checking","k":"00ab","v":4},{"t":"savings","k":"01","v":0}],` +
				`"writes":[{"t":"checking","k":"00ab","prev":4,"v":9,"del":false},{"t":"savings","k":"01","prev":2,"v":9,"del":true}]}`,
		},
		{
			txn.Attempt{ID: 1, Begin: -1, Outcome: txn.Aborted, Reason: "a \"b\"\n\\ é"},
			`{"id":"1","session":0,"type":"","begin_ns":-1,"end_ns":0,"outcome":"abort","reason":"a \"b\"\n\\ é","reads":[],"writes":[]}`,
		},
		{
			txn.Attempt{ID: 2, Outcome: txn.Unknown, Reason: "unknown"},
			`{"id":"2","session":0,"type":"","begin_ns":0,"end_ns":0,"outcome":"unknown","reason":"unknown","reads":[],"writes":[]}`,
		},
	} {
		got := string(appendAttempt(nil, &c.a))
		if got != c.want+"\n" {
			t.Errorf("got  %swant %s", got, c.want)
		}
		if !json.Valid([]byte(got)) {
			t.Errorf("not JSON: %s", got)
		}
	}
}

func TestHistoryOfManySessions(t *testing.T) {
	const sessions, each = 70, 1000 // more sessions than shards, and more lines than a chunk holds
	file := &memFile{}
	h := NewHistory(file)
	h.Record(&txn.Attempt{ID: 7}) // before the start: the load
	h.start(header{Benchmark: "toy", Seed: 42, Config: map[string]any{"accounts": 8}})
	var wg sync.WaitGroup
	for s := range uint32(sessions) {
		wg.Go(func() {
			for i := range int64(each) {
				h.Record(&txn.Attempt{ID: txn.ID(uint64(s)<<32 | uint64(i) + 1), Session: s, Label: "t", Begin: 2 * i, End: 2*i + 1, Outcome: txn.Aborted,
					Reads: []txn.Read{{Table: "t", Key: []byte{byte(s)}, Version: 1}}})
			}
		})
	}
	wg.Wait()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	h.Record(&txn.Attempt{ID: 8}) // after the end
	if err := h.Close(); err != nil || file.closed != 1 {
		t.Errorf("closing again: %v, closed %d times", err, file.closed)
	}
	if h.Attempts() != sessions*each {
		t.Errorf("%d attempts, want %d", h.Attempts(), sessions*each)
	}
	got, err := serial.ReadJSONL(&file.Buffer)
	if err != nil {
		t.Fatal(err)
	}
	if got.Header["format"] != "fjord-history/1" || got.Header["benchmark"] != "toy" || got.Header["seed"] != 42.0 {
		t.Errorf("header is %v", got.Header)
	}
	if len(got.Attempts) != sessions*each {
		t.Errorf("%d attempts read, want %d", len(got.Attempts), sessions*each)
	}
	if v := serial.Check(got, serial.Options{}); !v.OK {
		t.Error(v.String())
	}
}

func TestHistoryReportsErrors(t *testing.T) {
	h := NewHistory(&memFile{failAfter: 2000})
	h.start(header{})
	for i := range 5000 {
		h.Record(&txn.Attempt{ID: txn.ID(i)})
	}
	if err := h.Err(); !errors.Is(err, errDisk) {
		t.Errorf("error is %v", err)
	}
	if err := h.Close(); !errors.Is(err, errDisk) || !strings.Contains(err.Error(), "history") {
		t.Errorf("closing says %v", err)
	}
}

func TestHistoryDoesNotAllocate(t *testing.T) {
	h := NewHistory(discard{})
	h.start(header{})
	a := typicalAttempt()
	h.Record(a)
	if n := testing.AllocsPerRun(5000, func() { h.Record(a) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// discard is a file that keeps nothing.
type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) Close() error                { return nil }

func typicalAttempt() *txn.Attempt {
	key := make([]byte, 8)
	return &txn.Attempt{ID: 1 << 50, Session: 1, Label: "SendPayment", Begin: 1e9, End: 1e9 + 1000, Outcome: txn.Committed,
		Reads:  []txn.Read{{Table: "checking", Key: key, Version: 1000}, {Table: "checking", Key: key, Version: 1000}},
		Writes: []txn.Write{{Table: "checking", Key: key, Prev: 1000, Version: 1001}, {Table: "checking", Key: key, Prev: 1000, Version: 1001}}}
}

func BenchmarkHistory(b *testing.B) {
	h := NewHistory(discard{})
	h.start(header{})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		a := typicalAttempt()
		for pb.Next() {
			h.Record(a)
		}
	})
}

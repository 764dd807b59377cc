package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"

	"fjord/internal/serial"
	"fjord/txn"
)

const (
	// historyShards keeps sessions out of each other's way: a session runs one
	// attempt at a time, so up to this many sessions never wait for a shard.
	historyShards = 64
	// historyChunk is how much a shard collects before it writes.
	historyChunk = 256 << 10
)

// History is a txn.Recorder that writes attempts as JSON Lines, in the format
// fjord-history/1 of the design. Lines of one session are in order, those of
// different sessions are not. It records nothing before start and after Close.
type History struct {
	on       atomic.Bool
	attempts atomic.Uint64 // written lines, counted when their chunk is
	shards   [historyShards]historyShard

	mu  sync.Mutex
	w   io.WriteCloser // nil: closed
	err error          // the first error of writing
}

type historyShard struct {
	mu  sync.Mutex
	buf []byte
	n   uint64 // lines in buf
	_   [64]byte
}

// NewHistory returns a History that writes to w, and closes it at the end.
func NewHistory(w io.WriteCloser) *History { return &History{w: w} }

// header is the first line, less what is the same for all.
type header struct {
	Benchmark string
	Seed      uint64
	Virtual   bool
	Build     Build
	Config    map[string]any
}

// start writes the header and begins to record.
func (h *History) start(d header) {
	clock := "monotonic nanoseconds of one process"
	if d.Virtual {
		clock = "virtual nanoseconds"
	}
	b, err := json.Marshal(struct {
		Format    string         `json:"format"`
		Benchmark string         `json:"benchmark"`
		Seed      uint64         `json:"seed"`
		Clock     string         `json:"clock"`
		Load      string         `json:"load"`
		Build     Build          `json:"build"`
		Config    map[string]any `json:"config"`
	}{
		serial.Format, d.Benchmark, d.Seed, clock,
		"not recorded: the first version of a key that is read, or that is replaced (prev), was there before the first attempt",
		d.Build, d.Config,
	})
	h.write(append(b, '\n'), 0)
	if err != nil {
		h.fail(err)
	}
	h.on.Store(true)
}

// Record writes one attempt.
func (h *History) Record(a *txn.Attempt) {
	if !h.on.Load() {
		return
	}
	s := &h.shards[a.Session%historyShards]
	s.mu.Lock()
	if s.buf == nil {
		s.buf = make([]byte, 0, historyChunk+4096)
	}
	s.buf = appendAttempt(s.buf, a)
	if s.n++; len(s.buf) >= historyChunk {
		h.flush(s)
	}
	s.mu.Unlock()
}

// flush writes what s has collected; s is locked.
func (h *History) flush(s *historyShard) {
	h.write(s.buf, s.n)
	s.buf, s.n = s.buf[:0], 0
}

func (h *History) write(b []byte, lines uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.w == nil || h.err != nil {
		return
	}
	if _, err := h.w.Write(b); err != nil {
		h.err = fmt.Errorf("writing the history: %w", err)
		return
	}
	h.attempts.Add(lines)
}

func (h *History) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.err = err
	}
}

// Err returns the first error of writing.
func (h *History) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// Attempts returns how many attempts were written; after Close, of all.
func (h *History) Attempts() uint64 { return h.attempts.Load() }

// Close ends the recording and the file, and returns the first error of writing.
func (h *History) Close() error {
	h.on.Store(false)
	for i := range h.shards {
		s := &h.shards[i]
		s.mu.Lock()
		h.flush(s)
		s.mu.Unlock()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.w != nil {
		if err := h.w.Close(); err != nil && h.err == nil {
			h.err = fmt.Errorf("closing the history: %w", err)
		}
		h.w = nil
	}
	return h.err
}

// appendAttempt appends the line of a.
func appendAttempt(b []byte, a *txn.Attempt) []byte {
	// Ids are 64 bits, more than a JSON number can be trusted with.
	b = append(b, `{"id":"`...)
	b = strconv.AppendUint(b, uint64(a.ID), 10)
	b = append(b, `","session":`...)
	b = strconv.AppendUint(b, uint64(a.Session), 10)
	b = append(b, `,"type":`...)
	b = appendString(b, a.Label)
	b = append(b, `,"begin_ns":`...)
	b = strconv.AppendInt(b, a.Begin, 10)
	b = append(b, `,"end_ns":`...)
	b = strconv.AppendInt(b, a.End, 10)
	b = append(b, `,"outcome":"`...)
	b = append(b, a.Outcome.String()...)
	b = append(b, `","reason":`...)
	b = appendString(b, a.Reason)
	b = append(b, `,"reads":[`...)
	for i := range a.Reads {
		r := &a.Reads[i]
		b = appendKey(b, i, r.Table, r.Key)
		b = append(b, `,"v":`...)
		b = strconv.AppendUint(b, r.Version, 10)
		b = append(b, '}')
	}
	b = append(b, `],"writes":[`...)
	for i := range a.Writes {
		w := &a.Writes[i]
		b = appendKey(b, i, w.Table, w.Key)
		b = append(b, `,"prev":`...)
		b = strconv.AppendUint(b, w.Prev, 10)
		b = append(b, `,"v":`...)
		b = strconv.AppendUint(b, w.Version, 10)
		b = append(b, `,"del":`...)
		b = strconv.AppendBool(b, w.Delete)
		b = append(b, '}')
	}
	return append(b, "]}\n"...)
}

// appendKey appends the beginning of the i-th read or write.
func appendKey(b []byte, i int, table string, key []byte) []byte {
	const digits = "0123456789abcdef"
	if i > 0 {
		b = append(b, ',')
	}
	b = append(b, `{"t":`...)
	b = appendString(b, table)
	b = append(b, `,"k":"`...)
	for _, c := range key {
		b = append(b, digits[c>>4], digits[c&15])
	}
	return append(b, '"')
}

// appendString appends s as a JSON string.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			q, err := json.Marshal(s)
			if err != nil { // strings always can be
				q = []byte(`""`)
			}
			return append(b, q...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

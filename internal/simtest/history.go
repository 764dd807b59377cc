package simtest

import (
	"encoding/binary"
	"fmt"
	"hash"
	"hash/fnv"
	"math"

	"fjord/internal/serial"
	"fjord/txn"
)

// history is what all coordinators have recorded.
type history struct {
	attempts []serial.Attempt
	index    map[txn.ID]int
	values   map[txn.ID]*values
	hash     hash.Hash64
	ends     map[string]int64 // of sessions
}

func newHistory() *history {
	return &history{index: make(map[txn.ID]int), values: make(map[txn.ID]*values), hash: fnv.New64a(), ends: make(map[string]int64)}
}

// recorder is told of the attempts of one coordinator.
type recorder struct{ life *life }

// Record adds an attempt. Its times become those of the world: coordinators have
// clocks of their own.
func (k recorder) Record(a *txn.Attempt) {
	c := k.life
	r := c.run
	if r.over {
		return // the world ends, and unwinds those that have not
	}
	h := r.history
	now := r.world.Now()
	took := a.End - a.Begin
	if rate := c.clock.Rate; rate != 0 {
		took = took * 1_000_000 / (1_000_000 + rate)
	}
	s := serial.Attempt{ID: a.ID.String(), Session: fmt.Sprint(a.Session), Type: a.Label, Begin: now - took, End: now,
		Outcome: [...]serial.Outcome{txn.Aborted: serial.Abort, txn.Committed: serial.Commit, txn.Unknown: serial.Unknown}[a.Outcome], Reason: a.Reason}
	for _, x := range a.Reads {
		if tableOf(string(x.Key)) != "" && x.Table != "catalog" && x.Table != "outcomes" {
			s.Reads = append(s.Reads, serial.Read{Table: x.Table, Key: string(x.Key), Version: x.Version})
		}
	}
	for _, x := range a.Writes {
		if tableOf(string(x.Key)) != "" && x.Table != "catalog" && x.Table != "outcomes" {
			s.Writes = append(s.Writes, serial.Write{Table: x.Table, Key: string(x.Key), Prev: x.Prev, Version: x.Version, Delete: x.Delete})
		}
	}
	s.Begin = max(s.Begin, h.ends[s.Session]) // clocks of another rate are rounded
	h.ends[s.Session] = now
	r.outcomes[a.Outcome]++
	c.ended(a.ID)
	h.sum(&s)
	r.trace("%d %s: %s %s %s reads %v writes %v", now, c.name, s.ID, s.Type, s.Outcome, s.Reads, s.Writes)
	if a.Outcome == txn.Aborted {
		delete(h.values, a.ID)
	}
	if len(s.Reads)+len(s.Writes) > 0 {
		h.index[a.ID] = len(h.attempts)
		h.attempts = append(h.attempts, s)
	}
}

// unknown tells whether nobody has said so far what became of an attempt.
func (h *history) unknown(id txn.ID) bool {
	i, ok := h.index[id]
	return ok && h.attempts[i].Outcome == serial.Unknown
}

// resolved notes what became of an attempt whose outcome was unknown, or, false, that
// it contradicts what its client was told.
func (h *history) resolved(id txn.ID, o txn.Outcome) bool {
	i, ok := h.index[id]
	if !ok {
		return true
	}
	a := &h.attempts[i]
	switch {
	case a.Outcome != serial.Unknown:
		return (a.Outcome == serial.Commit) == (o == txn.Committed)
	case o == txn.Committed:
		// Its client was never told, so it has no end in time, nor has its session others
		// that wait for it.
		a.Outcome, a.End = serial.Commit, math.MaxInt64>>1
		a.Session += " " + a.ID
	default:
		a.Outcome = serial.Abort
	}
	return true
}

// sum adds an attempt to the hash.
func (h *history) sum(a *serial.Attempt) {
	var b []byte
	num := func(n uint64) { b = binary.LittleEndian.AppendUint64(b, n) }
	b = append(b, a.ID...)
	num(uint64(a.Begin))
	num(uint64(a.End))
	b = append(b, byte(a.Outcome))
	b = append(b, a.Reason...)
	for _, x := range a.Reads {
		b = append(append(b, x.Table...), x.Key...)
		num(x.Version)
	}
	for _, x := range a.Writes {
		b = append(append(b, x.Table...), x.Key...)
		num(x.Prev)
		num(x.Version)
	}
	_, _ = h.hash.Write(b) // never fails
}

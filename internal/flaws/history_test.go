package flaws_test

import (
	"fmt"
	"testing"

	"fjord/internal/serial"
	"fjord/txn"
)

// history collects attempts for the checker. Attempts of a World come one by one.
type history struct{ serial.History }

func (h *history) Record(a *txn.Attempt) {
	s := serial.Attempt{ID: a.ID.String(), Session: fmt.Sprint(a.Session), Type: a.Label, Begin: a.Begin, End: a.End, Reason: a.Reason}
	switch a.Outcome {
	case txn.Committed:
		s.Outcome = serial.Commit
	case txn.Aborted:
		s.Outcome = serial.Abort
	case txn.Unknown:
		s.Outcome = serial.Unknown
	}
	for _, r := range a.Reads {
		s.Reads = append(s.Reads, serial.Read{Table: r.Table, Key: string(r.Key), Version: r.Version})
	}
	for _, w := range a.Writes {
		s.Writes = append(s.Writes, serial.Write{Table: w.Table, Key: string(w.Key), Prev: w.Prev, Version: w.Version, Delete: w.Delete})
	}
	h.Attempts = append(h.Attempts, s)
}

// check wants the history to be strictly serializable.
func (h *history) check(t testing.TB) {
	t.Helper()
	res := serial.Check(&h.History, serial.Options{})
	if res.OK && !res.Undecided {
		return
	}
	for i := range res.Violations {
		t.Log(res.Violations[i].Explain())
	}
	for _, a := range h.Attempts {
		t.Logf("%+v", a)
	}
	t.Fatal(res.String())
}

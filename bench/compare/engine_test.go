package main

import (
	"testing"
	"time"
)

// testSetting is small, so that transactions meet.
var testSetting = setting{name: "test", accounts: 20}

// Every engine, with several goroutines on few accounts, preserves the sum of all balances and loses
// no update.
func TestEnginesConserve(t *testing.T) {
	for _, s := range specs() {
		t.Run(s.name, func(t *testing.T) {
			c := cell{setting: testSetting, ledger: newLedger(testSetting, 1), goroutines: 4, duration: 200 * time.Millisecond}
			if s.maxGoroutines > 0 {
				c.goroutines = min(c.goroutines, s.maxGoroutines)
			}
			m, err := c.measure(s)
			if err != nil {
				t.Fatal(err)
			}
			if m.Committed == 0 || m.RolledBack == 0 {
				t.Errorf("%d committed and %d rolled back, want some of each", m.Committed, m.RolledBack)
			}
		})
	}
}

// One goroutine on any engine comes to the same answers as the ledger in plain memory.
func TestEnginesAgreeWithTheLedger(t *testing.T) {
	for _, s := range specs() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(testSetting, 1)
			e := open(t, s, l)
			w, err := e.worker()
			if err != nil {
				t.Fatal(err)
			}
			g := newGenerator(testSetting, 1, 0)
			var o op
			for i := range 2_000 {
				g.next(&o)
				got, retries, err := w.run(&o)
				if err != nil || retries != 0 {
					t.Fatalf("transaction %d, %v: %d retries, %v", i, o.kind, retries, err)
				}
				delta := o.delta
				if want := l.run(&o); got != want || delta != o.delta {
					t.Fatalf("transaction %d, %v: committed %v by %d, want %v by %d", i, o.kind, got, delta, want, o.delta)
				}
			}
			got, err := e.totals()
			if err != nil {
				t.Fatal(err)
			}
			if want := l.totals(); got != want {
				t.Errorf("the sums are %v, want %v", got, want)
			}
		})
	}
}

// The harness itself must not feed the collector: with an engine that allocates nothing, nothing is.
func TestHarnessAllocatesNothing(t *testing.T) {
	for _, s := range specs() {
		switch s.name {
		case "occ", "occ-array", "floor-1", "floor-3":
			t.Run(s.name, func(t *testing.T) {
				session := newSession(t, open(t, s, newLedger(testSetting, 1)), 0)
				allocs := testing.AllocsPerRun(1000, func() {
					if err := session.one(); err != nil {
						t.Error(err)
					}
				})
				if allocs != 0 {
					t.Errorf("%v allocations per transaction", allocs)
				}
			})
		}
	}
}

func open(t *testing.T, s spec, l ledger) engine {
	t.Helper()
	e, err := s.open(l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func newSession(t *testing.T, e engine, stream uint64) *session {
	t.Helper()
	w, err := e.worker()
	if err != nil {
		t.Fatal(err)
	}
	return &session{gen: newGenerator(testSetting, 1, stream), worker: w}
}

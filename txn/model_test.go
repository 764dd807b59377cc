package txn_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"fjord/txn"
)

// TestModel runs random transactions, one after the other, by two coordinators
// over few buckets with long chains, and compares every answer, and all that is
// left in the end, with a map.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		nodes := rapid.IntRange(1, 4).Draw(rt, "nodes")
		w := newWorld(t, shape(nodes, rapid.IntRange(1, nodes).Draw(rt, "copies")))
		w.device = rapid.SampledFrom([]device{deviceAsIs, deviceAsync, deviceNoInline}).Draw(rt, "device")
		m := &modelRun{w: w, rt: rt, committed: make(map[string]string)}
		w.t = failer{t, m}
		defer w.cluster.Close()
		capacity := rapid.SampledFrom([]int{1, 4, 30}).Draw(rt, "capacity")
		for range 2 {
			db := w.open(func(o *txn.Options) { o.AddressCache = rapid.SampledFrom([]int{8, 1000}).Draw(rt, "cache") })
			defer db.Close()
			m.dbs = append(m.dbs, db)
			m.tabs = append(m.tabs, newTable(w.t, db, "t", 8, 24, capacity))
		}
		m.keys = rapid.IntRange(1, 12+3*capacity).Draw(rt, "keys")
		most := 25
		if raceEnabled {
			most = 5
		}
		for range rapid.IntRange(1, most).Draw(rt, "transactions") {
			m.transaction()
		}
		for k := range m.keys {
			want, ok := m.committed[string(u64(k))]
			if !ok {
				want = absent
			}
			if got := read(w.t, m.dbs[0], m.tabs[0], u64(k)); got != want {
				w.t.Fatalf("in the end key %d is %q, want %q", k, got, want)
			}
		}
		w.sound(m.dbs[1], map[string]int{"t": len(m.committed)})
	})
}

// failer lets helpers that want a testing.TB fail a rapid.T, and tell what was done.
type failer struct {
	testing.TB
	m *modelRun
}

func (f failer) Fatalf(format string, args ...any) {
	f.m.rt.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(f.m.trace, "\n"))
}
func (f failer) Errorf(format string, args ...any) { f.Fatalf(format, args...) }
func (f failer) Fatal(args ...any)                 { f.Fatalf("%s", fmt.Sprint(args...)) }
func (f failer) Error(args ...any)                 { f.Fatalf("%s", fmt.Sprint(args...)) }

type modelRun struct {
	w         *world
	rt        *rapid.T
	dbs       []*txn.DB
	tabs      []*txn.Table
	keys      int
	committed map[string]string
	values    int
	trace     []string // what was done, for a failure
}

func (m *modelRun) note(format string, args ...any) {
	m.trace = append(m.trace, fmt.Sprintf(format, args...))
}

func (m *modelRun) transaction() {
	rt := m.rt
	side := rapid.IntRange(0, 1).Draw(rt, "coordinator")
	db, tab := m.dbs[side], m.tabs[side]
	state := maps.Clone(m.committed)
	ops := rapid.IntRange(0, 12).Draw(rt, "operations")
	readOnly := rapid.IntRange(0, 5).Draw(rt, "view") == 0
	body := func(tx *txn.Tx) error {
		if tx.Attempt() > 1 {
			return fmt.Errorf("a conflict with nobody: %w", tx.LastConflict())
		}
		for range ops {
			if err := m.operation(tx, tab, state, readOnly); err != nil {
				return err
			}
		}
		return nil
	}
	mine := errors.New("mine")
	ctx := context.Background()
	var err error
	full := false
	commit := rapid.IntRange(0, 4).Draw(rt, "commit") > 0
	by := rapid.IntRange(0, 1).Draw(rt, "by hand")
	m.note("coordinator %d, view %v, commit %v, by hand %d:", side, readOnly, commit, by)
	switch {
	case readOnly:
		if err = db.View(ctx, body); err != nil {
			m.w.t.Fatalf("view: %v", err)
		}
	case by == 1:
		tx := begin(m.w.t, db)
		if err = body(tx); err != nil {
			m.w.t.Fatalf("by hand: %v", err)
		}
		if commit {
			err = tx.Commit(ctx)
		} else if err = tx.Abort(); err != nil {
			m.w.t.Fatalf("abort: %v", err)
		}
		full = errors.Is(err, txn.ErrFull)
	default:
		err = db.Update(ctx, func(tx *txn.Tx) error {
			if err := body(tx); err != nil || commit {
				return err
			}
			return mine
		})
		if err == mine {
			err = nil
		}
		full = errors.Is(err, txn.ErrFull)
	}
	if err != nil && !full {
		m.w.t.Fatalf("end of the transaction: %v", err)
	}
	if full && len(m.committed) < tab.Schema().Capacity && len(state) <= tab.Schema().Capacity {
		m.w.t.Fatalf("full with %d records", len(m.committed))
	}
	if commit && !full && !readOnly {
		m.committed = state
	}
}

// operation does one thing to the engine and to the model.
func (m *modelRun) operation(tx *txn.Tx, tab *txn.Table, state map[string]string, readOnly bool) error {
	rt := m.rt
	key := u64(rapid.IntRange(0, m.keys-1).Draw(rt, "key"))
	old, there := state[string(key)]
	check := func(got []byte, err error) error {
		if !there && errors.Is(err, txn.ErrNotFound) || there && err == nil && string(got) == old {
			return nil
		}
		return fmt.Errorf("key %x is %q, %w; want %q, there: %v", key, got, err, old, there)
	}
	expect := func(err, want error) error {
		if !errors.Is(err, want) || err != nil && want == nil {
			return fmt.Errorf("key %x: got %v, want %v", key, err, want)
		}
		return nil
	}
	what := rapid.SampledFrom([]string{"get", "fetch", "put", "insert", "delete", "lock", "put", "insert", "delete"}).Draw(rt, "what")
	if readOnly && what != "fetch" {
		what = "get"
	}
	m.values++
	value := fmt.Sprintf("%*d", m.values%25, m.values)
	value = value[:min(len(value), 24)]
	if what != "fetch" {
		m.note("   %s %d %q", what, key[7], value)
	}
	switch what {
	case "get":
		return check(tx.Get(tab, key))
	case "lock":
		return check(tx.GetForUpdate(tab, key))
	case "put":
		state[string(key)] = value
		return tx.Put(tab, key, []byte(value))
	case "insert":
		if there {
			return expect(tx.Insert(tab, key, []byte(value)), txn.ErrExists)
		}
		state[string(key)] = value
		return expect(tx.Insert(tab, key, []byte(value)), nil)
	case "delete":
		if !there {
			return expect(tx.Delete(tab, key), txn.ErrNotFound)
		}
		delete(state, string(key))
		return expect(tx.Delete(tab, key), nil)
	}
	makers := map[string]func(*txn.Table, []byte) txn.Ref{"read": txn.ForRead, "update": txn.ForUpdate, "insert": txn.ForInsert}
	modes := []string{"read", "update", "insert"}
	if readOnly {
		modes = modes[:1]
	}
	var refs []txn.Ref
	names := ""
	for range rapid.IntRange(1, 20).Draw(rt, "fetched") {
		mode := rapid.SampledFrom(modes).Draw(rt, "mode")
		k := rapid.IntRange(0, m.keys-1).Draw(rt, "fetched key")
		refs = append(refs, makers[mode](tab, u64(k)))
		names += fmt.Sprint(" ", mode, " ", k)
	}
	m.note("   fetch%s", names)
	return tx.Fetch(refs...)
}

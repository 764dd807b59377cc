package txn_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"fjord/coord"
	"fjord/layout"
	"fjord/txn"
	"fjord/verbs"
	"fjord/verbs/mem"
)

// world is a small cluster for tests, and the faults that its coordinators meet.
type world struct {
	t       testing.TB
	cluster *coord.Cluster
	script  script // what happens to the posts of coordinators
	device  device // what they see of their devices
	low     *probe
}

// shape returns the configuration of a cluster that is cheap to start: under the
// race detector its memory comes from the Go heap.
func shape(nodes, replicas int) coord.ClusterConfig {
	return coord.ClusterConfig{MemoryNodes: nodes, Replicas: replicas, NodeMemory: 8 << 20, Coordinators: 4, Sessions: 8, LogSlot: 16 << 10}
}

// roomy is shape for large transactions.
func roomy(nodes, replicas int) coord.ClusterConfig {
	c := shape(nodes, replicas)
	c.LogSlot, c.NodeMemory = 128<<10, 24<<20
	return c
}

// newWorld starts a cluster. It ends with the test.
func newWorld(t testing.TB, cfg coord.ClusterConfig) *world {
	t.Helper()
	w := &world{t: t}
	fabric := mem.NewFabric(nil)
	c, err := coord.NewCluster(cfg, func(name string) (verbs.Device, error) {
		if d := fabric.NewDevice(name); name != "compute" || w.device == deviceLent {
			return d, nil
		} else {
			return &scriptedDevice{d, &w.script, w.device}, nil
		}
	})
	if err != nil {
		t.Fatalf("start a cluster of %+v: %v", cfg, err)
	}
	w.cluster = c
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close the cluster: %v", err)
		}
	})
	return w
}

// open joins the cluster. The DB is closed with the test, and must close well.
func (w *world) open(change ...func(*txn.Options)) *txn.DB {
	w.t.Helper()
	l, err := w.cluster.Layout(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	o := txn.Options{Cluster: w.cluster, Sessions: int(l.Header.Sessions), AddressCache: 1 << 12, SuspectAfter: txn.NoSuspicion}
	for _, f := range change {
		f(&o)
	}
	db, err := txn.Open(context.Background(), o)
	if err != nil {
		w.t.Fatalf("open: %v", err)
	}
	w.t.Cleanup(func() {
		if err := db.Close(); err != nil {
			w.t.Errorf("close: %v", err)
		}
	})
	return db
}

// newDB opens the only DB of a cluster of 3 nodes and 3 copies.
func newDB(t testing.TB, change ...func(*txn.Options)) *txn.DB {
	t.Helper()
	return newWorld(t, shape(3, 3)).open(change...)
}

// newTable makes a table, or finds it.
func newTable(t testing.TB, db *txn.DB, name string, keySize, valueSize, capacity int) *txn.Table {
	t.Helper()
	tab, err := db.CreateTable(context.Background(), txn.Schema{Name: name, KeySize: keySize, ValueSize: valueSize, Capacity: capacity})
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// u64 is the key of number n.
func u64(n int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// update must succeed.
func update(t testing.TB, db *txn.DB, fn func(tx *txn.Tx) error) {
	t.Helper()
	if err := db.Update(context.Background(), fn); err != nil {
		t.Fatalf("update: %v", err)
	}
}

// put writes one record.
func put(t testing.TB, db *txn.DB, tab *txn.Table, key []byte, value string) {
	t.Helper()
	update(t, db, func(tx *txn.Tx) error { return tx.Put(tab, key, []byte(value)) })
}

// absent is what read returns for a key without a record.
const absent = "<absent>"

// read returns a committed value.
func read(t testing.TB, db *txn.DB, tab *txn.Table, key []byte) (value string) {
	t.Helper()
	err := db.View(context.Background(), func(tx *txn.Tx) error {
		v, err := tx.Get(tab, key)
		value = string(v)
		if errors.Is(err, txn.ErrNotFound) {
			value, err = absent, nil
		}
		return err
	})
	if err != nil {
		t.Fatalf("view: %v", err)
	}
	return value
}

// wantErr checks that err is target, and that its text names what it must.
func wantErr(t testing.TB, err, target error, words ...string) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("error is %v, want one that is %v", err, target)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

// sound checks every byte on the memory nodes, after all transactions have ended,
// and that tables hold as many records as told.
func (w *world) sound(db *txn.DB, records map[string]int) {
	w.t.Helper()
	r, err := db.Check(context.Background())
	if err != nil {
		w.t.Fatalf("check: %v", err)
	}
	if !r.OK() {
		w.t.Errorf("check found damage:\n%s", strings.Join(r.Details, "\n"))
	}
	for name, n := range records {
		if r.Records[name] != uint64(n) {
			w.t.Errorf("table %q has %d records, want %d", name, r.Records[name], n)
		}
	}
	w.undoSound()
}

// undoSound checks every undo log entry: old images must be such as some writer
// has sealed for that cell, with the version that the entry says.
func (w *world) undoSound() {
	w.t.Helper()
	w.logs(func(where string, e layout.LogEntry) {
		for i, img := range e.Images {
			c := e.Cell(i)
			if st := layout.Verify(img, c.Addr, len(img)); st == layout.Torn || layout.CellVersion(img) != c.Old {
				w.t.Errorf("%s: undo image of %v in the log of %v is %v with version %v, want a sealed one with version %v",
					where, c.Addr, txn.ID(e.Token), st, layout.CellVersion(img), c.Old)
			}
		}
	})
}

// logs calls fn with every log entry on every node.
func (w *world) logs(fn func(where string, e layout.LogEntry)) {
	w.t.Helper()
	l, err := w.cluster.Layout(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	p := w.probe()
	h := &l.Header
	for node := range l.Nodes {
		for place := range int(h.Coordinators) {
			for session := range int(h.Sessions) {
				for slot := range int(h.LogSlots) {
					where := fmt.Sprintf("node %d, place %d, session %d, log slot %d", node, place, session, slot)
					b := p.read(node, l.Nodes[node].Base+h.LogSlotAt(place, session, slot), int(h.LogSlotSize))
					switch e, err := layout.DecodeLog(b); {
					case errors.Is(err, layout.ErrLogEmpty):
					case err != nil:
						w.t.Errorf("%s: %v", where, err)
					default:
						fn(where, e)
					}
				}
			}
		}
	}
}

// probe is a coordinator below the engine, that reads and writes bytes.
type probe struct {
	t testing.TB
	c *coord.Coordinator
}

func (w *world) probe() *probe {
	w.t.Helper()
	if w.low != nil {
		return w.low
	}
	ctx := context.Background()
	dev, err := w.cluster.NewDevice("probe")
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := coord.Join(ctx, w.cluster, dev, coord.Config{Sessions: 1, Cache: 8})
	if err != nil {
		w.t.Fatalf("join as a probe: %v", err)
	}
	w.t.Cleanup(func() {
		_ = c.Close(ctx)
		_ = dev.Close()
	})
	w.low = &probe{w.t, c}
	return w.low
}

// read returns n bytes, a multiple of 8.
func (p *probe) read(node int, va uint64, n int) (out []byte) {
	p.t.Helper()
	p.do(n, func(s *coord.Session, b coord.Buf) { s.Read(node, va, b) }, func(b []byte) { out = append(out, b...) })
	return out
}

// write stores data, a multiple of 8 bytes.
func (p *probe) write(node int, va uint64, data []byte) {
	p.t.Helper()
	p.do(len(data), func(s *coord.Session, b coord.Buf) {
		copy(b.B(), data)
		s.Write(node, va, b)
	}, func([]byte) {})
}

// do runs one request with a buffer of n bytes on a session of its own: none is
// kept, since whoever drains the cluster waits for it.
func (p *probe) do(n int, stage func(*coord.Session, coord.Buf), look func([]byte)) {
	p.t.Helper()
	s, err := p.c.AcquireManual(context.Background())
	if err != nil {
		p.t.Fatalf("probe: %v", err)
	}
	defer s.Release()
	s.Reset()
	b, ok := s.Alloc(n)
	if !ok {
		p.t.Fatal("probe: no local memory")
	}
	stage(s, b)
	s.Ring()
	if err := s.Wait(); err != nil {
		p.t.Fatalf("probe: %v", err)
	}
	look(b.B())
}

// name joins parts to the name of a subtest.
func name(parts ...any) string {
	return strings.TrimSpace(strings.ReplaceAll(fmt.Sprintln(parts...), " ", "-"))
}

// increment adds 1 to the number in b, in place.
func increment(b []byte) []byte {
	binary.BigEndian.PutUint64(b, binary.BigEndian.Uint64(b)+1)
	return b
}

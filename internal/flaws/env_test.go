package flaws_test

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	"fjord/coord"
	"fjord/internal/script"
	"fjord/layout"
	"fjord/lock"
	"fjord/txn"
	"fjord/verbs"
)

var ctx = context.Background()

// shape is what a test's cluster looks like. The zero value is filled in.
type shape struct {
	seed     uint64
	nodes    int // 3
	replicas int // as many as nodes
	coords   int // 3
	value    int // ValueSize; 16
	capacity int // 1: a bucket in each shard, and overflow buckets
	retries  int // of each coordinator; 20
	recorder txn.Recorder
	lock     lock.Strategy
	suspect  time.Duration // heartbeats; none
	spare    int           // places for coordinators beside theirs
	noInline bool
	sync     bool
}

// env is a scripted cluster with a table, and coordinators that know it.
type env struct {
	*script.World
	t       testing.TB
	cluster *coord.Cluster
	db      []*txn.DB
	tab     []*txn.Table // the handle of each
	gone    []int        // those that have crashed, whose DBs are not closed
	dev     []int        // the device of each, as the world counts them
	opened  int          // devices
	shape   shape
}

func open(t testing.TB, s shape) *env {
	t.Helper()
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&s.nodes, 3)
	def(&s.replicas, s.nodes)
	def(&s.coords, 3)
	def(&s.value, 16)
	def(&s.capacity, 1)
	def(&s.retries, 20)
	e := &env{World: script.New(t, s.seed), t: t}
	e.NoInline, e.Sync = s.noInline, s.sync
	var err error
	e.cluster, err = coord.NewCluster(coord.ClusterConfig{MemoryNodes: s.nodes, Replicas: s.replicas, NodeMemory: 3 << 20,
		Coordinators: s.coords + s.spare, Sessions: 4, LogSlot: 16 << 10, HugePages: verbs.HugeNever}, e.NewDevice)
	if err != nil {
		t.Fatal(err)
	}
	if e.Layout, err = e.cluster.Layout(ctx); err != nil {
		t.Fatal(err)
	}
	e.shape = s
	for range s.coords {
		db, tab := e.another()
		e.db, e.tab, e.dev = append(e.db, db), append(e.tab, tab), append(e.dev, e.opened-1)
	}
	t.Cleanup(e.close)
	return e
}

// another opens a coordinator.
func (e *env) another() (*txn.DB, *txn.Table) {
	e.t.Helper()
	s := e.shape
	e.opened++
	db, err := txn.Open(ctx, txn.Options{Cluster: e.cluster, Sessions: 4, AddressCache: 1 << 10, MaxRetries: s.retries,
		Recorder: s.recorder, Lock: s.lock, SuspectAfter: s.suspect})
	if err != nil {
		e.t.Fatal(err)
	}
	tab, err := db.CreateTable(ctx, txn.Schema{Name: "t", KeySize: 8, ValueSize: s.value, Capacity: s.capacity})
	if err != nil {
		e.t.Fatal(err)
	}
	return db, tab
}

// close ends the cluster, and its coordinators if their sessions are free.
func (e *env) close() {
	if e.db == nil {
		return
	}
	if e.Alive() && !e.t.Failed() {
		for c, db := range e.db {
			if slices.Contains(e.gone, c) {
				continue
			}
			if err := db.Close(); err != nil {
				e.t.Error(err)
			}
		}
	}
	e.End()
	if err := e.cluster.Close(); err != nil {
		e.t.Error(err)
	}
	e.db = nil
}

// check looks for what must not be, when all transactions have ended. dead are
// coordinators that have crashed.
func (e *env) check(dead ...int) {
	e.t.Helper()
	var r *txn.CheckReport
	for range 2 { // in the first turn each coordinator gives back what it owes
		for c, db := range e.db {
			if slices.Contains(dead, c) {
				continue
			}
			var err error
			if r, err = db.Check(ctx); err != nil {
				e.t.Fatal(err)
			}
		}
	}
	if !r.OK() {
		e.t.Fatalf("Check: %v\n%q", r.Checks, r.Details)
	}
	if h := e.Hazards(); len(h) > 0 {
		e.t.Fatalf("%d hazards, the first: %s", len(h), h[0])
	}
}

func key(n int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }
func num(n int) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(n)) }
func val(b []byte) int { return int(binary.LittleEndian.Uint64(b)) }

// put writes values in one transaction of coordinator c: key, value, key, value.
func (e *env) put(c int, kv ...int) {
	e.t.Helper()
	if err := e.db[c].Update(ctx, e.puts(c, kv...)); err != nil {
		e.t.Fatal(err)
	}
}

func (e *env) puts(c int, kv ...int) func(*txn.Tx) error {
	return func(tx *txn.Tx) error {
		for i := 0; i < len(kv); i += 2 {
			if err := tx.Put(e.tab[c], key(kv[i]), num(kv[i+1])); err != nil {
				return err
			}
		}
		return nil
	}
}

// get reads a key at coordinator c; -1 if it is not there.
func (e *env) get(c, k int) int {
	e.t.Helper()
	n, err := e.view(c, k)
	if err != nil {
		e.t.Fatal(err)
	}
	return n
}

func (e *env) view(c, k int) (n int, err error) {
	err = e.db[c].View(ctx, func(tx *txn.Tx) error {
		n, err = e.read(tx, c, k)
		return err
	})
	return n, err
}

// read reads a key in a transaction; -1 if it is not there.
func (e *env) read(tx *txn.Tx, c, k int) (int, error) {
	v, err := tx.Get(e.tab[c], key(k))
	if errors.Is(err, txn.ErrNotFound) {
		return -1, nil
	}
	if err != nil {
		return 0, err
	}
	return val(v), nil
}

func (e *env) begin(c int) *txn.Tx {
	e.t.Helper()
	tx, err := e.db[c].Begin(ctx)
	if err != nil {
		e.t.Fatal(err)
	}
	return tx
}

func (e *env) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// conflict wants err to be a conflict, for one of the reasons.
func (e *env) conflict(err error, reasons ...txn.Reason) {
	e.t.Helper()
	var c *txn.ConflictError
	if !errors.As(err, &c) || len(reasons) > 0 && !slices.Contains(reasons, c.Reason) {
		e.t.Fatalf("got %v, want a conflict %v", err, reasons)
	}
}

// addr finds the record of a key: where a coordinator that knows it READs.
func (e *env) addr(c, k int) layout.Addr {
	e.t.Helper()
	e.get(c, k)
	e.Trace()
	e.get(c, k)
	ops := e.Traced()
	if len(ops) != 1 {
		e.t.Fatalf("a warm read of key %d took %v", k, ops)
	}
	return e.cell(ops[0].Place())
}

// head finds the head bucket of a key.
func (e *env) head(k int) layout.Addr {
	e.t.Helper()
	c := len(e.db) - 1
	tx := e.begin(c)
	e.Trace()
	if err := tx.Fetch(txn.ForInsert(e.tab[c], key(k))); err != nil {
		e.t.Fatal(err)
	}
	ops := e.Traced()
	e.must(tx.Abort())
	for _, op := range ops {
		if op.Opcode == verbs.OpCAS {
			return e.cell(op.Place())
		}
	}
	e.t.Fatalf("no lock of key %d's bucket in %v", k, ops)
	return 0
}

// cell returns the address of what is at a place.
func (e *env) cell(p script.Place) layout.Addr {
	for s := range e.Layout.Shards {
		if off := p.Off - e.Layout.ExtentOffset(s); slices.Contains(e.Layout.Shards[s].Replicas, p.Node) && off < e.Layout.Header.ExtentSize {
			return layout.MakeAddr(uint16(s), off&^(layout.CellAlign-1))
		}
	}
	e.t.Fatalf("no cell at %+v", p)
	return 0
}

// image returns a cell at its i-th replica.
func (e *env) image(a layout.Addr, replica int) []byte {
	return e.Peek(e.At(a, replica, 0, layout.SlotSize(8, 16)))
}

// holder is whose token is in a cell's lock.
func (e *env) holder(a layout.Addr) lock.Token { return lock.Token(layout.Lock(e.Peek(e.Lock(a)))) }

// version is the version word of a cell at its primary.
func (e *env) version(a layout.Addr) layout.Version { return layout.CellVersion(e.image(a, 0)) }

// logs returns the log entries of a token at a node.
func (e *env) logs(node int, token lock.Token) (all []layout.LogEntry) {
	h := &e.Layout.Header
	for c := range int(h.Coordinators) {
		for s := range int(h.Sessions) {
			for i := range int(h.LogSlots) {
				b := e.Peek(script.Place{Node: node, Off: h.LogSlotAt(c, s, i), Len: int(h.LogSlotSize)})
				if l, err := layout.DecodeLog(b); err == nil && l.Token == uint64(token) {
					all = append(all, l)
				}
			}
		}
	}
	return all
}

// by matches requests of a task with an opcode that touch a place.
func by(task string, code verbs.Opcode, p script.Place) func(*script.Op) bool {
	return func(op *script.Op) bool { return op.By == task && op.On(code, p) }
}

// cells matches a task's WRITEs of whole images: unlocks have 16 bytes at most.
func cells(task string) func(*script.Op) bool {
	return func(op *script.Op) bool {
		return op.By == task && op.Opcode == verbs.OpWrite && op.InExtents() && op.Len > 16
	}
}

// logEntry matches a task's WRITEs of log entries.
func logEntry(task string) func(*script.Op) bool {
	return func(op *script.Op) bool {
		return op.By == task && op.Opcode == verbs.OpWrite && op.InLog() && op.Len > 8
	}
}

// logMark matches a task's WRITE of an entry's state at a node.
func logMark(task string, node int) func(*script.Op) bool {
	return func(op *script.Op) bool {
		return op.By == task && op.Opcode == verbs.OpWrite && op.InLog() && op.Len == 8 && op.Node == node
	}
}

// spread puts keys whose records have different primaries, one for each node, and
// lets all coordinators know where they are.
func (e *env) spread() []int {
	e.t.Helper()
	keys := make([]int, len(e.Layout.Nodes))
	for k, left := 1, len(keys); left > 0; k++ {
		e.put(0, k, 0)
		for c := range e.db {
			e.get(c, k)
		}
		if s := e.addr(0, k).Shard(); keys[s] == 0 {
			keys[s] = k
			left--
		}
	}
	return keys
}

// known lets all coordinators know where keys are.
func (e *env) known(keys ...int) {
	for c := range e.db {
		for _, k := range keys {
			e.get(c, k)
		}
	}
}

// attempt starts a task that runs one attempt by hand, as Update would.
func (e *env) attempt(name string, c int, fn func(tx *txn.Tx) error) *attempt {
	a := &attempt{}
	a.Task = e.Start(name, func() {
		tx, err := e.db[c].Begin(ctx)
		if err != nil {
			a.err = err
			return
		}
		a.id = tx.ID()
		if a.err = fn(tx); a.err != nil {
			if err := tx.Abort(); err != nil {
				a.err = err
			}
			return
		}
		a.err = tx.Commit(ctx)
	})
	return a
}

// attempt is a transaction that runs once, in a task.
type attempt struct {
	*script.Task
	id  txn.ID
	err error
}

// readPut reads keys and puts values: keys to read, then key, value, ...
func (e *env) readPut(c int, reads []int, kv ...int) func(*txn.Tx) error {
	return func(tx *txn.Tx) error {
		for _, k := range reads {
			if _, err := e.read(tx, c, k); err != nil {
				return err
			}
		}
		return e.puts(c, kv...)(tx)
	}
}

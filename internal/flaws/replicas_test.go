package flaws_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"fjord/coord"
	"fjord/internal/script"
	"fjord/layout"
	"fjord/txn"
	"fjord/verbs"
	"fjord/verbs/mem"
)

// Fault 15, answer before durable. As long as one replica has not acknowledged the
// transaction's log or image, the caller must not have his answer, nor anybody else
// the lock. With a read set and without.
//
// Guards txn/commit.go, commit: it waits between postCells and unlock. Seen
// failing with that Wait taken out.
func TestFlaw15AnswerBeforeDurable(t *testing.T) {
	for _, reads := range [][]int{nil, {2}} {
		for replica := range 3 {
			for _, what := range []string{"log", "image"} {
				e := open(t, shape{})
				e.put(0, 1, 10, 2, 20)
				e.known(1, 2)
				x := e.addr(0, 1)
				place := e.At(x, replica, layout.OffWriter, 8)
				h := e.HoldAnswer("one replica's ack", func(op *script.Op) bool {
					return op.Node == place.Node && (what == "log" && logEntry("T1")(op) || what == "image" && cells("T1")(op))
				})
				t1 := e.attempt("T1", 0, e.readPut(0, reads, 1, 11))
				t1.Run()
				if !h.Await().Executed() {
					t.Fatal("the request was to execute")
				}
				if t1.Done() {
					t.Errorf("T1 has its answer, %v, without replica %d's ack of its %s", t1.err, replica, what)
				}
				if e.holder(x) != t1.id {
					t.Errorf("x is held by %v, not by T1, without replica %d's ack of its %s", e.holder(x), replica, what)
				}
				if n, err := e.view(1, 1); err == nil {
					t.Errorf("a View has seen %d, under T1's lock", n)
				}
				h.Release()
				t1.Finish()
				e.must(t1.err)
				if n := e.get(1, 1); n != 11 {
					t.Errorf("x is %d, want 11", n)
				}
				e.check()
				e.close()
			}
		}
	}
}

// Fault 17, replica out of bounds. Every number of nodes with every number of
// copies: records come and go, all copies are alike, and what belongs to a shard
// goes to its replicas and nowhere else.
//
// Guards the loops over replicas in txn/commit.go, postCells and buildLogs. Seen
// failing with postCells looping over as many replicas as there are nodes, and with
// the entry of buildLogs going to every node.
func TestFlaw17ReplicaOutOfBounds(t *testing.T) {
	for nodes := 1; nodes <= 5; nodes++ {
		for replicas := 1; replicas <= nodes; replicas++ {
			t.Run(fmt.Sprintf("%d of %d", replicas, nodes), func(t *testing.T) {
				e := open(t, shape{nodes: nodes, replicas: replicas})
				for k := 1; k <= 20; k++ {
					e.put(k%3, k, k)
				}
				for k := 1; k <= 20; k++ {
					a := e.addr(0, k)
					e.Trace()
					e.put(0, k, -k)
					var images, entries []int
					for _, op := range e.Traced() {
						switch {
						case cells("")(op):
							images = append(images, op.Node)
						case logEntry("")(op):
							entries = append(entries, op.Node)
						}
					}
					want := slices.Sorted(slices.Values(e.Layout.Shards[a.Shard()].Replicas))
					slices.Sort(images)
					slices.Sort(entries)
					if !slices.Equal(images, want) || !slices.Equal(entries, want) {
						t.Errorf("key %d: images went to nodes %v, log entries to %v, its shard is at %v", k, images, entries, want)
					}
					for r := range want {
						img := e.image(a, r)
						if layout.Verify(img, a, len(img)) != layout.Valid || val(layout.Value(img)) != -k {
							t.Errorf("key %d: copy %d is %x", k, r, img)
						}
					}
				}
				e.must(e.db[1].Update(ctx, func(tx *txn.Tx) error { // over all shards at once
					for k := 1; k <= 20; k++ {
						if err := tx.Delete(e.tab[1], key(k)); err != nil {
							return err
						}
					}
					return e.puts(1, 21, 21, 22, 22, 23, 23, 24, 24)(tx)
				}))
				if n, m := e.get(2, 1), e.get(2, 24); n != -1 || m != 24 {
					t.Errorf("keys 1, 24 are %d, %d, want -1, 24", n, m)
				}
				e.check()
			})
		}
	}
}

// Fault 23, blind backups. Fewer nodes than copies: refused at start, by name.
//
// Guards coord/config.go, Validate: Replicas is compared with MemoryNodes. Seen
// failing with that taken out.
func TestFlaw23BlindBackups(t *testing.T) {
	for nodes := 1; nodes <= 5; nodes++ {
		for replicas := nodes + 1; replicas <= 6; replicas++ {
			fabric := mem.NewFabric(nil)
			_, err := coord.NewCluster(coord.ClusterConfig{MemoryNodes: nodes, Replicas: replicas, NodeMemory: 64 << 20},
				func(name string) (verbs.Device, error) { return fabric.NewDevice(name), nil })
			if !errors.Is(err, coord.ErrConfig) {
				t.Errorf("a cluster of %d nodes with %d copies: %v, want ErrConfig", nodes, replicas, err)
			}
			db, err := txn.Open(ctx, txn.Options{MemoryNodes: nodes, Replicas: replicas})
			if !errors.Is(err, txn.ErrOptions) {
				t.Errorf("a DB of %d nodes with %d copies: %v, want ErrOptions", nodes, replicas, err)
			}
			if db != nil {
				t.Error("a DB beside an error")
			}
		}
	}
}

// Fault 20, write after read hazard. Of everything that is posted, by all kinds
// of transactions, with conflicts, rollbacks and repaired QPs, no WRITE may be
// behind a READ of the same bytes on its QP that is not known to be complete: it
// might be applied first. TestShuffle looks at the same, and lets WRITEs overtake.
//
// Guards coord/session.go, Free: it waits for its READ before it posts the
// release. Seen failing with the release posted behind it at once.
func TestFlaw20WriteAfterRead(t *testing.T) {
	e := open(t, shape{nodes: 2})
	for k := 1; k <= 20; k++ {
		e.put(0, k, k)
	}
	writes := func(name string) func(*script.Op) bool {
		return func(op *script.Op) bool {
			return op.By == name && op.Opcode == verbs.OpWrite && op.InExtents() && op.Len == 16
		}
	}
	tasks := 0
	for k := 1; k <= 20; k++ {
		for c := range e.db {
			other := e.begin((c + 1) % 3)
			if k%3 == 0 { // a conflict for those who come
				if _, err := other.GetForUpdate(e.tab[(c+1)%3], key(k)); err != nil {
					t.Fatal(err)
				}
			}
			name := fmt.Sprintf("T%d", tasks)
			tasks++
			fail := e.Fail("an unlock", writes(name))
			a := e.attempt(name, c, func(tx *txn.Tx) error {
				n, err := e.read(tx, c, k%20+1)
				if err != nil {
					return err
				}
				switch k % 4 {
				case 0:
					err = tx.Delete(e.tab[c], key(k))
				case 1:
					_, err = tx.GetForUpdate(e.tab[c], key(k))
				case 2:
					err = tx.Insert(e.tab[c], key(100+tasks), num(n))
				}
				if err != nil && !errors.Is(err, txn.ErrNotFound) {
					return err
				}
				return tx.Put(e.tab[c], key(k), num(n))
			})
			a.Finish()
			fail.Release()
			e.get(c, 1) // over a repaired QP, if it is this one's node
			e.get(c, 2)
			if a.err != nil && !errors.Is(a.err, txn.ErrConflict) && !errors.Is(a.err, txn.ErrUnavailable) {
				t.Fatal(a.err)
			}
			e.must(other.Abort())
		}
	}
	e.check() // and at the hazards
}

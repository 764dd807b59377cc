package simtest

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"fjord/internal/serial"
	"fjord/txn"
)

// TestValuesTellChanges: every byte of a value but those of the number is tied to its
// stamp.
func TestValuesTellChanges(t *testing.T) {
	for _, size := range []int{0, 1, 7, 8, 15, 16, 17, 100} {
		b := encode(size, 77, 5)
		if len(b) != size || !whole(b) {
			t.Fatalf("a value of %d bytes is %x", size, b)
		}
		if size >= numberSize && number(b) != 77 {
			t.Errorf("the number in %x is %d", b, number(b))
		}
		for i := numberSize; i < size && size > stampedSize; i++ {
			c := bytes.Clone(b)
			c[i] ^= 1
			if whole(c) {
				t.Errorf("byte %d of %d is changed, and nobody sees it", i, size)
			}
		}
	}
}

// TestForeignValueIsSeen: a version that is read with another writer's bytes is told.
func TestForeignValueIsSeen(t *testing.T) {
	h := newHistory()
	add := func(id txn.ID, a serial.Attempt, v values) {
		h.index[id] = len(h.attempts)
		h.attempts = append(h.attempts, a)
		h.values[id] = &v
	}
	w := []serial.Write{{Table: "t", Key: "k", Version: 3}}
	add(1, serial.Attempt{ID: "w", Outcome: serial.Commit, Writes: w}, values{put: map[string]uint64{"k": 10}})
	add(2, serial.Attempt{ID: "a", Outcome: serial.Abort, Writes: w}, values{put: map[string]uint64{"k": 11}})
	read := serial.Attempt{ID: "r", Outcome: serial.Commit, Reads: []serial.Read{{Table: "t", Key: "k", Version: 3}}}
	add(3, read, values{seen: map[string]uint64{"k": 10}})
	var told []string
	fail := func(f string, _ ...any) { told = append(told, f) }
	if h.checkValues(fail); len(told) > 0 {
		t.Errorf("the writer's own value is told: %v", told)
	}
	add(4, read, values{seen: map[string]uint64{"k": 11}})
	if h.checkValues(fail); len(told) != 1 {
		t.Errorf("told is %v, want one complaint", told)
	}
}

// TestRulesOfWorkloads: verify sees what it is there for.
func TestRulesOfWorkloads(t *testing.T) {
	s, err := NewSetup(3, Options{Workload: "mix"})
	if err != nil {
		t.Fatal(err)
	}
	list := newWorkloads(&s)
	if len(list) != 4 {
		t.Fatalf("a mix has %d workloads", len(list))
	}
	all := func(w workload, n uint64) map[string][]byte {
		m := make(map[string][]byte)
		for _, k := range w.keys() {
			m[k] = encode(stampedSize, n, 1)
		}
		return m
	}
	b, r, c := list[0].(*bank), list[1].(*ring), list[3].(*churn)
	money := all(b, firstBalance)
	money[b.accounts[0]] = encode(stampedSize, firstBalance-1, 1)
	counts := all(r, 5)
	counts[r.cells[1]] = encode(stampedSize, 6, 1)
	for what, err := range map[string]error{
		"money": b.verify(money), "ring": r.verify(counts), "pairs": c.verify(all(c, 0)),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := b.verify(all(b, firstBalance)); err != nil {
		t.Error(err)
	}
	for _, count := range [][]uint64{{3, 3, 3}, {4, 3, 3}, {4, 4, 3}} {
		if !r.sound(count) {
			t.Errorf("the ring %v is not sound", count)
		}
	}
	if i := slices.IndexFunc([][]uint64{{4, 3, 2}, {3, 4, 4}, {5, 3, 3}}, r.sound); i >= 0 {
		t.Errorf("ring %d is sound", i)
	}
}

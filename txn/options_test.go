package txn_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"fjord/coord"
	"fjord/lock"
	"fjord/txn"
	"fjord/verbs"
)

// Options that are out of range or contradict each other are refused with the
// name, the value, and what would be right.
func TestBadOptions(t *testing.T) {
	w := newWorld(t, shape(2, 2))
	for _, c := range []struct {
		name  string
		o     txn.Options
		words []string
	}{
		{"more copies than nodes", txn.Options{MemoryNodes: 2, Replicas: 3}, []string{"Replicas is 3", "2 memory nodes"}},
		{"negative nodes", txn.Options{MemoryNodes: -2}, []string{"MemoryNodes is -2", "1 to 256"}},
		{"too many nodes", txn.Options{MemoryNodes: 257}, []string{"MemoryNodes is 257", "1 to 256"}},
		{"negative copies", txn.Options{Replicas: -1}, []string{"Replicas is -1", "1 to 8"}},
		{"too many copies", txn.Options{Replicas: 9}, []string{"Replicas is 9", "1 to 8"}},
		{"negative sessions", txn.Options{Sessions: -1}, []string{"Sessions is -1", "1 to 4096"}},
		{"too many sessions", txn.Options{Sessions: 5000}, []string{"Sessions is 5000", "1 to 4096"}},
		{"negative cache", txn.Options{AddressCache: -1}, []string{"AddressCache is -1", "1 to"}},
		{"negative retries", txn.Options{MaxRetries: -1}, []string{"MaxRetries is -1", "1 to"}},
		{"a small log slot", txn.Options{LogSlot: 100}, []string{"LogSlot is 100", "4096 to"}},
		{"an odd log slot", txn.Options{LogSlot: 128<<10 + 8}, []string{"LogSlot is 131080", "multiple of 64"}},
		{"a log slot for fewer nodes", txn.Options{MemoryNodes: 8, LogSlot: 8 << 10}, []string{"LogSlot is 8192", "8 memory nodes", "right is 9152 at least"}},
		{"little memory", txn.Options{NodeMemory: 1000}, []string{"NodeMemory is 1000"}},
		{"memory for no logs", txn.Options{NodeMemory: 2 << 20}, []string{"NodeMemory is 2097152", "128 sessions", "at least"}},
		{"cluster and nodes", txn.Options{Cluster: w.cluster, MemoryNodes: 2}, []string{"MemoryNodes", "contradict Cluster"}},
		{"cluster and copies", txn.Options{Cluster: w.cluster, Replicas: 2}, []string{"Replicas", "contradict Cluster"}},
		{"cluster and memory", txn.Options{Cluster: w.cluster, NodeMemory: 1 << 30}, []string{"NodeMemory", "contradict Cluster"}},
		{"cluster and log slots", txn.Options{Cluster: w.cluster, LogSlot: 1 << 20}, []string{"LogSlot", "contradict Cluster"}},
		{"cluster and pages", txn.Options{Cluster: w.cluster, HugePages: verbs.Huge2M}, []string{"HugePages", "contradict Cluster"}},
		{"more sessions than the cluster", txn.Options{Cluster: w.cluster, Sessions: 9}, []string{"Sessions is 9", "1 to 8"}},
	} {
		t.Run(name(c.name), func(t *testing.T) {
			db, err := txn.Open(context.Background(), c.o)
			if err == nil {
				_ = db.Close()
			}
			wantErr(t, err, txn.ErrOptions, c.words...)
		})
	}
}

// A log slot that is just accepted is enough to create and drop tables.
func TestLogSlotThatIsAcceptedIsEnough(t *testing.T) {
	ctx := context.Background()
	db, err := txn.Open(ctx, txn.Options{MemoryNodes: 8, NodeMemory: 4 << 20, Sessions: 2, AddressCache: 64, LogSlot: 9152})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for range 3 {
		for i := range 20 { // some in one bucket of the catalog
			newTable(t, db, name("t", i), 8, 16, 1)
		}
		for i := range 20 {
			if err := db.DropTable(ctx, name("t", i)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// What a transaction may write is an option; its errors name the one that is the
// user's, who has a cluster of his own or has not.
func TestLogSlot(t *testing.T) {
	ctx := context.Background()
	write := func(db *txn.DB) error {
		tab := newTable(t, db, "t", 8, 500, 100)
		return db.Update(ctx, func(tx *txn.Tx) error {
			for i := range 200 { // cells of 32 bytes each in the log
				if err := tx.Put(tab, u64(i), make([]byte, 500)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for _, c := range []struct {
		slot   uint64
		enough bool
	}{{4096, false}, {64 << 10, true}} {
		db, err := txn.Open(ctx, txn.Options{MemoryNodes: 1, NodeMemory: 16 << 20, Sessions: 8, AddressCache: 64, LogSlot: c.slot})
		if err != nil {
			t.Fatal(err)
		}
		err = write(db)
		switch {
		case !c.enough:
			wantErr(t, err, txn.ErrTooLarge, "4096", "raise Options.LogSlot")
			_, err := db.CreateTable(ctx, txn.Schema{Name: "large", KeySize: 8, ValueSize: 4096, Capacity: 1})
			wantErr(t, err, txn.ErrSchema, "raise Options.LogSlot")
		case err != nil:
			t.Errorf("with a log slot of %d bytes: %v", c.slot, err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	cfg := shape(1, 1)
	cfg.LogSlot = 4096
	wantErr(t, write(newWorld(t, cfg).open()), txn.ErrTooLarge, "4096", "raise ClusterConfig.LogSlot")
	var o txn.Options
	if o.EnsureDefaults(); o.LogSlot != 128<<10 {
		t.Errorf("the default is %d bytes, want 128 KiB", o.LogSlot)
	}
}

// The number that an error names as enough is enough, and one page less is not.
func TestNodeMemoryThatIsNamedIsEnough(t *testing.T) {
	for _, c := range []coord.ClusterConfig{
		{MemoryNodes: 1, Replicas: 1}, {MemoryNodes: 3, Replicas: 3}, {MemoryNodes: 5, Replicas: 2, Sessions: 7}, {MemoryNodes: 16, Replicas: 8, Sessions: 4},
	} {
		t.Run(name(c.MemoryNodes, "nodes", c.Replicas, "copies"), func(t *testing.T) {
			o := txn.Options{MemoryNodes: c.MemoryNodes, Replicas: c.Replicas, Sessions: c.Sessions, NodeMemory: 1 << 20}
			_, err := txn.Open(context.Background(), o)
			wantErr(t, err, txn.ErrOptions)
			m := regexp.MustCompile(`right is (\d+) at least`).FindStringSubmatch(fmt.Sprint(err))
			if m == nil {
				t.Fatalf("%v does not name what is enough", err)
			}
			least, _ := strconv.ParseUint(m[1], 10, 64)
			o.NodeMemory = least - 4096
			_, err = txn.Open(context.Background(), o)
			wantErr(t, err, txn.ErrOptions)
			o.NodeMemory = least
			if raceEnabled {
				return // that much memory from the heap is slow
			}
			db, err := txn.Open(context.Background(), o)
			if err != nil {
				t.Fatalf("with the %d bytes that were named: %v", least, err)
			}
			tab := newTable(t, db, "t", 8, 16, 10)
			put(t, db, tab, u64(1), "x")
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The zero Options are a cluster of 3 nodes with 3 copies; what is set is kept.
func TestDefaults(t *testing.T) {
	var o txn.Options
	o.EnsureDefaults()
	if o.MemoryNodes != 3 || o.Replicas != 3 || o.Sessions == 0 || o.AddressCache == 0 || o.MaxRetries == 0 ||
		o.Lock.Name() != "cas" || o.Logger == nil || o.NodeMemory == 0 {
		t.Errorf("defaults are %+v", o)
	}
	if err := o.Validate(); err != nil {
		t.Error(err)
	}
	for _, c := range []struct{ nodes, replicas, wantNodes, wantReplicas int }{
		{1, 0, 1, 1}, {2, 0, 2, 2}, {7, 0, 7, 3}, {0, 1, 3, 1}, {0, 5, 5, 5}, {4, 2, 4, 2},
	} {
		o := txn.Options{MemoryNodes: c.nodes, Replicas: c.replicas}
		o.EnsureDefaults()
		if o.MemoryNodes != c.wantNodes || o.Replicas != c.wantReplicas {
			t.Errorf("of %d nodes and %d copies it makes %d and %d, want %d and %d", c.nodes, c.replicas, o.MemoryNodes, o.Replicas, c.wantNodes, c.wantReplicas)
		}
	}
	mine := txn.Options{Lock: lock.DefaultBackoff(), MaxRetries: 7, Sessions: 9, AddressCache: 11}
	mine.EnsureDefaults()
	if mine.Lock.Name() != "backoff" || mine.MaxRetries != 7 || mine.Sessions != 9 || mine.AddressCache != 11 {
		t.Errorf("what was set has become %+v", mine)
	}
}

// A DB that joins a cluster and says nothing of sessions gets as many as that has
// room for.
func TestSessionsOfAJoinedCluster(t *testing.T) {
	w := newWorld(t, shape(2, 2)) // 8 sessions
	db, err := txn.Open(context.Background(), txn.Options{Cluster: w.cluster})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for range 8 {
		tx := begin(t, db)
		defer tx.Abort()
	}
}

// As many coordinators as there are seats may join; one more is ErrFull, and
// there is a seat again once one has left.
func TestTooManyCoordinators(t *testing.T) {
	w := newWorld(t, shape(1, 1))
	var dbs []*txn.DB
	for range 4 {
		dbs = append(dbs, w.open())
	}
	_, err := txn.Open(context.Background(), txn.Options{Cluster: w.cluster, Sessions: 8})
	wantErr(t, err, txn.ErrFull, "4 have joined", "Coordinators")
	if err := dbs[1].Close(); err != nil {
		t.Fatal(err)
	}
	db := w.open()
	tab := newTable(t, db, "t", 8, 16, 10)
	put(t, db, tab, u64(1), "x")
	w.t = t
	if err := dbs[2].Close(); err != nil { // a seat for the checker
		t.Fatal(err)
	}
	w.sound(db, map[string]int{"t": 1})
}

// A cluster that is closed cannot be joined.
func TestOpenOnAClosedCluster(t *testing.T) {
	w := newWorld(t, shape(1, 1))
	if err := w.cluster.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := txn.Open(context.Background(), txn.Options{Cluster: w.cluster, Sessions: 8})
	wantErr(t, err, txn.ErrClosed)
}

// The same registerer twice is refused by Prometheus; what was opened for it is
// given back.
func TestSameRegistererTwice(t *testing.T) {
	w := newWorld(t, shape(1, 1))
	reg := prometheus.NewRegistry()
	first := w.open(func(o *txn.Options) { o.Registerer = reg })
	for range 10 { // more than there are seats
		_, err := txn.Open(context.Background(), txn.Options{Cluster: w.cluster, Sessions: 8, Registerer: reg})
		if err == nil || !errors.As(err, new(prometheus.AlreadyRegisteredError)) {
			t.Fatalf("got %v, want Prometheus's error", err)
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := w.open(func(o *txn.Options) { o.Registerer = reg }) // Close has unregistered the first
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

// The logger is told what was opened.
func TestLogger(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	w := newWorld(t, shape(2, 2))
	w.open(func(o *txn.Options) { o.Logger = zap.New(core) })
	if n := logs.FilterMessage("opened").Len(); n != 1 {
		t.Errorf("%d messages of opening, want 1: %v", n, logs.All())
	}
}

// Huge pages that are not to be had are no error, but the logger is told.
func TestHugePagesFallBackWithAWarning(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	db, err := txn.Open(context.Background(), txn.Options{MemoryNodes: 1, NodeMemory: 16 << 20, Sessions: 2, HugePages: verbs.Huge1G, Logger: zap.New(core)})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tab := newTable(t, db, "t", 8, 16, 10)
	put(t, db, tab, u64(1), "x")
	if logs.Len() == 0 {
		t.Skip("this machine has 1 GiB pages to give")
	}
	if logs.FilterMessage("huge pages").Len() != logs.Len() {
		t.Errorf("warnings: %v", logs.All())
	}
}

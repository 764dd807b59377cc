package coord

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"fjord/verbs"
	"fjord/verbs/mem"
)

// small is a cluster that is cheap to start.
func small(nodes, replicas int) ClusterConfig {
	return ClusterConfig{MemoryNodes: nodes, Replicas: replicas, NodeMemory: 4 << 20, Coordinators: 4, Sessions: 8, LogSlot: minLogSlot}
}

func newTestCluster(t testing.TB, cfg ClusterConfig) *Cluster {
	t.Helper()
	fabric := mem.NewFabric(nil)
	c, err := NewCluster(cfg, func(name string) (verbs.Device, error) { return fabric.NewDevice(name), nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close the cluster: %v", err)
		}
	})
	return c
}

// wire is a directory whose connections can be refused, and counts them.
type wire struct {
	*Cluster
	refuse   atomic.Bool
	connects atomic.Int64
	onDemand func() // before each connection
}

func (w *wire) Connect(ctx context.Context, node int, from verbs.Endpoint) (verbs.Endpoint, error) {
	w.connects.Add(1)
	if w.onDemand != nil {
		w.onDemand()
	}
	if w.refuse.Load() {
		return verbs.Endpoint{}, ErrNoNode
	}
	return w.Cluster.Connect(ctx, node, from)
}

// join makes a coordinator that is closed with the test.
func join(t testing.TB, c *Cluster, dir Directory, sessions int, change ...func(*Config)) *Coordinator {
	t.Helper()
	dev, err := c.NewDevice("compute")
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Sessions: sessions, Cache: 64}
	for _, f := range change {
		f(&cfg)
	}
	co, err := Join(context.Background(), dir, dev, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := co.Close(context.Background()); err != nil {
			t.Errorf("close the coordinator: %v", err)
		}
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return co
}

func acquire(t testing.TB, c *Coordinator) *Session {
	t.Helper()
	s, err := c.AcquireManual(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

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

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
	keep     atomic.Bool // refuse to end them
	connects atomic.Int64
	onDemand func() // before each connection
}

func (w *wire) Connect(ctx context.Context, node int, id uint16, from verbs.Endpoint) (verbs.Endpoint, error) {
	w.connects.Add(1)
	if w.onDemand != nil {
		w.onDemand()
	}
	if w.refuse.Load() {
		return verbs.Endpoint{}, ErrNoNode
	}
	return w.Cluster.Connect(ctx, node, id, from)
}

func (w *wire) Disconnect(ctx context.Context, node int, qpn uint32) error {
	if w.keep.Load() {
		return ErrNoNode
	}
	return w.Cluster.Disconnect(ctx, node, qpn)
}

// asynchronous is a device whose completions have to be awaited, and that lends no
// memory. Its QPs cannot be brought up while refuse is not nil.
type asynchronous struct {
	verbs.Device
	refuse error
}

func (d *asynchronous) Attr() verbs.DeviceAttr {
	a := d.Device.Attr()
	a.Caps &^= verbs.CapSyncPost
	return a
}

func (d *asynchronous) AllocPD() (verbs.PD, error) {
	pd, err := d.Device.AllocPD()
	return asyncPD{pd, d}, err
}

type asyncPD struct {
	verbs.PD
	d *asynchronous
}

func (p asyncPD) CreateQP(init verbs.QPInit) (verbs.QP, error) {
	qp, err := p.PD.CreateQP(init)
	return asyncQP{qp, p.d}, err
}

type asyncQP struct {
	verbs.QP
	d *asynchronous
}

func (q asyncQP) Modify(a verbs.QPAttr, mask verbs.AttrMask) error {
	if q.d.refuse != nil {
		return q.d.refuse
	}
	return q.QP.Modify(a, mask)
}

// ways are the ways in which a session's requests are executed.
var ways = []string{"in windows", "posted", "posted and awaited"}

// acquireIn makes a session that goes one of them, once its connections are in use.
func acquireIn(t testing.TB, way string, c *Cluster, dir Directory) *Session {
	t.Helper()
	dev, err := c.NewDevice("compute")
	if err != nil {
		t.Fatal(err)
	}
	if way == "posted and awaited" {
		dev = &asynchronous{Device: dev}
	}
	s := acquire(t, joinOn(t, dev, dir, 1))
	if way == "posted" {
		posting(s)
	}
	return s
}

// join makes a coordinator that is closed with the test.
func join(t testing.TB, c *Cluster, dir Directory, sessions int, change ...func(*Config)) *Coordinator {
	t.Helper()
	dev, err := c.NewDevice("compute")
	if err != nil {
		t.Fatal(err)
	}
	return joinOn(t, dev, dir, sessions, change...)
}

// joinOn is join on a device.
func joinOn(t testing.TB, dev verbs.Device, dir Directory, sessions int, change ...func(*Config)) *Coordinator {
	t.Helper()
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

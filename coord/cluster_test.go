package coord

import (
	"context"
	"errors"
	"testing"

	"fjord/verbs"
	"fjord/verbs/mem"
)

// Ids are never given twice, places are.
func TestJoinAndLeave(t *testing.T) {
	c := newTestCluster(t, small(1, 1)) // 4 coordinators
	ctx := context.Background()
	ids := make(map[uint16]bool)
	var seats []Seat
	for range 4 {
		s, err := c.Join(ctx, &fakeMember{})
		if err != nil || ids[s.ID] || s.ID == 0 {
			t.Fatalf("seat %+v, %v", s, err)
		}
		ids[s.ID] = true
		seats = append(seats, s)
	}
	_, err := c.Join(ctx, &fakeMember{})
	wantErr(t, err, ErrNoSeat, "4 have joined", "Coordinators")
	for range 10 {
		if err := c.Leave(seats[2]); err != nil {
			t.Error(err)
		}
		if err := c.Leave(seats[2]); err != nil { // again: nothing
			t.Error(err)
		}
		s, err := c.Join(ctx, &fakeMember{})
		if err != nil || ids[s.ID] || s.Place != seats[2].Place {
			t.Fatalf("seat %+v, %v; want place %d with a fresh id", s, err, seats[2].Place)
		}
		ids[s.ID] = true
		seats[2] = s
	}
	c.nextID = noSeat - 1
	if err := c.Leave(seats[0]); err != nil {
		t.Error(err)
	}
	_, err = c.Join(ctx, &fakeMember{})
	wantErr(t, err, ErrNoSeat, "65534", "ids")
	for _, s := range seats {
		_ = c.Leave(s)
	}
}

// A node that does not exist, or was closed, is told as such.
func TestConnectToNobody(t *testing.T) {
	c := newTestCluster(t, small(2, 1))
	ctx := context.Background()
	for _, n := range []int{-1, 2} {
		_, err := c.Connect(ctx, n, 1, verbs.Endpoint{})
		wantErr(t, err, ErrNoNode, "there are 2")
		wantErr(t, c.Disconnect(ctx, n, 1), ErrNoNode)
	}
	if err := c.Node(1).Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Node(1).Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
	_, err := c.Connect(ctx, 1, 1, verbs.Endpoint{})
	wantErr(t, err, ErrNoNode, "memory node 1")
	if err := c.Disconnect(ctx, 1, 77); err != nil {
		t.Errorf("a QP of a node that is gone is gone: %v", err)
	}
	if err := c.Disconnect(ctx, 0, 77); err != nil {
		t.Errorf("a QP that is not there: %v", err)
	}
}

// A closed cluster refuses everything, and closes again without complaint.
func TestClosedCluster(t *testing.T) {
	c := newTestCluster(t, small(2, 1))
	ctx := context.Background()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := c.Layout(ctx)
	wantErr(t, err, ErrEnded)
	_, err = c.Join(ctx, &fakeMember{})
	wantErr(t, err, ErrEnded)
	_, err = c.NewEpoch(ctx)
	wantErr(t, err, ErrEnded)
	_, err = c.Connect(ctx, 0, 1, verbs.Endpoint{})
	wantErr(t, err, ErrNoNode)
	if err := c.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
}

// A cluster that cannot be started whole is not started, and what was is undone.
func TestClusterThatCannotStart(t *testing.T) {
	fabric := mem.NewFabric(nil)
	no := errors.New("no device")
	n := 0
	var first verbs.Device
	_, err := NewCluster(small(3, 1), func(name string) (verbs.Device, error) {
		if n++; n == 3 {
			return nil, no
		}
		d := fabric.NewDevice(name)
		if first == nil {
			first = d
		}
		return d, nil
	})
	wantErr(t, err, no, "memory node 2")
	if _, err := first.AllocPD(); err == nil {
		t.Error("the device of the first node was left open")
	}
	_, err = NewCluster(ClusterConfig{MemoryNodes: 1, Replicas: 2, NodeMemory: 1 << 20}, nil)
	wantErr(t, err, ErrConfig)
}

// A coordinator asks for no more sessions than there are log areas for.
func TestJoinWithTooManySessions(t *testing.T) {
	c := newTestCluster(t, small(1, 1)) // 8 sessions
	dev, err := c.NewDevice("compute")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	for _, n := range []int{0, -1, 9} {
		_, err := Join(context.Background(), c, dev, Config{Sessions: n, Cache: 8})
		wantErr(t, err, ErrConfig, "Sessions", "1 to 8")
	}
}

// Sums and differences of counters are field by field.
func TestVerbStats(t *testing.T) {
	a := VerbStats{1, 2, 3, 4, 5, 6, 7, 8}
	b := VerbStats{10, 20, 30, 40, 50, 60, 70, 80}
	sum := a
	sum.Add(&b)
	if sum != (VerbStats{11, 22, 33, 44, 55, 66, 77, 88}) {
		t.Errorf("sum is %+v", sum)
	}
	if d := sum.Sub(b); d != a {
		t.Errorf("difference is %+v", d)
	}
}

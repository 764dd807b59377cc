package coord

import (
	"context"
	"errors"

	"fjord/verbs"
)

// Errors of a Directory.
var (
	// ErrNoSeat: as many coordinators have joined as the cluster has log areas for.
	ErrNoSeat = errors.New("coord: no seat for another coordinator")
	// ErrNoNode: the memory node does not exist or does not answer.
	ErrNoNode = errors.New("coord: memory node not reachable")
	// ErrEnded: the cluster, or the coordinator's part in it, is closed.
	ErrEnded = errors.New("coord: closed")
)

// Directory is how coordinators and memory nodes find each other: it carries
// layout and QP parameters out of band. It is never on a transaction's path.
type Directory interface {
	Membership
	// Layout tells the cluster's shape.
	Layout(ctx context.Context) (*Layout, error)
	// Join admits a coordinator. m is called back until Leave.
	Join(ctx context.Context, m Member) (Seat, error)
	// Leave ends a coordinator's membership. Its id is not given again.
	Leave(s Seat) error
	// Connect makes the responder's QP at a memory node for the endpoint from of
	// coordinator id, in RTS when Connect returns. ErrFenced: the node refuses the
	// coordinator for ever.
	Connect(ctx context.Context, node int, id uint16, from verbs.Endpoint) (verbs.Endpoint, error)
	// Disconnect destroys the QP at a memory node. It returns when no request of
	// it is executing there any more.
	Disconnect(ctx context.Context, node int, qpn uint32) error
	// NewEpoch begins an epoch and returns its number once every member has
	// acknowledged it: has finished every transaction begun before, or was recovered.
	NewEpoch(ctx context.Context) (uint64, error)
}

// Seat is a coordinator's membership.
type Seat struct {
	ID    uint16 // never given twice
	Place int    // which log area is its own
	Epoch uint64 // in which it was given
	Beats bool   // its silence tells that it is dead
}

// Member is a coordinator as the directory sees it.
type Member interface {
	// Drain acknowledges an epoch: transactions that begin later act on what
	// the directory says since, and those begun before have ended when it returns.
	Drain(ctx context.Context, epoch uint64) error
	// Recovered tells of a coordinator whose locks may be released from now on.
	Recovered(id uint16)
	// Beats tells whether it shows heartbeats.
	Beats() bool
}

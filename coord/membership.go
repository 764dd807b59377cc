package coord

import (
	"context"
	"errors"
)

// Errors of a Membership.
var (
	// ErrFenced: this coordinator was taken for dead, and the memory nodes refuse it
	// for ever. What it had not committed is settled by others; it may join again,
	// under a new id. It comes wrapped with the id.
	ErrFenced = errors.New("coord: fenced: taken for dead by another coordinator")
	// ErrAlive: the coordinator that was to be recovered has shown a sign of life.
	ErrAlive = errors.New("coord: the coordinator is alive")
	// ErrClaimed: another coordinator, which is not fenced, recovers it.
	ErrClaimed = errors.New("coord: the recovery is claimed by another coordinator")
	// ErrNoMember: there is nothing to recover: nobody has this id, its holder has
	// left, or was recovered to the end.
	ErrNoMember = errors.New("coord: no such member")
)

// Membership is what a Directory knows of coordinators that may have died. A
// recovery goes through it in this order; each step is refused to whoever does not
// hold the claim, and may be repeated:
//
//	Claim    one coordinator is to recover the suspect
//	Fence    no memory node executes anything of the suspect any more
//	Settled  its transactions are committed or undone; what it had locked and not
//	         logged may be released by anybody who meets it
//	Swept    no lock of it is left; its place is free
type Membership interface {
	// Members tells who has joined and has neither left nor been swept, by id.
	Members(ctx context.Context) ([]Seat, error)
	// Claim gives the recovery of the suspect to by, if beat is still the newest that
	// the suspect has shown, and if nobody has the claim, or he who has it has left or
	// is fenced everywhere. So a recoverer that stalled cannot go on when another has
	// begun.
	Claim(ctx context.Context, by, suspect uint16, beat uint64) error
	// Fence has every memory node destroy the suspect's QPs, and refuse it from now
	// on. It returns when none of its requests is executing anywhere.
	Fence(ctx context.Context, by, suspect uint16) error
	// Settled lists the suspect as one whose locks may be released, and counts it as
	// drained in every epoch.
	Settled(ctx context.Context, by, suspect uint16) error
	// Swept ends the suspect's membership: its place may be given to another.
	Swept(ctx context.Context, by, suspect uint16) error
}

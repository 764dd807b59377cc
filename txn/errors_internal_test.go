package txn

import (
	"errors"
	"fmt"
	"testing"

	"fjord/coord"
)

// What the layer below refuses a session or a seat with comes out as an error of
// this one, and keeps what it says.
func TestErrorsOfSessions(t *testing.T) {
	for below, want := range map[error]error{
		coord.ErrNested: ErrNested, coord.ErrEnded: ErrClosed, coord.ErrNoSession: ErrFull, coord.ErrNoSeat: ErrFull,
		coord.ErrNoNode: ErrUnavailable, coord.ErrConfig: ErrOptions,
	} {
		err := sessionError(fmt.Errorf("in detail: %w", below))
		if !errors.Is(err, want) {
			t.Errorf("%v becomes %v, want one that is %v", below, err, want)
		}
		if below != coord.ErrNested && !errors.Is(err, below) {
			t.Errorf("%v is lost in %v", below, err)
		}
	}
	other := errors.New("other")
	if err := sessionError(other); err != other {
		t.Errorf("got %v", err)
	}
}

// The reasons in histories are words that a reader knows.
func TestReasonsInHistories(t *testing.T) {
	for want, err := range map[string]error{
		"unknown": &UnknownError{Cause: errors.New("x")}, "locked": fmt.Errorf("x: %w", &ConflictError{Reason: ReasonLocked}),
		"unavailable": &brokenError{errors.New("x")}, "rollback": errors.New("x"),
	} {
		if got := reasonOf(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
	cause := errors.New("cause")
	var unknown error = &UnknownError{ID: 7, Cause: cause}
	var broken error = &brokenError{cause}
	if !errors.Is(unknown, ErrCommitUnknown) || !errors.Is(unknown, cause) || !errors.Is(broken, ErrUnavailable) || !errors.Is(broken, cause) {
		t.Error("an error does not lead to its cause")
	}
}

package verbs

import "errors"

// Errors that calls return at once. What happens to a request after it was
// accepted is told by the Status of its completion instead.
var (
	// ErrInvalid: an argument is out of range or contradicts another; the call
	// did nothing. Don't retry.
	ErrInvalid = errors.New("verbs: invalid argument")
	// ErrState: the QP is in a state that does not allow the call. Don't retry
	// before a Modify.
	ErrState = errors.New("verbs: wrong QP state")
	// ErrQueueFull: no free slot in the send or receive queue. Retry after
	// polling a signaled completion.
	ErrQueueFull = errors.New("verbs: work queue full")
	// ErrBusy: the object is still used by another. Retry after closing that.
	ErrBusy = errors.New("verbs: object in use")
	// ErrClosed: the object, or the device it belongs to, was closed.
	ErrClosed = errors.New("verbs: closed")
	// ErrLimit: a limit of the device (DeviceAttr) is reached.
	ErrLimit = errors.New("verbs: device limit reached")
	// ErrUnsupported: the provider lacks this; DeviceAttr.Caps says what it has.
	ErrUnsupported = errors.New("verbs: not supported by this provider")
	// ErrTimeout: a wait reached its deadline.
	ErrTimeout = errors.New("verbs: deadline passed")
)

package layout

import "strconv"

// Version is the version word of a cell: two flags and a counter that only grows, also across deletion and
// reuse of the slot.
type Version uint64

const (
	// Pending marks an image at the primary that is written but not yet known to be committed. Only the
	// unlock after the commit point clears it, so the sum leaves it out.
	Pending Version = 1 << 63
	// Absent marks a cell that holds no record: deleted, or never inserted.
	Absent Version = 1 << 62
	// CounterMask selects the counter.
	CounterMask Version = Absent - 1
)

// Counter returns the version without its flags.
func (v Version) Counter() uint64 { return uint64(v & CounterMask) }

// IsPending reports whether the image is not yet known to be committed.
func (v Version) IsPending() bool { return v&Pending != 0 }

// IsAbsent reports whether the cell is marked as holding no record. A virgin cell (Verify) holds none
// either, and has version 0 without this mark.
func (v Version) IsAbsent() bool { return v&Absent != 0 }

// WithoutPending returns the version as it stands after the unlock.
func (v Version) WithoutPending() Version { return v &^ Pending }

// String formats the counter and the names of the flags that are set: "7", "7+absent+pending".
func (v Version) String() string {
	s := strconv.FormatUint(v.Counter(), 10)
	if v.IsAbsent() {
		s += "+absent"
	}
	if v.IsPending() {
		s += "+pending"
	}
	return s
}

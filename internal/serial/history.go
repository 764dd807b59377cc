package serial

import "fmt"

// Outcome says how an attempt ended, as far as its client knows.
type Outcome uint8

const (
	// Commit: the client was told that the attempt committed.
	Commit Outcome = iota + 1
	// Abort: the client was told that the attempt had no effect.
	Abort
	// Unknown: the client was told neither; the attempt may take effect at any time after its begin,
	// also after its end (a recovery may settle it later), or never.
	Unknown
)

// String returns the outcome as the history file spells it.
func (o Outcome) String() string {
	switch o {
	case Commit:
		return "commit"
	case Abort:
		return "abort"
	case Unknown:
		return "unknown"
	}
	return fmt.Sprintf("outcome(%d)", uint8(o))
}

// History is a set of recorded attempts. Their order in the slice means nothing.
type History struct {
	Header   map[string]any // the first line of the file, as it stood; may be nil
	Attempts []Attempt
}

// Attempt is one run of a transaction's function: what it saw, what it installed, and when.
type Attempt struct {
	ID      string // unique in the history
	Session string // attempts of one session must not overlap in time
	Type    string // the transaction's name, for the explanations
	Begin   int64  // ns, taken before the first verb
	End     int64  // ns, taken after the answer; on the same clock as every other Begin and End
	Outcome Outcome
	Reason  string // why it aborted
	// Reads are what the attempt saw of the store before its own writes.
	Reads  []Read
	Writes []Write
	Scans  []Scan
}

// Read is one key that an attempt read.
type Read struct {
	Table   string
	Key     string // raw bytes; explanations print them in hex, as the history file does
	Version uint64 // 0: the key was absent
}

// Write is one key that an attempt wrote. An attempt that writes a key several times may record only the
// last version, or each; only the last one is ever to be seen by others.
type Write struct {
	Table   string
	Key     string
	Prev    uint64 // version replaced; 0 if the key was absent
	Version uint64 // version installed, greater than every earlier one of this key
	Delete  bool   // the key is absent from this version on: readers see 0, the next insert has Prev 0
}

// Scan is one range read: the keys listed were there at the versions given, and every other key of the
// table in [From, To) was absent.
type Scan struct {
	Table string
	From  string
	To    string // excluded; "" is the end of the table
	Keys  []KeyVersion
}

// KeyVersion is one key found by a scan.
type KeyVersion struct {
	Key     string
	Version uint64
}

// Join makes one history of those of several processes that share a clock (one host). Sessions are
// private to a process, so they are prefixed with its name; ids are prefixed only when they collide.
// names and hs have the same length. The attempts' slices are shared with hs.
func Join(names []string, hs []*History) *History {
	if len(hs) == 1 {
		return hs[0]
	}
	total := 0
	for _, h := range hs {
		total += len(h.Attempts)
	}
	seen := make(map[string]struct{}, total)
	clash := false
	out := &History{Attempts: make([]Attempt, 0, total)}
	for i, h := range hs {
		if i == 0 {
			out.Header = h.Header
		}
		sessions := map[string]string{}
		for _, a := range h.Attempts {
			if _, dup := seen[a.ID]; dup {
				clash = true
			}
			seen[a.ID] = struct{}{}
			s, ok := sessions[a.Session]
			if !ok {
				s = names[i] + "/" + a.Session
				sessions[a.Session] = s
			}
			a.Session = s
			out.Attempts = append(out.Attempts, a)
		}
	}
	if clash {
		k := 0
		for i, h := range hs {
			for range h.Attempts {
				out.Attempts[k].ID = names[i] + "/" + out.Attempts[k].ID
				k++
			}
		}
	}
	return out
}

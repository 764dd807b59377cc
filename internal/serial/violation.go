package serial

import (
	"fmt"
	"strings"
	"time"
)

// Kind says what is wrong. The G names are Adya's.
type Kind uint8

const (
	// Recording: the history contradicts itself (overlapping attempts of one session, begin after end);
	// the recorder is at fault, not the store.
	Recording Kind = iota + 1
	// AbortedRead (G1a): a version was seen that only an aborted attempt wrote.
	AbortedRead
	// IntermediateRead (G1b): a version was seen that its own writer replaced again.
	IntermediateRead
	// PhantomVersion: a version was seen that nobody installed, or that of a deletion.
	PhantomVersion
	// DuplicateVersion: two committed attempts installed the same version of a key.
	DuplicateVersion
	// VersionOrder: a version is not greater than the one it replaced.
	VersionOrder
	// LostUpdate: two committed attempts replaced the same version of a key.
	LostUpdate
	// BrokenChain: a version replaced is not the one that was there.
	BrokenChain
	// HalfVisible: an attempt of unknown outcome took effect in one place and not in another.
	HalfVisible
	// ImpossibleAbsence: a key was found absent that was never so.
	ImpossibleAbsence
	// WriteCycle (G0): a cycle of ww edges.
	WriteCycle
	// CircularFlow (G1c): a cycle of ww and wr edges.
	CircularFlow
	// ReadSkew (G-single): a cycle with exactly one rw edge.
	ReadSkew
	// WriteSkew (G2): a cycle with two or more rw edges. With scans it is the phantom.
	WriteSkew
	// RealTime: serializable as far as this cycle goes, but only against the clock.
	RealTime
	// Unplaceable: every way to place the reads of absent keys ends in a cycle.
	Unplaceable
)

var kindNames = [...]string{
	Recording:         "recording error",
	AbortedRead:       "aborted read (G1a)",
	IntermediateRead:  "intermediate read (G1b)",
	PhantomVersion:    "phantom version",
	DuplicateVersion:  "duplicate version",
	VersionOrder:      "version order broken",
	LostUpdate:        "lost update",
	BrokenChain:       "broken version chain",
	HalfVisible:       "half-visible unknown",
	ImpossibleAbsence: "impossible absence",
	WriteCycle:        "write cycle (G0)",
	CircularFlow:      "circular information flow (G1c)",
	ReadSkew:          "read skew (G-single)",
	WriteSkew:         "write skew (G2)",
	RealTime:          "real-time violation",
	Unplaceable:       "unplaceable reads",
}

// String returns the kind in words, with Adya's name where there is one.
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Violation is one proof that the history is not strictly serializable.
type Violation struct {
	Kind Kind
	// Attempts are T1, T2, ... of the explanation. Those of a cycle are in the order of its edges.
	Attempts []*Attempt
	text     string
}

// Explain tells the violation in words: a title, who the transactions are, and what each edge rests on.
func (v *Violation) Explain() string { return v.text }

// teller writes an explanation.
type teller struct {
	r     *run
	atts  []int32
	names map[int32]string
	lines []string
}

func (r *run) tell(atts ...int32) *teller {
	t := &teller{r: r, names: map[int32]string{}}
	for _, a := range atts {
		t.name(a)
	}
	return t
}

// name returns T1, T2, ... in the order of first mention.
func (t *teller) name(a int32) string {
	if n, ok := t.names[a]; ok {
		return n
	}
	n := fmt.Sprintf("T%d", len(t.atts)+1)
	t.names[a] = n
	t.atts = append(t.atts, a)
	return n
}

func (t *teller) say(format string, args ...any) {
	t.lines = append(t.lines, fmt.Sprintf(format, args...))
}

func (t *teller) violation(kind Kind, title string) Violation {
	v := Violation{Kind: kind}
	var b strings.Builder
	b.WriteString(kind.String())
	if title != "" {
		b.WriteString(": " + title)
	}
	b.WriteByte('\n')
	h := t.r.ix.h
	for i := 0; i < len(t.atts); i++ { // the reason of an unknown attempt may name one more
		a := t.atts[i]
		at := &h.Attempts[a]
		v.Attempts = append(v.Attempts, at)
		fmt.Fprintf(&b, "  T%d is %s (", i+1, at.ID)
		if at.Type != "" {
			fmt.Fprintf(&b, "%s, ", at.Type)
		}
		fmt.Fprintf(&b, "session %s, %s to %s, outcome %s", at.Session,
			duration(at.Begin-t.r.ix.origin), duration(at.End-t.r.ix.origin), at.Outcome)
		if why, ok := t.r.why[a]; ok {
			fmt.Fprintf(&b, ", taken as committed because %s", t.because(why))
		}
		b.WriteString(")\n")
	}
	for _, l := range t.lines {
		b.WriteString("  - " + l + "\n")
	}
	v.text = b.String()
	return v
}

func (ix *index) name(key int32) string {
	return ix.tables[ix.keys[key].table] + "/" + hexKey(ix.keys[key].key)
}

func hexKey(k string) string { return fmt.Sprintf("%x", k) }

func duration(ns int64) string { return time.Duration(ns).String() }

func (s *Scan) bounds() string {
	from, to := hexKey(s.From), hexKey(s.To)
	if s.To == "" {
		to = "end"
	}
	return fmt.Sprintf("%s [%s, %s)", s.Table, from, to)
}

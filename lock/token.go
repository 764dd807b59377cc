package lock

import "fmt"

// Token names one transaction attempt, for ever: coordinator (16 bits), session
// (16 bits), sequence (32 bits). It stands in lock words, in the writer field of
// the images the transaction wrote, and in its log entries. 0 is no token.
type Token uint64

// LeaseSession is the session number that no session has: it marks a lease held
// by a coordinator as a whole.
const LeaseSession = 1<<16 - 1

// MakeToken joins the parts. Coordinator numbers begin at 1, so no token is 0.
func MakeToken(coordinator, session uint16, seq uint32) Token {
	return Token(uint64(coordinator)<<48 | uint64(session)<<32 | uint64(seq))
}

// Coordinator returns the coordinator that the transaction ran on.
func (t Token) Coordinator() uint16 { return uint16(t >> 48) }

// Session returns the session within the coordinator.
func (t Token) Session() uint16 { return uint16(t >> 32) }

// Sequence returns the number of the attempt within the session.
func (t Token) Sequence() uint32 { return uint32(t) }

// String formats the token as coordinator.session.sequence.
func (t Token) String() string {
	return fmt.Sprintf("%d.%d.%d", t.Coordinator(), t.Session(), t.Sequence())
}

package verbs

import (
	"fmt"
	"strings"
)

// QPState is a state of a queue pair.
type QPState uint8

// The states. SQD and SQE are left out: fjord drains by waiting, and an RC QP
// goes to ERR at once.
const (
	StateReset QPState = iota
	StateInit
	StateRTR
	StateRTS
	StateErr
)

// String returns RESET, INIT, RTR, RTS or ERR.
func (s QPState) String() string {
	switch s {
	case StateReset:
		return "RESET"
	case StateInit:
		return "INIT"
	case StateRTR:
		return "RTR"
	case StateRTS:
		return "RTS"
	case StateErr:
		return "ERR"
	}
	return fmt.Sprintf("QPState(%d)", uint8(s))
}

// QPInit is what a QP is created with.
type QPInit struct {
	SendCQ, RecvCQ CQ
	MaxSendWR      int    // slots of the send queue
	MaxRecvWR      int    // slots of the receive queue; 0: none can be posted
	MaxSendSGE     int    // pieces of one send request
	MaxRecvSGE     int    // pieces of one receive request
	MaxInline      uint32 // bytes
	SignalAll      bool   // every send request is signaled
}

// QPAttr are the attributes that Modify sets and Query returns. Which of them a
// Modify means is told by its mask.
type QPAttr struct {
	State           QPState
	PKeyIndex       uint16
	Port            uint8
	Access          Access // what remote peers may do through this QP
	PathMTU         uint32 // 256, 512, 1024, 2048 or 4096
	DestGID         GID
	DestQPN         uint32
	RQPSN           uint32 // first PSN expected from the peer, 24 bits
	MaxDestRdAtomic uint8  // READs and atomics accepted in flight
	MinRNRTimer     uint8  // code 0–31 of the wait that a peer is told when no receive is posted
	SQPSN           uint32 // first PSN sent, 24 bits
	Timeout         uint8  // 4.096 µs · 2^n, 0–31, 0: none
	RetryCnt        uint8  // 0–7
	RNRRetry        uint8  // 0–7, 7: for ever
	MaxRdAtomic     uint8  // READs and atomics kept in flight
}

// AttrMask says which fields of a QPAttr are meant.
type AttrMask uint32

// One bit for each attribute; AttrDest means DestGID.
const (
	AttrState AttrMask = 1 << iota
	AttrPKeyIndex
	AttrPort
	AttrAccess
	AttrPathMTU
	AttrDest
	AttrDestQPN
	AttrRQPSN
	AttrMaxDestRdAtomic
	AttrMinRNRTimer
	AttrSQPSN
	AttrTimeout
	AttrRetryCnt
	AttrRNRRetry
	AttrMaxRdAtomic
	attrEnd
)

var attrNames = []string{"State", "PKeyIndex", "Port", "Access", "PathMTU", "Dest", "DestQPN", "RQPSN",
	"MaxDestRdAtomic", "MinRNRTimer", "SQPSN", "Timeout", "RetryCnt", "RNRRetry", "MaxRdAtomic"}

// String lists the attributes of the mask.
func (m AttrMask) String() string {
	var s []string
	for i, n := range attrNames {
		if m&(1<<i) != 0 {
			s = append(s, n)
		}
	}
	return strings.Join(s, "|")
}

// What ibv_modify_qp(3) wants for an RC QP.
const (
	needInit = AttrPKeyIndex | AttrPort | AttrAccess
	needRTR  = AttrDest | AttrPathMTU | AttrDestQPN | AttrRQPSN | AttrMaxDestRdAtomic | AttrMinRNRTimer
	needRTS  = AttrSQPSN | AttrTimeout | AttrRetryCnt | AttrRNRRetry | AttrMaxRdAtomic
)

// CheckModify decides whether a QP in state cur may be modified so: it is the
// one table of transitions and required attributes that all providers share.
// The error names the attribute or the move that is wrong and what would be right.
func CheckModify(cur QPState, a *QPAttr, mask AttrMask) error {
	next := cur
	if mask&AttrState != 0 {
		next = a.State
	}
	var need, may AttrMask
	switch {
	case next == StateReset, next == StateErr:
	case cur == StateReset && next == StateInit:
		need = needInit
	case cur == StateInit && next == StateInit:
		may = needInit
	case cur == StateInit && next == StateRTR:
		need, may = needRTR, AttrAccess|AttrPKeyIndex
	case cur == StateRTR && next == StateRTS:
		need, may = needRTS, AttrAccess|AttrMinRNRTimer
	case cur == StateRTS && next == StateRTS:
		may = AttrAccess | AttrMinRNRTimer
	default:
		return fmt.Errorf("%w: %v to %v: the moves are RESET→INIT→RTR→RTS, any→ERR, any→RESET", ErrState, cur, next)
	}
	got := mask &^ AttrState
	if got >= attrEnd {
		return fmt.Errorf("%w: attribute mask %#x has unknown bits", ErrInvalid, uint32(mask))
	}
	if missing := need &^ got; missing != 0 {
		return fmt.Errorf("%w: %v to %v needs %v as well", ErrInvalid, cur, next, missing)
	}
	if extra := got &^ (need | may); extra != 0 {
		return fmt.Errorf("%w: %v cannot be set in the move %v to %v", ErrInvalid, extra, cur, next)
	}
	return checkAttrValues(a, got)
}

func checkAttrValues(a *QPAttr, got AttrMask) error {
	bad := func(name string, v, lo, hi uint32) error {
		return fmt.Errorf("%w: %s is %d, right is %d to %d", ErrInvalid, name, v, lo, hi)
	}
	switch {
	case got&AttrPort != 0 && a.Port == 0:
		return fmt.Errorf("%w: Port is 0, ports count from 1", ErrInvalid)
	case got&AttrAccess != 0 && a.Access&^AccessAll != 0:
		return bad("Access", uint32(a.Access), 0, uint32(AccessAll))
	case got&AttrPathMTU != 0 && !validMTU(a.PathMTU):
		return fmt.Errorf("%w: PathMTU is %d, right is 256, 512, 1024, 2048 or 4096", ErrInvalid, a.PathMTU)
	case got&AttrDestQPN != 0 && a.DestQPN>>24 != 0:
		return bad("DestQPN", a.DestQPN, 0, 1<<24-1)
	case got&AttrRQPSN != 0 && a.RQPSN>>24 != 0:
		return bad("RQPSN", a.RQPSN, 0, 1<<24-1)
	case got&AttrSQPSN != 0 && a.SQPSN>>24 != 0:
		return bad("SQPSN", a.SQPSN, 0, 1<<24-1)
	case got&AttrMinRNRTimer != 0 && a.MinRNRTimer > 31:
		return bad("MinRNRTimer", uint32(a.MinRNRTimer), 0, 31)
	case got&AttrTimeout != 0 && a.Timeout > 31:
		return bad("Timeout", uint32(a.Timeout), 0, 31)
	case got&AttrRetryCnt != 0 && a.RetryCnt > 7:
		return bad("RetryCnt", uint32(a.RetryCnt), 0, 7)
	case got&AttrRNRRetry != 0 && a.RNRRetry > 7:
		return bad("RNRRetry", uint32(a.RNRRetry), 0, 7)
	}
	return nil
}

func validMTU(m uint32) bool {
	return m == 256 || m == 512 || m == 1024 || m == 2048 || m == 4096
}

// rnrTimers are the waits of the RNR NAK timer codes, in units of 10 µs.
var rnrTimers = [32]uint32{65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
	1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152}

// RNRTimer returns the wait in nanoseconds that an RNR NAK timer code means
// (0 is the longest, 655.36 ms).
func RNRTimer(code uint8) int64 { return int64(rnrTimers[code&31]) * 10_000 }

// QP is a reliable-connected queue pair. Its methods may be called from any
// goroutine; two that post at once are put in some order.
type QP interface {
	// Num is the queue pair's number, 24 bits.
	Num() uint32
	// State returns the present state.
	State() QPState
	// Modify moves the QP as CheckModify allows. A move to ERR flushes both
	// queues and returns only when no request of the peer is executing here.
	Modify(a QPAttr, mask AttrMask) error
	// Query returns the attributes.
	Query() QPAttr
	// PostSend hands requests over in order, with one doorbell. It returns how
	// many were accepted; with an error that is the index of the first that was
	// not. In ERR they are accepted and complete with StatusWRFlushErr.
	PostSend(wrs []SendWR) (posted int, err error)
	// PostRecv does so for the receive queue; allowed from INIT on. A receive gives
	// its slot back when its completion is polled.
	PostRecv(wrs []RecvWR) (posted int, err error)
	// Close destroys the QP. Requests not yet polled are forgotten. It returns
	// only when no request of the peer is executing here.
	Close() error
}

// Endpoint is what the other side must know of a QP: exchanged out of band.
type Endpoint struct {
	GID GID
	QPN uint32
	PSN uint32 // first PSN this side sends
}

// ConnAttr are the attributes of a connection that are not found out by
// exchange. Begin with DefaultConnAttr: the zero value connects nothing.
type ConnAttr struct {
	Access      Access
	MTU         uint32
	RdAtomic    uint8
	MinRNRTimer uint8
	Timeout     uint8
	RetryCnt    uint8
	RNRRetry    uint8
}

// DefaultConnAttr gives every remote right, the device's MTU and depth, about
// 67 ms × 7 before a silent peer is an error, and waits for receives for ever.
func DefaultConnAttr(d DeviceAttr) ConnAttr {
	return ConnAttr{Access: AccessAll, MTU: d.ActiveMTU, RdAtomic: d.MaxQPRdAtomic,
		MinRNRTimer: 12, Timeout: 14, RetryCnt: 7, RNRRetry: 7}
}

// BringUp takes a QP from RESET to RTS: local is this side, remote the peer.
func BringUp(qp QP, local, remote Endpoint, c ConnAttr) error {
	steps := []struct {
		attr QPAttr
		mask AttrMask
	}{
		{QPAttr{State: StateInit, Port: 1, Access: c.Access}, AttrState | needInit},
		{QPAttr{State: StateRTR, DestGID: remote.GID, DestQPN: remote.QPN, RQPSN: remote.PSN, PathMTU: c.MTU,
			MaxDestRdAtomic: c.RdAtomic, MinRNRTimer: c.MinRNRTimer}, AttrState | needRTR},
		{QPAttr{State: StateRTS, SQPSN: local.PSN, Timeout: c.Timeout, RetryCnt: c.RetryCnt,
			RNRRetry: c.RNRRetry, MaxRdAtomic: c.RdAtomic}, AttrState | needRTS},
	}
	for _, s := range steps {
		if err := qp.Modify(s.attr, s.mask); err != nil {
			return fmt.Errorf("bring QP %#x to %v: %w", qp.Num(), s.attr.State, err)
		}
	}
	return nil
}

package verbs

import "fmt"

// Opcode is what a send request does.
type Opcode uint8

// The operations of a reliable-connected QP. OpInvalid is the zero value, so
// that a forgotten opcode is refused.
const (
	OpInvalid Opcode = iota
	OpWrite
	OpWriteImm
	OpSend
	OpSendImm
	OpRead
	OpCAS // compare and swap of 8 aligned bytes
	OpFAA // fetch and add of 8 aligned bytes

	// NumOpcodes bounds arrays that are indexed by Opcode.
	NumOpcodes = int(OpFAA) + 1
)

// String returns the usual name of the operation.
func (o Opcode) String() string {
	switch o {
	case OpInvalid:
		return "INVALID"
	case OpWrite:
		return "WRITE"
	case OpWriteImm:
		return "WRITE_WITH_IMM"
	case OpSend:
		return "SEND"
	case OpSendImm:
		return "SEND_WITH_IMM"
	case OpRead:
		return "READ"
	case OpCAS:
		return "CAS"
	case OpFAA:
		return "FAA"
	}
	return fmt.Sprintf("Opcode(%d)", uint8(o))
}

// SendFlags modify a send request.
type SendFlags uint8

// The flags of a send request.
const (
	// FlagSignaled asks for a completion on success.
	FlagSignaled SendFlags = 1 << iota
	// FlagFence starts the request only after all earlier READs and atomics of
	// this QP have completed.
	FlagFence
	// FlagInline copies the payload while posting: the buffer is free again when
	// PostSend returns, and its lkey is not looked at. WRITE and SEND only, at
	// most the QP's MaxInline bytes.
	FlagInline
	// FlagSolicited raises a completion event at the receiver that waits for
	// solicited ones.
	FlagSolicited
)

// SGE names a piece of local registered memory.
type SGE struct {
	Addr   uint64 // within [MR.Addr, MR.Addr+MR.Length)
	Length uint32 // bytes
	LKey   uint32
}

// SendWR is a request for the send queue.
type SendWR struct {
	ID         uint64 // returned in WC.ID
	SGL        []SGE  // payload (WRITE, SEND) or destination (READ, CAS, FAA: one piece of 8 bytes)
	RemoteAddr uint64 // WRITE, READ, CAS, FAA
	CompareAdd uint64 // CAS: expected value; FAA: what to add
	Swap       uint64 // CAS: new value
	RKey       uint32 // WRITE, READ, CAS, FAA
	Imm        uint32 // WRITE_WITH_IMM, SEND_WITH_IMM
	Opcode     Opcode
	Flags      SendFlags
}

// RecvWR is a request for the receive queue: where the next SEND goes, or
// which the next WRITE_WITH_IMM consumes.
type RecvWR struct {
	ID  uint64
	SGL []SGE
}

// WCOpcode is what a completion completes.
type WCOpcode uint8

// The kinds of completions. They are valid in failed completions too.
const (
	WCSend WCOpcode = iota
	WCWrite
	WCRead
	WCCAS
	WCFAA
	WCRecv        // a SEND arrived
	WCRecvWithImm // a WRITE_WITH_IMM arrived and consumed a receive
)

// String returns the name of the completed operation.
func (o WCOpcode) String() string {
	switch o {
	case WCSend:
		return "SEND"
	case WCWrite:
		return "WRITE"
	case WCRead:
		return "READ"
	case WCCAS:
		return "CAS"
	case WCFAA:
		return "FAA"
	case WCRecv:
		return "RECV"
	case WCRecvWithImm:
		return "RECV_WITH_IMM"
	}
	return fmt.Sprintf("WCOpcode(%d)", uint8(o))
}

// Completion returns the kind of completion that a request with this opcode has.
func (o Opcode) Completion() WCOpcode {
	switch o {
	case OpWrite, OpWriteImm:
		return WCWrite
	case OpRead:
		return WCRead
	case OpCAS:
		return WCCAS
	case OpFAA:
		return WCFAA
	case OpSend, OpSendImm, OpInvalid:
		return WCSend
	}
	return WCSend
}

// WCFlags say which optional fields of a completion hold something.
type WCFlags uint8

// WCWithImm: WC.Imm is valid.
const WCWithImm WCFlags = 1

// WC is a work completion. After a Status other than success only ID, Status,
// Opcode, QPN and VendorErr mean something.
type WC struct {
	ID        uint64
	ByteLen   uint32 // bytes received (RECV), read (READ) or 8 (atomics)
	QPN       uint32 // the local QP
	Imm       uint32
	VendorErr uint32
	Status    Status
	Opcode    WCOpcode
	Flags     WCFlags
}

// Err returns nil, or a *StatusError.
func (w *WC) Err() error {
	if w.Status == StatusSuccess {
		return nil
	}
	return &StatusError{Status: w.Status, Opcode: w.Opcode, QPN: w.QPN, Vendor: w.VendorErr}
}

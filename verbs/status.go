package verbs

import "fmt"

// Status is the outcome of a completed work request: ibv_wc_status, value for
// value.
type Status uint8

// The codes of ibv_wc_status.
const (
	StatusSuccess Status = iota
	StatusLocLenErr
	StatusLocQPOpErr
	StatusLocEECOpErr
	StatusLocProtErr
	StatusWRFlushErr
	StatusMWBindErr
	StatusBadRespErr
	StatusLocAccessErr
	StatusRemInvReqErr
	StatusRemAccessErr
	StatusRemOpErr
	StatusRetryExcErr
	StatusRNRRetryExcErr
	StatusLocRDDViolErr
	StatusRemInvRDReqErr
	StatusRemAbortErr
	StatusInvEECNErr
	StatusInvEECStateErr
	StatusFatalErr
	StatusRespTimeoutErr
	StatusGeneralErr
	StatusTMErr
	StatusTMRndvIncomplete

	// NumStatus is the number of status codes.
	NumStatus = int(StatusTMRndvIncomplete) + 1
)

// Diagnosis explains a Status to somebody who has to do something about it.
type Diagnosis struct {
	Meaning string // what the code says
	Causes  string // what usually brings it about
	Check   string // what to look at next
}

var statuses = [NumStatus]struct {
	name string
	diag Diagnosis
}{
	StatusSuccess: {"SUCCESS", Diagnosis{
		"the request completed", "–", "nothing"}},
	StatusLocLenErr: {"LOC_LEN_ERR", Diagnosis{
		"a local length is wrong: the message exceeds the port's maximum, an atomic's buffer is not 8 bytes, or an arriving message is longer than the posted receive",
		"receive buffers smaller than the peer's sends; an atomic with an SGE that is not 8 bytes; a message above DeviceAttr.MaxMsgSize",
		"the SGE lengths of this request and, for a receive, the length the peer sent"}},
	StatusLocQPOpErr: {"LOC_QP_OP_ERR", Diagnosis{
		"the QP found the request inconsistent while processing it",
		"an opcode this QP type lacks; a damaged work queue entry",
		"opcode, number of SGEs and the QP's type"}},
	StatusLocEECOpErr: {"LOC_EEC_OP_ERR", Diagnosis{
		"an end-to-end context found the request inconsistent (RD transport only)",
		"not produced on RC queue pairs", "the provider; report it as a bug"}},
	StatusLocProtErr: {"LOC_PROT_ERR", Diagnosis{
		"an SGE does not lie in a memory region that this QP may use",
		"wrong or deregistered lkey; the buffer runs past its region; region and QP have different PDs; a READ or atomic result into a region without AccessLocalWrite",
		"lkey, address and length of each SGE against MR.Addr and MR.Length, and the PDs"}},
	StatusWRFlushErr: {"WR_FLUSH_ERR", Diagnosis{
		"the request was not executed, or its outcome is not known: the QP was in, or went to, the ERR state",
		"an earlier request of this QP failed; the QP was moved to ERR or fenced; the peer destroyed its side",
		"the first completion of this QP that is not a flush: it carries the cause"}},
	StatusMWBindErr: {"MW_BIND_ERR", Diagnosis{
		"a memory window could not be bound", "fjord binds no memory windows",
		"the provider; report it as a bug"}},
	StatusBadRespErr: {"BAD_RESP_ERR", Diagnosis{
		"the responder's answer does not fit the request",
		"a response opcode out of sequence, a wrong response length; two QPs mixed up after a number was used again",
		"whether both ends agree on QPN, PSN and MTU; a capture of the wire"}},
	StatusLocAccessErr: {"LOC_ACCESS_ERR", Diagnosis{
		"a local protection check failed while data arrived (WRITE with immediate)",
		"the receive's region lost its right or was deregistered",
		"the regions of the posted receives"}},
	StatusRemInvReqErr: {"REM_INV_REQ_ERR", Diagnosis{
		"the responder refused the request as invalid",
		"an atomic at an address that is not a multiple of 8; a message longer than the receive posted for it; an operation that the responder's QP does not accept; more READs and atomics in flight than max_dest_rd_atomic",
		"alignment of RemoteAddr; the peer's receive lengths; MaxRdAtomic on this side against MaxDestRdAtomic on the other"}},
	StatusRemAccessErr: {"REM_ACCESS_ERR", Diagnosis{
		"the responder's protection check failed",
		"wrong, stale or deregistered rkey; a range outside the region; a right that region or QP was not given; region and responder QP in different PDs",
		"rkey and range against what the directory says now; AccessRemote* of the region and of the peer's QP; whether the memory node restarted"}},
	StatusRemOpErr: {"REM_OP_ERR", Diagnosis{
		"the responder could not complete the request for a reason of its own",
		"a fault of the peer's device or memory", "the peer's logs and its device's counters"}},
	StatusRetryExcErr: {"RETRY_EXC_ERR", Diagnosis{
		"the peer did not answer within timeout × retry count",
		"the peer is down, its QP is not at least in RTR, was destroyed, or expects other PSNs; wrong GID or MTU; packets lost by the fabric; a firewall on UDP 4791",
		"whether the memory node lives; QPN, PSN, GID and MTU on both ends; ping between the data ports"}},
	StatusRNRRetryExcErr: {"RNR_RETRY_EXC_ERR", Diagnosis{
		"the peer had no receive posted, for longer than rnr_retry allows",
		"the peer posts receives too late or too few; it is not polling",
		"the peer's receive queue depth; RNRRetry (7 is for ever) and the peer's MinRNRTimer"}},
	StatusLocRDDViolErr: {"LOC_RDD_VIOL_ERR", Diagnosis{
		"reliable datagram domains differ (RD transport only)",
		"not produced on RC queue pairs", "the provider; report it as a bug"}},
	StatusRemInvRDReqErr: {"REM_INV_RD_REQ_ERR", Diagnosis{
		"the responder refused a reliable datagram (RD transport only)",
		"not produced on RC queue pairs", "the provider; report it as a bug"}},
	StatusRemAbortErr: {"REM_ABORT_ERR", Diagnosis{
		"the responder aborted the operation", "the peer's QP was moved to ERR during it",
		"the peer's asynchronous events"}},
	StatusInvEECNErr: {"INV_EECN_ERR", Diagnosis{
		"an invalid end-to-end context number (RD transport only)",
		"not produced on RC queue pairs", "the provider; report it as a bug"}},
	StatusInvEECStateErr: {"INV_EEC_STATE_ERR", Diagnosis{
		"an end-to-end context in the wrong state (RD transport only)",
		"not produced on RC queue pairs", "the provider; report it as a bug"}},
	StatusFatalErr: {"FATAL_ERR", Diagnosis{
		"the device failed", "firmware or hardware fault; the device was closed under the QP",
		"kernel log and device state; a restart of the device"}},
	StatusRespTimeoutErr: {"RESP_TIMEOUT_ERR", Diagnosis{
		"the responder went silent in the middle of an operation",
		"the peer died or lost its connection within a READ", "as for RETRY_EXC_ERR"}},
	StatusGeneralErr: {"GENERAL_ERR", Diagnosis{
		"a transport error that no other code describes", "device specific",
		"WC.VendorErr in the vendor's documentation"}},
	StatusTMErr: {"TM_ERR", Diagnosis{
		"a tag matching error", "fjord uses no tag matching",
		"the provider; report it as a bug"}},
	StatusTMRndvIncomplete: {"TM_RNDV_INCOMPLETE", Diagnosis{
		"a tag matching rendezvous is incomplete", "fjord uses no tag matching",
		"the provider; report it as a bug"}},
}

// String returns the name that libibverbs gives the code, without IBV_WC_.
func (s Status) String() string {
	if int(s) < NumStatus {
		return statuses[s].name
	}
	return fmt.Sprintf("Status(%d)", uint8(s))
}

// Diagnosis tells what the code means, what causes it, and where to look.
func (s Status) Diagnosis() Diagnosis {
	if int(s) < NumStatus {
		return statuses[s].diag
	}
	return Diagnosis{"an unknown status code", "a provider newer than this package", "the provider"}
}

// StatusError is a failed completion as an error.
type StatusError struct {
	Status Status
	Opcode WCOpcode
	QPN    uint32
	Vendor uint32
}

// Error names the status, the operation and what to check next.
func (e *StatusError) Error() string {
	d := e.Status.Diagnosis()
	return fmt.Sprintf("verbs: %v on QP %#x: %v: %s; check %s", e.Opcode, e.QPN, e.Status, d.Meaning, d.Check)
}

package sim

import "fjord/verbs"

// Counters are the counts of a NIC, named as in a Linux host's hw_counters and
// port counters.
type Counters struct {
	RxWriteRequests    uint64 `json:"rx_write_requests"`
	RxReadRequests     uint64 `json:"rx_read_requests"`
	RxAtomicRequests   uint64 `json:"rx_atomic_requests"`
	RxSendRequests     uint64 `json:"rx_send_requests"`
	OutOfBuffer        uint64 `json:"out_of_buffer"`         // messages that found no receive
	OutOfSequence      uint64 `json:"out_of_sequence"`       // requests behind one that is missing
	DuplicateRequest   uint64 `json:"duplicate_request"`     // requests that had been served
	PacketSeqErr       uint64 `json:"packet_seq_err"`        // answers that something is missing
	ImpliedNakSeqErr   uint64 `json:"implied_nak_seq_err"`   // answers to READs and atomics that were skipped
	LocalAckTimeoutErr uint64 `json:"local_ack_timeout_err"` // waits for an answer that ran out
	RNRNakRetryErr     uint64 `json:"rnr_nak_retry_err"`     // waits for a receive that ran out
	Retransmits        uint64 `json:"retransmits"`           // requests sent once more

	TxRequests uint64 `json:"tx_requests"` // requests sent, repeats included
	TxBytes    uint64 `json:"tx_bytes"`    // payload sent, in requests and answers
	RxBytes    uint64 `json:"rx_bytes"`

	QPCacheMiss  uint64 `json:"qp_cache_miss"`  // QP contexts fetched from host memory
	MTTMiss      uint64 `json:"mtt_miss"`       // page translations fetched from host memory
	AtomicStalls uint64 `json:"atomic_stalls"`  // atomics that waited for a lock slot
	ECNMarked    uint64 `json:"rx_ecn_marked"`  // requests that met a long queue in the switch
	CNPHandled   uint64 `json:"rp_cnp_handled"` // notices of it that slowed a QP down
	SwitchDrops  uint64 `json:"switch_drops"`   // requests that met a full queue there
	PauseNS      uint64 `json:"tx_pause_ns"`    // time that PFC kept the port from sending
	XmitWait     uint64 `json:"port_xmit_wait"` // ns that it had no credits (InfiniBand)
}

// count notes a request that is served.
func (n *nic) count(op verbs.Opcode) {
	c := &n.counters
	switch op {
	case verbs.OpWrite, verbs.OpWriteImm:
		c.RxWriteRequests++
	case verbs.OpRead:
		c.RxReadRequests++
	case verbs.OpCAS, verbs.OpFAA:
		c.RxAtomicRequests++
	case verbs.OpSend, verbs.OpSendImm:
		c.RxSendRequests++
	case verbs.OpInvalid:
	}
}

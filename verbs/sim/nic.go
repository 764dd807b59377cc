package sim

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"fjord/verbs"
)

// NIC are the parameters of a network card: what each station on a request's way
// costs. NS are nanoseconds of latency, PS picoseconds that a station is taken.
type NIC struct {
	Name string `json:"name"`

	// The processor, the doorbell and the completion.
	DoorbellNS int64 `json:"doorbell_ns"`  // MMIO write, fence and scheduling; the processor is taken
	PostPS     int64 `json:"post_ps"`      // building one request
	WQEFetchNS int64 `json:"wqe_fetch_ns"` // fetching the requests of a doorbell that rings for several
	PayloadNS  int64 `json:"payload_ns"`   // DMA of a payload that is not inline
	CQENS      int64 `json:"cqe_ns"`       // DMA of a completion
	PollNS     int64 `json:"poll_ns"`      // until a busy poll sees it
	EventNS    int64 `json:"event_ns"`     // until an event has woken the waiter, more than a poll

	// The engines.
	TxNS    int64 `json:"tx_ns"`    // a request through the send engine
	RxNS    int64 `json:"rx_ns"`    // a packet through the receive engine
	ReplyNS int64 `json:"reply_ns"` // an answer through the send engine
	WritePS int64 `json:"write_ps"` // an engine is taken by a request
	ReadPS  int64 `json:"read_ps"`  // by the answer to a READ
	AckPS   int64 `json:"ack_ps"`   // by another answer

	// Host memory.
	PCIeReadNS  int64  `json:"pcie_read_ns"`  // a read of host memory, there and back
	PostedNS    int64  `json:"posted_ns"`     // a write to it is done within
	LineGapNS   int64  `json:"line_gap_ns"`   // from line to line of one request, on average
	MaxSpreadNS int64  `json:"max_spread_ns"` // but all of them take no more than this
	PageBytes   uint64 `json:"page_bytes"`    // of registered regions
	MTTEntries  int    `json:"mtt_entries"`   // page translations that the card keeps
	MTTMissNS   int64  `json:"mtt_miss_ns"`

	// Atomics: one unit, and a lock slot for each line of the low 12 address bits.
	AtomicUnitNS  int64 `json:"atomic_unit_ns"`  // the unit is taken
	AtomicSlotNS  int64 `json:"atomic_slot_ns"`  // the slot is taken: read, change, write
	AtomicReplyNS int64 `json:"atomic_reply_ns"` // from there to the answer

	// QP contexts: levels of cache, from the fastest.
	QPCache [3]CacheLevel `json:"qp_cache"`

	// The port.
	LineMbps int64  `json:"line_mbps"`
	ReadMbps int64  `json:"read_mbps"` // of answers to READs, whose bytes come from host memory
	MTU      uint32 `json:"mtu"`

	MaxInline uint32 `json:"max_inline"`
	RdAtomic  uint8  `json:"rd_atomic"`
}

// CacheLevel is a cache of QP contexts: how many it holds, and how much longer an
// engine is taken by a request whose QP is not there.
type CacheLevel struct {
	Entries int   `json:"entries"`
	ReadPS  int64 `json:"read_ps"`
	WritePS int64 `json:"write_ps"`
}

// nics are the generations, fitted to the figures that are published or reported
// of them.
var nics = [...]NIC{
	generation("cx5", func(m *NIC) {
		m.TxNS, m.RxNS, m.PCIeReadNS = 150, 150, 450
		m.WritePS, m.ReadPS = 13_000, 20_000
		m.AtomicUnitNS, m.AtomicSlotNS, m.AtomicReplyNS = 380, 1000, 300
	}),
	generation("cx6", func(*NIC) {}),
	generation("cx7", func(m *NIC) {
		m.TxNS, m.RxNS, m.ReplyNS, m.PCIeReadNS, m.DoorbellNS = 60, 60, 40, 250, 80
		m.WritePS, m.ReadPS = 4_500, 6_500
		m.AtomicUnitNS = 57
		m.LineMbps, m.ReadMbps = 200_000, 186_000
	}),
}

// generation is a cx6 of 100 Gb/s, changed.
func generation(name string, change func(m *NIC)) NIC {
	m := NIC{
		Name:       name,
		DoorbellNS: 110, PostPS: 4_000, WQEFetchNS: 50, PayloadNS: 80, CQENS: 50, PollNS: 100, EventNS: 7_000,
		TxNS: 90, RxNS: 90, ReplyNS: 60, WritePS: 8_130, ReadPS: 12_050, AckPS: 2_000,
		PCIeReadNS: 350, PostedNS: 40, LineGapNS: 20, MaxSpreadNS: 300,
		PageBytes: 2 << 20, MTTEntries: 4096, MTTMissNS: 100,
		AtomicUnitNS: 140, AtomicSlotNS: 480, AtomicReplyNS: 450,
		QPCache:  [3]CacheLevel{{32, 12_400, 130}, {1024, 31_000, 1_000}, {100_000, 48_000, 9_000}},
		LineMbps: 100_000, ReadMbps: 93_000, MTU: 4096, MaxInline: 220, RdAtomic: 16,
	}
	change(&m)
	return m
}

// NICByName returns the parameters of a generation: cx5, cx6 or cx7.
func NICByName(name string) (NIC, error) {
	names := make([]string, len(nics))
	for i, m := range nics {
		if m.Name == name {
			return m, nil
		}
		names[i] = m.Name
	}
	return NIC{}, fmt.Errorf("%w: NIC is %q, right is one of %s", verbs.ErrInvalid, name, strings.Join(names, ", "))
}

// ReadNIC reads parameters from JSON: those of the generation that "name" says,
// but for the fields that are given.
func ReadNIC(r io.Reader) (NIC, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return NIC{}, fmt.Errorf("read NIC parameters: %w", err)
	}
	var base struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(text, &base); err != nil {
		return NIC{}, fmt.Errorf("%w: NIC parameters: %w", verbs.ErrInvalid, err)
	}
	m, err := NICByName(base.Name)
	if err != nil {
		return NIC{}, err
	}
	if err := decodeStrictly(text, &m); err != nil {
		return NIC{}, fmt.Errorf("%w: NIC parameters: %w", verbs.ErrInvalid, err)
	}
	return m, m.Validate()
}

// Validate names the first parameter that is out of range.
func (m *NIC) Validate() error {
	const second = 1_000_000_000
	for _, f := range []struct {
		name      string
		v, lo, hi int64
	}{
		{"doorbell_ns", m.DoorbellNS, 0, second}, {"post_ps", m.PostPS, 0, second}, {"wqe_fetch_ns", m.WQEFetchNS, 0, second},
		{"payload_ns", m.PayloadNS, 0, second}, {"cqe_ns", m.CQENS, 0, second}, {"poll_ns", m.PollNS, 0, second},
		{"event_ns", m.EventNS, 0, second}, {"tx_ns", m.TxNS, 0, second}, {"rx_ns", m.RxNS, 0, second}, {"reply_ns", m.ReplyNS, 0, second},
		{"write_ps", m.WritePS, 0, second}, {"read_ps", m.ReadPS, 0, second}, {"ack_ps", m.AckPS, 0, second},
		{"pcie_read_ns", m.PCIeReadNS, 0, second}, {"posted_ns", m.PostedNS, 0, second}, {"line_gap_ns", m.LineGapNS, 0, second},
		{"max_spread_ns", m.MaxSpreadNS, 0, second}, {"page_bytes", int64(m.PageBytes), 4096, 1 << 30}, {"mtt_entries", int64(m.MTTEntries), 1, 1 << 24},
		{"mtt_miss_ns", m.MTTMissNS, 0, second}, {"atomic_unit_ns", m.AtomicUnitNS, 0, second}, {"atomic_slot_ns", m.AtomicSlotNS, 0, second},
		{"atomic_reply_ns", m.AtomicReplyNS, 0, second}, {"line_mbps", m.LineMbps, 1, 10_000_000}, {"read_mbps", m.ReadMbps, 1, 10_000_000},
		{"max_inline", int64(m.MaxInline), 0, 1024}, {"rd_atomic", int64(m.RdAtomic), 1, 128},
		{"qp_cache[0].entries", int64(m.QPCache[0].Entries), 1, 1 << 20}, {"qp_cache[1].entries", int64(m.QPCache[1].Entries), 1, 1 << 20},
		{"qp_cache[2].entries", int64(m.QPCache[2].Entries), 1, 1 << 20},
	} {
		if f.v < f.lo || f.v > f.hi {
			return fmt.Errorf("%w: NIC %q: %s is %d, right is %d to %d", verbs.ErrInvalid, m.Name, f.name, f.v, f.lo, f.hi)
		}
	}
	for i, l := range m.QPCache {
		if l.ReadPS < 0 || l.WritePS < 0 {
			return fmt.Errorf("%w: NIC %q: qp_cache[%d] costs %d and %d ps, right is 0 or more", verbs.ErrInvalid, m.Name, i, l.ReadPS, l.WritePS)
		}
	}
	switch m.MTU {
	case 256, 512, 1024, 2048, 4096:
		return nil
	}
	return fmt.Errorf("%w: NIC %q: mtu is %d, right is 256, 512, 1024, 2048 or 4096", verbs.ErrInvalid, m.Name, m.MTU)
}

// String prints the parameters as JSON.
func (m NIC) String() string {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}

package coord

// VerbStats counts what sessions asked of the memory nodes.
type VerbStats struct {
	Read, Write, CAS, FAA uint64 // work requests
	Doorbells             uint64 // PostSend calls
	RoundTrips            uint64 // waits for the completions of a batch, however many QPs it spans
	BytesOut              uint64 // payload written, and operands of atomics
	BytesIn               uint64 // payload read, and results of atomics
}

// Add adds o to s.
func (s *VerbStats) Add(o *VerbStats) {
	s.Read += o.Read
	s.Write += o.Write
	s.CAS += o.CAS
	s.FAA += o.FAA
	s.Doorbells += o.Doorbells
	s.RoundTrips += o.RoundTrips
	s.BytesOut += o.BytesOut
	s.BytesIn += o.BytesIn
}

// Sub returns what was counted since o.
func (s VerbStats) Sub(o VerbStats) VerbStats {
	return VerbStats{
		Read: s.Read - o.Read, Write: s.Write - o.Write, CAS: s.CAS - o.CAS, FAA: s.FAA - o.FAA,
		Doorbells: s.Doorbells - o.Doorbells, RoundTrips: s.RoundTrips - o.RoundTrips,
		BytesOut: s.BytesOut - o.BytesOut, BytesIn: s.BytesIn - o.BytesIn,
	}
}

package sim

import "fjord/verbs"

// ps turns nanoseconds into picoseconds, in which stations reckon: at 100 Gb/s a
// byte takes 80 of them.
func ps(ns int64) int64 { return ns * 1000 }

// nsUp returns the first nanosecond at or after a picosecond.
func nsUp(t int64) int64 { return (t + 999) / 1000 }

// nic is a card at work. Each station is a server with a time at which it is free.
type nic struct {
	model    NIC
	net      *Network
	counters Counters

	tx, rx  int64 // engines
	out, in int64 // the port's wire, in each direction
	unit    int64 // of atomics
	slots   [4096 / lineSize]int64

	qps   int    // ever made
	pages uint64 // ever registered
	cache [3][]uint32
	mtt   []uint64
}

func newNIC(m NIC, net *Network) *nic { return &nic{model: m, net: net} }

// serialize returns how long a message of so many bytes and packets takes on the
// port's wire.
func (n *nic) serialize(bytes, packets uint32) int64 {
	return (int64(bytes) + int64(packets)*n.net.HeaderBytes) * 8 * 1_000_000 / n.model.LineMbps
}

// context looks a QP's context up and returns how long that takes an engine.
func (n *nic) context(q *qp, read bool) int64 {
	cost := int64(0)
	for i := range n.cache {
		l := &n.model.QPCache[i]
		if n.qps <= l.Entries {
			return cost // all find room
		}
		if n.cache[i] == nil {
			n.cache[i] = make([]uint32, l.Entries)
		}
		tag := &n.cache[i][q.index%l.Entries]
		if *tag == uint32(q.index)+1 {
			return cost
		}
		*tag = uint32(q.index) + 1
		n.counters.QPCacheMiss++
		if read {
			cost += l.ReadPS
		} else {
			cost += l.WritePS
		}
	}
	return cost
}

// send takes a request, or its packets from one on, through the send engine and
// returns the time at which its first bit leaves.
func (n *nic) send(q *qp, r *request, from uint32) int64 {
	m := &n.model
	t := max(ps(q.w.now), r.posted)
	bytes, packets := uint32(0), uint32(1)
	if !r.fetches() {
		bytes, packets = r.length-min(r.length, from*q.attr.PathMTU), r.packets-from
		if bytes > 0 && r.flags&verbs.FlagInline == 0 {
			t += ps(m.PayloadNS)
		}
	}
	begin := max(t, n.tx)
	n.tx = begin + m.WritePS + n.context(q, r.opcode == verbs.OpRead)
	leaves := max(begin+ps(m.TxNS), n.out)
	wire := n.serialize(bytes, packets)
	leaves = max(leaves, q.line.pace.hold(q.w.now, wire, n))
	n.out = leaves + wire
	n.counters.TxRequests++
	n.counters.TxBytes += uint64(bytes)
	return leaves
}

// receive takes packets of a request that has come to the switch through its port
// and the receive engine. It returns when that is done; false if the switch had no
// room for it.
func (n *nic) receive(w *World, r *request, packets uint32) (int64, bool) {
	bytes := uint32(0)
	if r.fetches() {
		packets = 1
	} else {
		bytes = min(r.length, packets*r.line.mtu)
	}
	wire := n.serialize(bytes, packets)
	if !n.queue(w, r.line) {
		return 0, false
	}
	n.in = max(n.in, ps(w.now)) + wire
	begin := max(n.in, n.rx)
	n.rx = begin + n.model.WritePS
	delay := int64(0)
	if c := r.line.conn; c != nil {
		delay = n.context(c.q, r.opcode == verbs.OpRead)
	}
	if r.opcode == verbs.OpRead {
		r.delay = delay
	} else {
		n.rx += delay
	}
	n.counters.RxBytes += uint64(bytes)
	return begin + ps(n.model.RxNS), true
}

// translate looks up the page of a request's target and returns what that costs.
func (n *nic) translate(r *request) int64 {
	if r.mr == nil {
		return 0
	}
	page := r.mr.first + r.off/n.model.PageBytes
	if n.mtt == nil {
		n.mtt = make([]uint64, n.model.MTTEntries)
	}
	tag := &n.mtt[page%uint64(len(n.mtt))]
	if *tag == page+1 {
		return 0
	}
	*tag = page + 1
	n.counters.MTTMiss++
	return ps(n.model.MTTMissNS)
}

// atomic takes an atomic through the unit and the lock slot of its address, and
// returns when it gives the slot back. Words that differ above the low 12 bits share
// one.
func (n *nic) atomic(r *request, t int64) int64 {
	begin := max(t, n.unit)
	n.unit = begin + ps(n.model.AtomicUnitNS)
	slot := &n.slots[r.remote%4096/lineSize]
	if *slot > begin {
		n.counters.AtomicStalls++
	}
	*slot = max(begin, *slot) + ps(n.model.AtomicSlotNS)
	return *slot
}

// reply takes the answer to a request back to the requester's card, and returns
// when its completion is seen.
func (n *nic) reply(w *World, to *nic, r *request, ok bool) int64 {
	m := &n.model
	bytes, packets, taken := uint32(0), uint32(1), m.AckPS
	if ok && r.opcode == verbs.OpRead {
		bytes, packets = r.length, r.packets
		taken = max(m.ReadPS+r.delay, int64(bytes)*8*1_000_000/m.ReadMbps)
	}
	begin := max(ps(w.now), r.leaves, n.tx)
	n.tx = begin + taken
	n.counters.TxBytes += uint64(bytes)
	leaves := max(begin+ps(m.ReplyNS), n.out)
	n.out = leaves + n.serialize(bytes, packets)
	seen := to.hear(leaves+n.net.travel(w), bytes, packets)
	if r.flags&verbs.FlagSignaled != 0 {
		seen += ps(to.model.CQENS)
	}
	return seen
}

// nak takes an answer to no request back, and returns when it is known.
func (n *nic) nak(w *World, to *nic) int64 {
	begin := max(ps(w.now), n.tx)
	n.tx = begin + n.model.AckPS
	return to.hear(begin+ps(n.model.ReplyNS)+n.net.travel(w), 0, 1)
}

// hear takes an answer through the requester's port and receive engine.
func (n *nic) hear(t int64, bytes, packets uint32) int64 {
	n.in = max(n.in, t) + n.serialize(bytes, packets)
	begin := max(n.in, n.rx)
	n.rx = begin + n.model.AckPS
	n.counters.RxBytes += uint64(bytes)
	return begin + ps(n.model.RxNS+n.model.PollNS)
}

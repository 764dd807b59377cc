package sim

import (
	"fmt"

	"fjord/verbs"
)

// FlowControl says what a switch does about a queue that gets long.
type FlowControl string

// The kinds of flow control.
const (
	// FlowPFC pauses the port that sends into a queue above XOff: RoCE with DCQCN,
	// and priority flow control as last resort.
	FlowPFC FlowControl = "pfc"
	// FlowLossy drops what finds no room: RoCE without PFC.
	FlowLossy FlowControl = "lossy"
	// FlowCredits lets a port send only what has room: InfiniBand.
	FlowCredits FlowControl = "credits"
)

// Network are the parameters of the switch and the wires: one switch, and a queue
// in it for each host's port.
type Network struct {
	PropagationNS int64 `json:"propagation_ns"` // one way, switch included
	JitterNS      int64 `json:"jitter_ns"`      // more than that, at most
	HeaderBytes   int64 `json:"header_bytes"`   // of a packet, gaps included

	Flow        FlowControl `json:"flow"`
	BufferBytes int64       `json:"buffer_bytes"` // of one queue
	XOffBytes   int64       `json:"xoff_bytes"`   // PFC pauses above, until half of it

	// ECN marks none below KMin, all above KMax, with PMax just below that.
	KMinBytes int64 `json:"kmin_bytes"`
	KMaxBytes int64 `json:"kmax_bytes"`
	PMaxMil   int64 `json:"pmax_permille"`
}

// DefaultNetwork is a lossless RoCE network of one switch.
func DefaultNetwork() Network {
	return Network{PropagationNS: 340, JitterNS: 20, HeaderBytes: 96, Flow: FlowPFC,
		BufferBytes: 16 << 20, XOffBytes: 2 << 20, KMinBytes: 400 << 10, KMaxBytes: 1600 << 10, PMaxMil: 200}
}

// Validate names the first parameter that is out of range.
func (n *Network) Validate() error {
	const second, most = 1_000_000_000, 1 << 40
	for _, f := range []struct {
		name      string
		v, lo, hi int64
	}{
		{"propagation_ns", n.PropagationNS, 0, second}, {"jitter_ns", n.JitterNS, 0, second}, {"header_bytes", n.HeaderBytes, 0, 4096},
		{"buffer_bytes", n.BufferBytes, 1, most}, {"xoff_bytes", n.XOffBytes, 1, most},
		{"kmin_bytes", n.KMinBytes, 0, most}, {"kmax_bytes", n.KMaxBytes, n.KMinBytes, most}, {"pmax_permille", n.PMaxMil, 0, 1000},
	} {
		if f.v < f.lo || f.v > f.hi {
			return fmt.Errorf("%w: network: %s is %d, right is %d to %d", verbs.ErrInvalid, f.name, f.v, f.lo, f.hi)
		}
	}
	switch n.Flow {
	case FlowPFC, FlowLossy, FlowCredits:
		return nil
	}
	return fmt.Errorf("%w: network: flow is %q, right is %s, %s or %s", verbs.ErrInvalid, n.Flow, FlowPFC, FlowLossy, FlowCredits)
}

// travel is a way through the network, in ps.
func (n *Network) travel(w *World) int64 {
	return ps(n.PropagationNS + w.sched.below(n.JitterNS+1))
}

// queue is the switch's queue in front of a port, met by a request of line l. It
// returns false if that is dropped.
func (n *nic) queue(w *World, l *line) bool {
	net := n.net
	waiting := n.in - ps(w.now)
	if waiting <= 0 {
		return true
	}
	depth := waiting * n.model.LineMbps / (8 * 1_000_000)
	src := l.q.dev.host.nic
	if net.Flow != FlowCredits && depth > net.KMinBytes && w.sched.below((net.KMaxBytes-net.KMinBytes)*1000) < (depth-net.KMinBytes)*net.PMaxMil ||
		depth > net.KMaxBytes && net.Flow != FlowCredits {
		n.counters.ECNMarked++
		if l.pace.slow(w.now, src.model.LineMbps) {
			src.counters.CNPHandled++
		}
	}
	switch net.Flow {
	case FlowLossy:
		if depth > net.BufferBytes {
			n.counters.SwitchDrops++
			return false
		}
	case FlowPFC:
		if depth > net.XOffBytes {
			src.counters.PauseNS += uint64(src.pause(w, (depth-net.XOffBytes/2)*8*1_000_000/n.model.LineMbps))
		}
	case FlowCredits:
		if depth > net.BufferBytes {
			src.counters.XmitWait += uint64(src.pause(w, (depth-net.BufferBytes)*8*1_000_000/n.model.LineMbps))
		}
	}
	return true
}

// pause keeps a port from sending for so many ps from now, and returns the ns by
// which that is longer than it had to wait anyway.
func (n *nic) pause(w *World, d int64) int64 {
	until := ps(w.now) + d
	more := max(until-max(n.out, ps(w.now)), 0)
	n.out = max(n.out, until)
	return more / 1000
}

// pace is DCQCN at the sender: the rate of one QP, in Mb/s. The zero value goes at
// line rate. (Zhu et al., Congestion Control for Large-Scale RDMA Deployments,
// SIGCOMM 2015.)
type pace struct {
	rate, target int64 // 0: line rate
	alpha        int64 // of alphaOne
	since        int64 // ns up to which rises are counted
	cut          int64 // ns of the latest decrease
	rises        int64
	free         int64 // ps at which the next message may leave
}

const (
	alphaOne  = 1 << 10
	alphaGain = 16     // g is 1/16
	cnpGap    = 50_000 // ns between two decreases
	risePause = 55_000 // ns between two rises
	fastRises = 5      // of fast recovery
	riseMbps  = 40     // of additive increase
	slowest   = 100    // Mb/s
)

// slow is told of a mark. It reports whether the rate was cut.
func (p *pace) slow(now, line int64) bool {
	if p.rate == 0 {
		p.rate, p.target, p.alpha, p.since = line, line, alphaOne, now
	} else if now-p.cut < cnpGap {
		return false
	}
	p.rise(now, line)
	p.target = p.rate
	p.rate = max(p.rate-p.rate*p.alpha/(2*alphaOne), slowest)
	p.alpha += (alphaOne - p.alpha) / alphaGain
	p.cut, p.since, p.rises = now, now, 0
	return true
}

// rise counts the rises that are due.
func (p *pace) rise(now, line int64) {
	for p.rate != 0 && now-p.since >= risePause {
		p.since += risePause
		p.alpha -= p.alpha / alphaGain
		if p.rises++; p.rises > fastRises {
			p.target = min(p.target+riseMbps, line)
		}
		p.rate = (p.rate + p.target + 1) / 2
		if p.rate >= line {
			*p = pace{free: p.free}
		}
	}
}

// hold returns when the next message may leave, which takes wire ps at line rate.
func (p *pace) hold(now, wire int64, n *nic) int64 {
	if p.rate == 0 {
		return 0
	}
	p.rise(now, n.model.LineMbps)
	if p.rate == 0 {
		return 0
	}
	at := max(p.free, ps(now))
	p.free = at + wire*n.model.LineMbps/p.rate
	return at
}

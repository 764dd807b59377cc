package sim_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"fjord/verbs"
	"fjord/verbs/sim"
)

// incast has eight hosts write to one memory node for a while, and returns its
// counters, those of the senders together, and the payload rate in Gb/s.
func incast(t *testing.T, turn func(n *sim.Network)) (node, senders sim.Counters, gbps float64) {
	t.Helper()
	n := sim.DefaultNetwork()
	turn(&n)
	w := newWorld(t, sim.Options{Network: n})
	m := host(t, w, "m")
	const size, each = 32 << 10, 60
	left := 0
	start := w.Now()
	for i := range 8 {
		h := host(t, w, fmt.Sprint("c", i))
		a, b := side(t, h, 64<<10), side(t, m, 64<<10)
		join(t, a, b, func(c *verbs.ConnAttr) { c.Timeout = 8 })
		left++
		h.Go(func() {
			wr := a.wr(b, verbs.OpWrite, 0, size, 0)
			for range each / 4 {
				if wc := a.do(t, 4, wr, wr, wr, wr); wc.Status != verbs.StatusSuccess {
					t.Error(wc.Status)
					return
				}
			}
			left--
		})
	}
	run(t, w, func() {
		for left > 0 && w.Now() < 1_000_000_000 {
			w.Sleep(1_000)
		}
	})
	for _, h := range w.Hosts()[1:] {
		c := h.Counters()
		senders.CNPHandled += c.CNPHandled
		senders.PauseNS += c.PauseNS
		senders.XmitWait += c.XmitWait
		senders.Retransmits += c.Retransmits
	}
	return m.Counters(), senders, 8 * each * size * 8 / float64(w.Now()-start)
}

// TestIncast: eight senders into one port make a queue, and each kind of flow
// control does about it what it does.
func TestIncast(t *testing.T) {
	calm := func(n *sim.Network) { n.KMinBytes, n.KMaxBytes = 1<<30, 1<<30 } // no marks
	t.Run("without marks PFC pauses the senders", func(t *testing.T) {
		m, c, gbps := incast(t, func(n *sim.Network) { calm(n); n.XOffBytes = 256 << 10 })
		if c.PauseNS == 0 || m.ECNMarked != 0 || c.CNPHandled != 0 || m.SwitchDrops != 0 || gbps < 80 {
			t.Errorf("%.1f Gb/s, %+v, %+v", gbps, m, c)
		}
	})
	t.Run("with marks DCQCN slows them down before that", func(t *testing.T) {
		m, c, gbps := incast(t, func(n *sim.Network) { n.KMinBytes, n.KMaxBytes = 100<<10, 400<<10 })
		if m.ECNMarked == 0 || c.CNPHandled == 0 || c.PauseNS != 0 || gbps < 20 {
			t.Errorf("%.1f Gb/s, %+v, %+v", gbps, m, c)
		}
	})
	t.Run("a lossy switch drops, and RC repairs it", func(t *testing.T) {
		m, c, gbps := incast(t, func(n *sim.Network) { calm(n); n.Flow, n.BufferBytes = sim.FlowLossy, 128<<10 })
		if m.SwitchDrops == 0 || c.Retransmits == 0 || c.PauseNS != 0 || gbps > 95 {
			t.Errorf("%.1f Gb/s, %+v, %+v", gbps, m, c)
		}
	})
	t.Run("InfiniBand waits for credits", func(t *testing.T) {
		m, c, gbps := incast(t, func(n *sim.Network) { n.Flow, n.BufferBytes = sim.FlowCredits, 128<<10 })
		if c.XmitWait == 0 || m.ECNMarked != 0 || m.SwitchDrops != 0 || c.PauseNS != 0 || gbps < 80 {
			t.Errorf("%.1f Gb/s, %+v, %+v", gbps, m, c)
		}
	})
	t.Run("a buffer that is large enough does none of it", func(t *testing.T) {
		m, c, gbps := incast(t, func(n *sim.Network) { calm(n); n.XOffBytes = 1 << 30 })
		if c != (sim.Counters{}) || m.SwitchDrops != 0 || gbps < 90 {
			t.Errorf("%.1f Gb/s, %+v, %+v", gbps, m, c)
		}
	})
}

// TestNetworksThatMakeNoSense are refused with the parameter.
func TestNetworksThatMakeNoSense(t *testing.T) {
	for says, turn := range map[string]func(n *sim.Network){
		`flow is "tcp", right is pfc, lossy or credits`: func(n *sim.Network) { n.Flow = "tcp" },
		"propagation_ns is -1":                          func(n *sim.Network) { n.PropagationNS = -1 },
		"kmax_bytes is 1":                               func(n *sim.Network) { n.KMaxBytes = 1 },
		"buffer_bytes is 0":                             func(n *sim.Network) { n.BufferBytes = 0 },
		"pmax_permille is 1001":                         func(n *sim.Network) { n.PMaxMil = 1001 },
	} {
		n := sim.DefaultNetwork()
		turn(&n)
		if _, err := sim.New(sim.Options{Network: n}); !errors.Is(err, verbs.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, right is an error that says %q", err, says)
		}
	}
}

package sim_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"fjord/verbs"
	"fjord/verbs/sim"
)

// TestNICsByName: unknown ones are refused with the known ones.
func TestNICsByName(t *testing.T) {
	for _, name := range []string{"cx5", "cx6", "cx7"} {
		if m := nicByName(t, name); m.Name != name || m.Validate() != nil {
			t.Errorf("%s: %+v", name, m)
		}
	}
	for _, name := range []string{"", "cx4", "CX6", "cx66"} {
		_, err := sim.NICByName(name)
		if !errors.Is(err, verbs.ErrInvalid) || !strings.Contains(err.Error(), `"`+name+`"`) || !strings.Contains(err.Error(), "cx5, cx6, cx7") {
			t.Errorf("NICByName(%q): %v", name, err)
		}
	}
}

// TestNICFiles: a file changes a generation's parameters; what NIC.String prints can
// be read again.
func TestNICFiles(t *testing.T) {
	m := must[sim.NIC](t)(sim.ReadNIC(strings.NewReader(`{"name":"cx6","line_mbps":200000}`)))
	want := nicByName(t, "cx6")
	want.LineMbps = 200_000
	if m != want {
		t.Errorf("%+v", m)
	}
	for _, name := range []string{"cx5", "cx7"} {
		if m := nicByName(t, name); must[sim.NIC](t)(sim.ReadNIC(strings.NewReader(m.String()))) != m {
			t.Errorf("%s is not what it prints", name)
		}
	}
	for text, says := range map[string]string{
		`{"name":"cx9"}`:                            `"cx9"`,
		`{}`:                                        `""`,
		`{"name":"cx6","doorbel_ns":1}`:             "doorbel_ns",
		`{"name":"cx6","mtu":1500}`:                 "mtu is 1500",
		`{"name":"cx6","pcie_read_ns":-1}`:          "pcie_read_ns is -1",
		`{"name":"cx6","mtt_entries":0}`:            "mtt_entries is 0",
		`{"name":"cx6"} x`:                          "invalid",
		`nonsense`:                                  "invalid",
		`{"name":"cx6","qp_cache":[{"entries":0}]}`: "qp_cache[0].entries is 0",
	} {
		if _, err := sim.ReadNIC(strings.NewReader(text)); !errors.Is(err, verbs.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, right is an error that says %q", text, err, says)
		}
	}
}

// TestCounters count what their names say.
func TestCounters(t *testing.T) {
	l := newLink(t, sim.Options{}, func(c *verbs.ConnAttr) { c.RNRRetry, c.MinRNRTimer = 2, 1 })
	l.run(func() {
		for range 3 {
			l.a.do(t, 4, l.a.wr(l.b, verbs.OpWrite, 0, 100, 0), l.a.wr(l.b, verbs.OpRead, 0, 200, 0), l.a.wr(l.b, verbs.OpCAS, 0, 8, 0), l.a.wr(l.b, verbs.OpFAA, 0, 8, 0))
		}
		if _, err := l.b.qp.PostRecv(make([]verbs.RecvWR, 1)); err != nil {
			t.Fatal(err)
		}
		l.a.do(t, 1, l.a.wr(l.b, verbs.OpSend, 0, 0, 0))
		if wc := l.a.do(t, 1, l.a.wr(l.b, verbs.OpSend, 0, 0, 0)); wc.Status != verbs.StatusRNRRetryExcErr {
			t.Fatal(wc.Status)
		}
	})
	want := sim.Counters{RxWriteRequests: 3, RxReadRequests: 3, RxAtomicRequests: 6, RxSendRequests: 1, OutOfBuffer: 3, RxBytes: 300, TxBytes: 600, MTTMiss: 1}
	got := l.m.Counters()
	got.AtomicStalls = 0
	if got != want {
		t.Errorf("memory node: %+v", got)
	}
	want = sim.Counters{TxRequests: 16, TxBytes: 300, RxBytes: 600, RNRNakRetryErr: 1, Retransmits: 2}
	if got := l.c.Counters(); got != want {
		t.Errorf("client: %+v", got)
	}
	text, err := json.Marshal(got)
	if err != nil || !strings.Contains(string(text), `"rx_read_requests":3`) || !strings.Contains(string(text), `"out_of_buffer":3`) {
		t.Errorf("%s, %v", text, err)
	}
}

// TestDeviceIsTheCard: what a device says of itself comes from the parameters.
func TestDeviceIsTheCard(t *testing.T) {
	m := nicByName(t, "cx6")
	m.MTU, m.MaxInline, m.RdAtomic = 1024, 0, 4
	w := newWorld(t, sim.Options{NIC: m})
	d := must[verbs.Device](t)(w.NewDevice("x"))
	if a := d.Attr(); a.Provider != "sim" || a.Name != "x" || a.ActiveMTU != 1024 || a.MaxInline != 0 || a.Caps&verbs.CapInline != 0 || a.MaxQPRdAtomic != 4 {
		t.Errorf("%+v", a)
	}
	for _, name := range []string{"x-1", "x-2"} {
		if d := must[verbs.Device](t)(w.NewDevice("x")); d.Attr().Name != name || w.Host(name) == nil {
			t.Errorf("one more device called x is %q, right is %q", d.Attr().Name, name)
		}
	}
}

// TestTooManyReads: a requester that keeps more READs in flight than the responder
// has agreed to is refused.
func TestTooManyReads(t *testing.T) {
	w := newWorld(t, sim.Options{})
	a, b := side(t, host(t, w, "a"), 4096), side(t, host(t, w, "b"), 4096)
	ca := verbs.DefaultConnAttr(a.dev.Attr())
	cb := ca
	cb.RdAtomic = 2
	if err := verbs.BringUp(b.qp, b.endpoint(), a.endpoint(), cb); err != nil {
		t.Fatal(err)
	}
	if err := verbs.BringUp(a.qp, a.endpoint(), b.endpoint(), ca); err != nil {
		t.Fatal(err)
	}
	run(t, w, func() {
		read := a.wr(b, verbs.OpRead, 0, 8, 0)
		if wc := a.do(t, 3, unsignaled(read), read, read, read, read); wc.Status == verbs.StatusSuccess {
			wc = a.poll(t, 1)
			if wc.Status != verbs.StatusRemInvReqErr && wc.Status != verbs.StatusWRFlushErr {
				t.Error(wc.Status)
			}
		}
		if a.qp.State() != verbs.StateErr || b.qp.State() != verbs.StateErr {
			t.Errorf("%v and %v", a.qp.State(), b.qp.State())
		}
	})
}

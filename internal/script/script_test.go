package script_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"fjord/internal/script"
	"fjord/verbs"
)

// rig is a memory node with a region of 1 KiB, and a coordinator with QPs to it.
type rig struct {
	*script.World
	t      *testing.T
	node   verbs.MR
	mr     verbs.MR // the coordinator's buffer
	cq     verbs.CQ
	qps    []verbs.QP
	remote []verbs.QP
	waiter *verbs.Waiter
}

func newRig(t *testing.T, seed uint64, qps int) *rig {
	r := &rig{World: script.New(t, seed), t: t}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	side := func(name string) (verbs.Device, verbs.PD, verbs.CQ, verbs.MR) {
		d, err := r.NewDevice(name)
		must(err)
		pd, err := d.AllocPD()
		must(err)
		cq, err := d.CreateCQ(64)
		must(err)
		m, err := verbs.MapMemory(4096, verbs.HugeNever)
		must(err)
		mr, err := pd.RegisterMR(m, verbs.AccessAll)
		must(err)
		return d, pd, cq, mr
	}
	da, pa, ca, ma := side("compute")
	db, pb, cb, mb := side("memory-0")
	r.node, r.mr, r.cq = mb, ma, ca
	r.waiter = verbs.NewWaiter(da.Runtime())
	for range qps {
		qa, err := pa.CreateQP(verbs.QPInit{SendCQ: ca, RecvCQ: ca, MaxSendWR: 32, MaxSendSGE: 2, MaxInline: 64})
		must(err)
		qb, err := pb.CreateQP(verbs.QPInit{SendCQ: cb, RecvCQ: cb, MaxSendWR: 1, MaxSendSGE: 1})
		must(err)
		ea := verbs.Endpoint{GID: da.Attr().GID, QPN: qa.Num(), PSN: 1}
		eb := verbs.Endpoint{GID: db.Attr().GID, QPN: qb.Num(), PSN: 2}
		must(verbs.BringUp(qb, eb, ea, verbs.DefaultConnAttr(db.Attr())))
		must(verbs.BringUp(qa, ea, eb, verbs.DefaultConnAttr(da.Attr())))
		r.qps, r.remote = append(r.qps, qa), append(r.remote, qb)
	}
	return r
}

// wr is a signaled request for n bytes at an offset of the node, from or to the
// same offset of the buffer.
func (r *rig) wr(id uint64, op verbs.Opcode, off, n int) verbs.SendWR {
	return verbs.SendWR{ID: id, Opcode: op, Flags: verbs.FlagSignaled, RemoteAddr: r.node.Addr() + uint64(off), RKey: r.node.RKey(),
		SGL: []verbs.SGE{{Addr: r.mr.Addr() + uint64(off), Length: uint32(n), LKey: r.mr.LKey()}}}
}

func (r *rig) post(qp int, wrs ...verbs.SendWR) {
	r.t.Helper()
	if n, err := r.qps[qp].PostSend(wrs); n != len(wrs) || err != nil {
		r.t.Fatal(n, err)
	}
}

// polled returns what is in the CQ, as ID:status.
func (r *rig) polled() string {
	var wcs [64]verbs.WC
	var s []string
	for _, wc := range wcs[:r.cq.Poll(wcs[:])] {
		s = append(s, fmt.Sprintf("%d:%v", wc.ID, wc.Status))
	}
	return strings.Join(s, " ")
}

func (r *rig) want(got, want string) {
	r.t.Helper()
	if got != want {
		r.t.Errorf("got %q, want %q", got, want)
	}
}

func (r *rig) at(off int) uint64 {
	return binary.LittleEndian.Uint64(r.Peek(script.Place{Off: uint64(off), Len: 8}))
}

// set fills the coordinator's buffer.
func (r *rig) set(v uint64) {
	for i := 0; i < 1024; i += 8 {
		binary.LittleEndian.PutUint64(r.mr.Bytes()[i:], v)
	}
}

func is(op verbs.Opcode) func(*script.Op) bool {
	return func(o *script.Op) bool { return o.Opcode == op }
}

func TestHold(t *testing.T) {
	r := newRig(t, 1, 2)
	r.set(7)
	h := r.Hold("the CAS", is(verbs.OpCAS))
	cas := r.wr(2, verbs.OpCAS, 0, 8)
	cas.Swap = 5
	r.post(0, r.wr(1, verbs.OpWrite, 64, 8), cas, r.wr(3, verbs.OpWrite, 128, 8))
	r.post(1, r.wr(4, verbs.OpWrite, 192, 8)) // another QP goes on
	r.want(r.polled(), "1:SUCCESS 4:SUCCESS")
	if r.at(0) != 0 || r.at(128) != 0 || r.at(64) != 7 || r.at(192) != 7 {
		t.Error("what is held, or behind it, has executed, or what is not has not")
	}
	if op := h.Await(); op.Executed() || op.Off != 0 || op.Swap != 5 || op.By != "" {
		t.Errorf("%+v", op)
	}
	if s := r.Stand(); !strings.Contains(s, `held by "the CAS", 1 behind`) {
		t.Error(s)
	}
	h.Release()
	r.want(r.polled(), "2:SUCCESS 3:SUCCESS")
	if r.at(0) != 5 || r.at(128) != 7 {
		t.Error("what was released has not executed")
	}

	h = r.HoldAnswer("the second WRITE", is(verbs.OpWrite)).Nth(2)
	r.set(8)
	r.post(0, r.wr(1, verbs.OpWrite, 64, 8), r.wr(2, verbs.OpWrite, 128, 8), r.wr(3, verbs.OpWrite, 192, 8))
	r.want(r.polled(), "1:SUCCESS")
	if !h.Await().Executed() || r.at(128) != 8 || r.at(192) != 7 {
		t.Error("the request was to execute, and what is behind it to wait")
	}
	h.Release()
	r.want(r.polled(), "2:SUCCESS 3:SUCCESS")

	h = r.Hold("all", is(verbs.OpRead)).All()
	r.post(0, r.wr(1, verbs.OpRead, 0, 8), r.wr(2, verbs.OpRead, 0, 8))
	r.post(1, r.wr(3, verbs.OpRead, 0, 8))
	r.want(r.polled(), "")
	h.Release()
	r.want(r.polled(), "1:SUCCESS 2:SUCCESS 3:SUCCESS")
}

func TestTear(t *testing.T) {
	r := newRig(t, 1, 1)
	r.set(9)
	h := r.Tear("the WRITE", 1, []int{2, 0}, is(verbs.OpWrite))
	r.post(0, r.wr(1, verbs.OpWrite, 8, 160)) // lines 8–64, 64–128, 128–168
	lines := func() string { return fmt.Sprint(r.at(8), r.at(56), r.at(64), r.at(120), r.at(128), r.at(160)) }
	r.want(lines(), "0 0 0 0 9 9")
	h.Step()
	r.want(lines(), "9 9 0 0 9 9")
	r.want(r.polled(), "")
	h.Release()
	r.want(lines(), "9 9 9 9 9 9")
	r.want(r.polled(), "1:SUCCESS")
}

func TestFail(t *testing.T) {
	for _, c := range []struct {
		name string
		rule func(*script.World, string, func(*script.Op) bool) *script.Rule
		now  uint64 // in the place of the second WRITE
		late uint64 // after Release
	}{
		{"fail", (*script.World).Fail, 0, 0},
		{"lose", (*script.World).Lose, 7, 7},
		{"strand", (*script.World).Strand, 0, 7},
	} {
		for _, destroyed := range []bool{false, true} {
			r := newRig(t, 1, 2)
			r.set(7)
			rule := c.rule(r.World, c.name, is(verbs.OpWrite)).Nth(2)
			r.post(0, r.wr(1, verbs.OpWrite, 0, 8), r.wr(2, verbs.OpWrite, 8, 8), r.wr(3, verbs.OpWrite, 16, 8))
			r.want(r.polled(), "1:SUCCESS 2:RETRY_EXC_ERR 3:WR_FLUSH_ERR")
			r.post(0, r.wr(4, verbs.OpWrite, 24, 8))
			r.want(r.polled(), "4:WR_FLUSH_ERR")
			if r.qps[0].State() != verbs.StateErr || r.qps[1].State() != verbs.StateRTS {
				t.Errorf("%s: states are %v, %v", c.name, r.qps[0].State(), r.qps[1].State())
			}
			if r.at(0) != 7 || r.at(8) != c.now || r.at(16) != 0 || r.at(24) != 0 {
				t.Errorf("%s: %d %d %d %d", c.name, r.at(0), r.at(8), r.at(16), r.at(24))
			}
			r.set(8) // what is on its way has left its buffer
			if destroyed {
				if err := r.remote[0].Close(); err != nil {
					t.Fatal(err)
				}
			}
			rule.Release()
			late := c.late
			if destroyed {
				late = c.now
			}
			if r.at(8) != late || r.at(24) != 0 {
				t.Errorf("%s, destroyed %v: later %d %d, want %d 0", c.name, destroyed, r.at(8), r.at(24), late)
			}
			r.post(1, r.wr(5, verbs.OpWrite, 8, 8))
			r.want(r.polled(), "5:SUCCESS")
		}
	}
}

func TestCrash(t *testing.T) {
	for _, after := range []bool{false, true} {
		r := newRig(t, 1, 2)
		r.set(7)
		rule := r.Crash
		if after {
			rule = r.CrashAfter
		}
		rule("the WRITE", is(verbs.OpWrite))
		h := r.Hold("the READ", is(verbs.OpRead))
		posted := false
		task := r.Start("T", func() {
			r.post(0, r.wr(1, verbs.OpRead, 0, 8))
			r.post(1, r.wr(2, verbs.OpWrite, 8, 8), r.wr(3, verbs.OpWrite, 16, 8))
			posted = true
		})
		task.Run()
		if task.Done() || posted {
			t.Error("the task goes on after its crash")
		}
		h.Release()
		if got := r.at(8) == 7; got != after || r.at(16) != 0 {
			t.Errorf("after %v: %d, %d", after, r.at(8), r.at(16))
		}
		r.want(r.polled(), "")
		r.End()
	}
}

func TestHazards(t *testing.T) {
	r := newRig(t, 1, 2)
	fenced := r.wr(2, verbs.OpWrite, 0, 8)
	fenced.Flags |= verbs.FlagFence
	r.post(0, r.wr(1, verbs.OpRead, 0, 64), fenced)
	r.post(1, r.wr(3, verbs.OpWrite, 8, 8))  // another QP
	r.post(0, r.wr(4, verbs.OpWrite, 64, 8)) // other bytes
	if h := r.Hazards(); len(h) != 0 {
		t.Error(h)
	}
	r.post(0, r.wr(5, verbs.OpWrite, 56, 8))
	if h := r.Hazards(); len(h) != 1 || !strings.Contains(h[0], "WRITE of 8 bytes at memory-0+0x38, posted behind test's READ of 64 bytes") {
		t.Error(h)
	}
	r.polled()
	r.post(0, r.wr(6, verbs.OpWrite, 56, 8)) // all is known to be complete
	if h := r.Hazards(); len(h) != 1 {
		t.Error(h)
	}
}

// What a Shuffle lets happen: everything that the IB table allows, and nothing
// that it does not.
func TestShuffleOrder(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(300) {
		r := newRig(t, seed, 1)
		r.Do("init", func() {
			r.set(1)
			r.post(0, r.wr(0, verbs.OpWrite, 0, 128))
		})
		r.polled()
		r.set(2)
		cas := r.wr(3, verbs.OpCAS, 256, 8)
		cas.Swap = 9
		cas.SGL[0].Addr += 2048
		r.Start("T", func() {
			// A READ, and a WRITE over it that may overtake; a CAS that reads where the
			// WRITE behind it, which may overtake it, puts 2; a last READ that may not.
			read := r.wr(1, verbs.OpRead, 0, 128)
			read.SGL[0].Addr += 512
			last := r.wr(5, verbs.OpRead, 64, 8)
			last.SGL[0].Addr += 1024
			r.post(0, read, r.wr(2, verbs.OpWrite, 64, 8), cas, r.wr(4, verbs.OpWrite, 256, 8), last)
			var wcs [1]verbs.WC
			for want := uint64(1); want <= 5; want++ {
				if _, err := r.waiter.Poll(r.cq, wcs[:], 0); err != nil || wcs[0].ID != want {
					t.Errorf("completion of %d, want %d", wcs[0].ID, want)
				}
			}
		})
		steps := r.Shuffle(script.Chaos{Tear: 0.5, Overtake: 0.5})
		b := r.mr.Bytes()
		word := func(off int) uint64 { return binary.LittleEndian.Uint64(b[off:]) }
		seen[fmt.Sprint("READ sees the WRITE behind it: ", word(512+64))] = true
		seen[fmt.Sprint("CAS finds what is behind it: ", word(2048+256))] = true
		if word(1024+64) != 2 {
			t.Errorf("seed %d: a READ has overtaken a WRITE", seed)
		}
		if r.at(64) != 2 || r.at(256) != 2 && r.at(256) != 9 {
			t.Errorf("seed %d: %d, %d", seed, r.at(64), r.at(256))
		}
		seen[fmt.Sprint("steps ", steps > 12)] = true
		r.End()
	}
	want := []string{"CAS finds what is behind it: 0", "CAS finds what is behind it: 2",
		"READ sees the WRITE behind it: 1", "READ sees the WRITE behind it: 2", "steps false", "steps true"}
	got := make([]string, 0, len(seen))
	for s := range seen {
		got = append(got, s)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("seen %q, want %q", got, want)
	}
}

// The same seed is the same run.
func TestShuffleIsDeterministic(t *testing.T) {
	run := func(seed uint64) string {
		r := newRig(t, seed, 3)
		var log strings.Builder
		for i := range 3 {
			r.Start(fmt.Sprint("T", i), func() {
				for n := range 5 {
					r.post(i, r.wr(uint64(10*i+n), verbs.OpRead, 0, 512))
					r.Runtime().Sleep(int64(r.Runtime().Rand() % 100))
					fmt.Fprintln(&log, i, n, r.Runtime().Now(), r.polled())
				}
			})
		}
		r.Shuffle(script.Chaos{Tear: 0.5, Fail: 0.05})
		r.End()
		return log.String()
	}
	for seed := range uint64(20) {
		if a, b := run(seed), run(seed); a != b {
			t.Fatalf("seed %d:\n%s\n%s", seed, a, b)
		}
	}
	if run(1) == run(2) {
		t.Error("two seeds are the same run")
	}
}

// fatal records instead of ending the test.
type fatal struct {
	*testing.T
	said []string
}

func (f *fatal) Fatalf(format string, args ...any) {
	f.said = append(f.said, fmt.Sprintf(format, args...))
}

func TestStuckTaskSaysWhereItStands(t *testing.T) {
	f := &fatal{T: t}
	w := script.New(f, 1)
	task := w.Start("T9", func() { w.Runtime().NewParker().Park(0) })
	task.Finish()
	if len(f.said) != 1 || !strings.Contains(f.said[0], "task T9 has not ended") || !strings.Contains(f.said[0], "T9: waiting") {
		t.Errorf("%q", f.said)
	}
	f.said = nil
	w.Start("T10", func() { panic("why") }).Run()
	if len(f.said) != 1 || !strings.Contains(f.said[0], "T10 panicked: why") {
		t.Errorf("%q", f.said)
	}
	w.End()
	if w.Alive() {
		t.Error("a task that was ended counts as one that ended by itself")
	}
}

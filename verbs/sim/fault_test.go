package sim_test

import (
	"errors"
	"testing"

	"fjord/verbs"
	"fjord/verbs/sim"
)

func withFaults(faults ...sim.Fault) sim.Options {
	return sim.Options{Seed: 5, Plan: sim.Plan{Faults: faults}}
}

// short gives a silent peer some 66 µs × 4.
func short(c *verbs.ConnAttr) { c.Timeout, c.RetryCnt = 4, 3 }

// TestLoss: what is lost is sent again after the timeout or when the responder finds
// a gap; nothing executes twice.
func TestLoss(t *testing.T) {
	l := newLink(t, withFaults(sim.Fault{Kind: sim.KindLoss, Rate: 0.1}), func(c *verbs.ConnAttr) { c.Timeout = 6 })
	l.run(func() {
		faa := l.a.wr(l.b, verbs.OpFAA, 0, 8, 0)
		faa.CompareAdd = 1
		for i := range 500 {
			if wc := l.a.do(t, 1, unsignaled(l.a.wr(l.b, verbs.OpWrite, 64, 512, 4096)), unsignaled(faa), faa); wc.Status != verbs.StatusSuccess {
				t.Fatal(i, wc.Status)
			}
		}
	})
	if got := l.b.word(0); got != 1000 {
		t.Errorf("1000 FAAs left %d", got)
	}
	c, m := l.c.Counters(), l.m.Counters()
	if c.LocalAckTimeoutErr == 0 || c.PacketSeqErr == 0 || c.Retransmits == 0 || c.ImpliedNakSeqErr == 0 || m.DuplicateRequest == 0 || m.OutOfSequence == 0 {
		t.Errorf("some part of RC was not needed:\n%+v\n%+v", c, m)
	}
	if n := l.w.Struck(); n[0] == 0 {
		t.Error("the fault never struck")
	}
}

// TestLossTearsLongWrites: of a WRITE of several packets the first ones land, the
// others when it is sent again.
func TestLossTearsLongWrites(t *testing.T) {
	l := newLink(t, withFaults(sim.Fault{Kind: sim.KindLoss, From: "c", To: "m", Rate: 0.15}))
	torn := 0
	l.run(func() {
		for i := uint64(1); i <= 100; i++ {
			for k := range 4 {
				l.a.setWord(k*4096, i)
			}
			if _, err := l.a.qp.PostSend([]verbs.SendWR{l.a.wr(l.b, verbs.OpWrite, 0, 4*4096, 0)}); err != nil {
				t.Fatal(err)
			}
			l.w.Sleep(100_000) // far less than the timeout
			if l.b.word(0) == i && l.b.word(3*4096) != i {
				torn++
			}
			if wc := l.a.poll(t, 1); wc.Status != verbs.StatusSuccess {
				t.Fatalf("round %d: %v", i, wc.Status)
			}
			for k := range 4 {
				if l.b.word(k*4096) != i {
					t.Fatalf("round %d: packet %d is of round %d", i, k, l.b.word(k*4096))
				}
			}
		}
	})
	if torn == 0 {
		t.Error("no WRITE was torn for long")
	}
}

// TestDuplicates: a copy of a WRITE that comes late does not land again, nor does an
// atomic execute twice.
func TestDuplicates(t *testing.T) {
	l := newLink(t, withFaults(sim.Fault{Kind: sim.KindDuplicate, Rate: 1, DelayNS: 20_000}))
	l.run(func() {
		faa := l.a.wr(l.b, verbs.OpFAA, 0, 8, 0)
		faa.CompareAdd = 1
		for i := range uint64(200) {
			l.a.setWord(64, i)
			l.a.do(t, 1, unsignaled(faa), l.a.wr(l.b, verbs.OpWrite, 64, 8, 64))
			l.b.setWord(64, 1_000_000+i)
			l.w.Sleep(30_000)
			if l.b.word(64) != 1_000_000+i {
				t.Fatal("a duplicate WRITE has landed")
			}
		}
	})
	if l.b.word(0) != 200 {
		t.Errorf("200 FAAs left %d", l.b.word(0))
	}
	if n := l.m.Counters().DuplicateRequest; n < 400 {
		t.Errorf("%d duplicates were seen, right is 400", n)
	}
}

// TestRetriedReadSeesNewerMemory: flaw 22. A READ whose answer is lost executes once
// more, and of a long one some bytes may be of the first time.
func TestRetriedReadSeesNewerMemory(t *testing.T) {
	const packets = 8
	newer, mixed := 0, 0
	for seed := range uint64(20) {
		l := newLink(t, sim.Options{Seed: seed, Plan: sim.Plan{Faults: []sim.Fault{{Kind: sim.KindLoss, From: "m", To: "c", Rate: 1, ForNS: 50_000}}}},
			func(c *verbs.ConnAttr) { c.Timeout = 6 })
		l.run(func() {
			if _, err := l.a.qp.PostSend([]verbs.SendWR{l.a.wr(l.b, verbs.OpRead, 0, packets*4096, 0)}); err != nil {
				t.Fatal(err)
			}
			l.w.Sleep(50_000)
			for k := range packets {
				l.b.setWord(k*4096, 7)
			}
			l.a.poll(t, 1)
		})
		seen := 0
		for k := range packets {
			if l.a.word(k*4096) == 7 {
				seen++
			}
		}
		if seen > 0 {
			newer++
		}
		if seen > 0 && seen < packets {
			mixed++
		}
	}
	if newer != 20 || mixed == 0 {
		t.Errorf("newer memory was read %d times of 20, and %d times bytes of two instants", newer, mixed)
	}
}

// TestReordering: messages that overtake each other are put right by the PSNs.
func TestReordering(t *testing.T) {
	l := newLink(t, withFaults(sim.Fault{Kind: sim.KindReorder, Rate: 0.2, DelayNS: 5_000}))
	l.run(func() {
		for i := uint64(1); i <= 300; i++ {
			var wrs []verbs.SendWR
			for k := range 4 {
				l.a.setWord(8*k, 4*i+uint64(k))
				wrs = append(wrs, unsignaled(l.a.wr(l.b, verbs.OpWrite, 8*k, 8, 0)))
			}
			wrs[3].Flags = verbs.FlagSignaled
			l.a.do(t, 1, wrs...)
			if l.b.word(0) != 4*i+3 {
				t.Fatalf("the last of 4 WRITEs is not the one that stays: %d", l.b.word(0))
			}
		}
	})
	if l.m.Counters().OutOfSequence == 0 {
		t.Error("nothing was overtaken")
	}
}

// TestDelay: what is held up arrives late, in order.
func TestDelay(t *testing.T) {
	l := newLink(t, withFaults(sim.Fault{Kind: sim.KindDelay, From: "c", Rate: 1, DelayNS: 1_000_000}))
	var took int64
	l.run(func() {
		for range 50 {
			start := l.w.Now()
			l.a.do(t, 1, l.a.wr(l.b, verbs.OpWrite, 0, 8, 0))
			took += l.w.Now() - start
		}
	})
	if mean := took / 50; mean < 300_000 || mean > 700_000 {
		t.Errorf("a WRITE takes %d ns, right is about half a millisecond", mean)
	}
	if n := l.m.Counters().OutOfSequence; n != 0 {
		t.Errorf("%d messages were overtaken", n)
	}
}

// TestLostAnswerOfCAS: flaw 29. One answer of one operation is lost: the CAS has
// executed, and is not executed again.
func TestLostAnswerOfCAS(t *testing.T) {
	l := newLink(t, withFaults(sim.Fault{Kind: sim.KindLoss, From: "m", To: "c", Op: "CAS", Rate: 1, Count: 1}), short)
	l.run(func() {
		cas := l.a.wr(l.b, verbs.OpCAS, 0, 8, 0)
		cas.Swap = 9
		start := l.w.Now()
		l.a.do(t, 2, l.a.wr(l.b, verbs.OpWrite, 64, 8, 64), cas)
		if d := l.w.Now() - start; d < 65_536 {
			t.Errorf("the CAS was answered after %d ns, before the timeout", d)
		}
		if l.a.word(0) != 0 || l.b.word(0) != 9 {
			t.Errorf("the CAS found %d and left %d", l.a.word(0), l.b.word(0))
		}
		start = l.w.Now()
		l.a.do(t, 1, cas)
		if d := l.w.Now() - start; d > 10_000 || l.a.word(0) != 9 {
			t.Errorf("a second CAS took %d ns and found %d", d, l.a.word(0))
		}
	})
	if n := l.w.Struck(); n[0] != 1 {
		t.Errorf("the fault struck %d times", n[0])
	}
}

// TestPartitions: two-way nothing arrives; one-way from the memory node WRITEs land
// and nobody learns of it. When it is over in time, all goes on.
func TestPartitions(t *testing.T) {
	for _, c := range []struct {
		name     string
		fault    sim.Fault
		status   verbs.Status
		executed uint64
	}{
		{"two-way", sim.Fault{Kind: sim.KindPartition, From: "c", To: "m"}, verbs.StatusRetryExcErr, 0},
		{"two-way, named the other way round", sim.Fault{Kind: sim.KindPartition, From: "m", To: "c"}, verbs.StatusRetryExcErr, 0},
		{"from everybody", sim.Fault{Kind: sim.KindPartition, From: "m"}, verbs.StatusRetryExcErr, 0},
		{"one-way there", sim.Fault{Kind: sim.KindPartition, From: "c", To: "m", OneWay: true}, verbs.StatusRetryExcErr, 0},
		{"one-way back", sim.Fault{Kind: sim.KindPartition, From: "m", To: "c", OneWay: true}, verbs.StatusRetryExcErr, 1},
		{"for a while", sim.Fault{Kind: sim.KindPartition, From: "m", To: "c", ForNS: 150_000}, verbs.StatusSuccess, 1},
		{"of others", sim.Fault{Kind: sim.KindPartition, From: "m", To: "elsewhere"}, verbs.StatusSuccess, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLink(t, withFaults(c.fault), short)
			l.run(func() {
				faa := l.a.wr(l.b, verbs.OpFAA, 0, 8, 0)
				faa.CompareAdd = 1
				start := l.w.Now()
				if wc := l.a.do(t, 1, faa); wc.Status != c.status {
					t.Errorf("%v, right is %v", wc.Status, c.status)
				}
				if took := l.w.Now() - start; c.status != verbs.StatusSuccess && (took < 4*65_536 || took > 5*65_536) {
					t.Errorf("gave up after %d ns, right is 4 × 65536", took)
				}
			})
			if got := l.b.word(0); got != c.executed {
				t.Errorf("executed %d times, right is %d", got, c.executed)
			}
		})
	}
}

// TestPause: a paused host's workers stop, its NIC does not; the memory of a paused
// memory node still serves.
func TestPause(t *testing.T) {
	for _, f := range []sim.Fault{
		{Kind: sim.KindPause, Host: "c", AtNS: 100_000, ForNS: 1_000_000},
		{Kind: sim.KindPause, Host: "c", Verb: 20, ForNS: 1_000_000},
		{Kind: sim.KindPause, Host: "m", AtNS: 100_000, ForNS: 1_000_000},
	} {
		l := newLink(t, withFaults(f))
		longest := int64(0)
		l.run(func() {
			for range 100 {
				start := l.w.Now()
				l.a.do(t, 1, l.a.wr(l.b, verbs.OpWrite, 0, 8, 0))
				l.w.Sleep(2_000)
				longest = max(longest, l.w.Now()-start)
			}
		})
		if stopped := longest > 990_000; stopped != (f.Host == "c") {
			t.Errorf("pause of %s: the longest round took %d ns", f.Host, longest)
		}
		if f.Verb != 0 && l.c.Verbs() != 100 {
			t.Errorf("%d verbs were posted, right is 100", l.c.Verbs())
		}
		if n := l.w.Struck(); n[0] != 1 {
			t.Errorf("the pause struck %d times", n[0])
		}
	}
}

// TestCrashAtVerb: at its nth verb a host dies, and of that doorbell lands what the
// phase says. Nobody of it ever runs again.
func TestCrashAtVerb(t *testing.T) {
	const verb = 6 // the third of the second doorbell of four
	parts, halves := map[uint64]bool{}, 0
	for _, phase := range []sim.Phase{sim.PhaseBefore, sim.PhaseHalf, sim.PhaseAfter} {
		for seed := range uint64(40) {
			o := withFaults(sim.Fault{Kind: sim.KindCrash, Host: "c", Verb: verb, Phase: phase})
			o.Seed = seed
			l := newLink(t, o)
			obs := l.also("observer")
			for k := range 64 {
				l.a.setWord(8*k, 1)
			}
			after := false
			err := l.w.RunOn(l.c, "victim", func() {
				for range 2 {
					var wrs []verbs.SendWR
					for k := range 4 {
						wrs = append(wrs, unsignaled(l.a.wr(l.b, verbs.OpWrite, 0, 128, 256*k)))
					}
					wrs[3].Flags = verbs.FlagSignaled
					l.a.do(t, 1, wrs...)
					for k := range 64 {
						l.a.setWord(8*k, 2)
					}
				}
				after = true
			})
			if !errors.Is(err, sim.ErrCrashed) || after || !l.c.Crashed() {
				t.Fatalf("phase %s: %v, crashed %v, went on %v", phase, err, l.c.Crashed(), after)
			}
			l.w.Sleep(1_000_000)
			// Doorbell 2 writes 2 to slots 0 to 3; verb 6 is the second of them.
			count := func(slot int) (n uint64) {
				for k := range 16 {
					if l.b.word(256*slot+8*k) == 2 {
						n++
					}
				}
				return n
			}
			got := [4]uint64{count(0), count(1), count(2), count(3)}
			switch phase {
			case sim.PhaseBefore:
				if got != [4]uint64{} {
					t.Errorf("before: %v words landed", got)
				}
			case sim.PhaseAfter:
				if got != [4]uint64{16, 16, 16, 16} {
					t.Errorf("after: %v words landed", got)
				}
			case sim.PhaseHalf:
				if got[0] != 16 || got[2] != 0 || got[3] != 0 {
					t.Errorf("half: %v words landed", got)
				}
				parts[got[1]] = true
				if got[1]%8 != 0 {
					halves++
				}
			}
			if err := l.w.RunOn(obs.dev.Host(), "observer", func() { // others go on
				if wc := obs.do(t, 1, obs.wr(l.b, verbs.OpRead, 0, 8, 0)); wc.Status != verbs.StatusSuccess {
					t.Error(wc.Status)
				}
			}); err != nil {
				t.Fatal(err)
			}
			if _, err := l.a.qp.PostSend([]verbs.SendWR{l.a.wr(l.b, verbs.OpRead, 0, 8, 0)}); !errors.Is(err, verbs.ErrClosed) {
				t.Errorf("a crashed host's QP accepts posts: %v", err)
			}
			if _, err := l.c.OpenDevice(); !errors.Is(err, sim.ErrCrashed) {
				t.Errorf("OpenDevice of a crashed host: %v", err)
			}
		}
	}
	if len(parts) < 4 || halves == 0 {
		t.Errorf("a WRITE that is cut lands in %d different parts, %d times in the middle of a line", len(parts), halves)
	}
}

// TestCrashOfMemoryNode: its peers hear nothing any more.
func TestCrashOfMemoryNode(t *testing.T) {
	l := newLink(t, withFaults(sim.Fault{Kind: sim.KindCrash, Host: "m", AtNS: 50_000}), short)
	l.run(func() {
		for l.w.Now() < 49_000 {
			if wc := l.a.do(t, 1, l.a.wr(l.b, verbs.OpWrite, 0, 8, 0)); wc.Status != verbs.StatusSuccess {
				t.Fatal(wc.Status)
			}
		}
		l.w.Sleep(5_000)
		if wc := l.a.do(t, 1, l.a.wr(l.b, verbs.OpWrite, 0, 8, 0)); wc.Status != verbs.StatusRetryExcErr {
			t.Errorf("a crashed memory node answers with %v", wc.Status)
		}
	})
}

// TestLateLanding: flaw 21. WRITEs of a dead host land long after it, unless the
// responder's QP is destroyed, reset or in ERR: then nothing of it lands.
func TestLateLanding(t *testing.T) {
	fences := []struct {
		name  string
		fence func(qp verbs.QP) error
	}{
		{"none", func(verbs.QP) error { return nil }},
		{"Close", verbs.QP.Close},
		{"ERR", func(qp verbs.QP) error { return qp.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState) }},
		{"RESET", func(qp verbs.QP) error { return qp.Modify(verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState) }},
	}
	for _, f := range fences {
		late, cut := 0, 0
		for seed := range uint64(60) {
			l := newLink(t, sim.Options{Seed: seed, Plan: sim.Plan{Faults: []sim.Fault{
				{Kind: sim.KindCrash, Host: "c", Verb: 8, Phase: sim.PhaseAfter, LateNS: 500_000},
				{Kind: sim.KindSpread, Rate: 1, DelayNS: 200_000}}}})
			for k := range 64 {
				l.a.setWord(8*k, 1)
			}
			if err := l.w.RunOn(l.c, "victim", func() {
				var wrs []verbs.SendWR
				for k := range 8 {
					wrs = append(wrs, l.a.wr(l.b, verbs.OpWrite, 0, 512, 512*k))
				}
				l.a.do(t, 8, wrs...)
			}); !errors.Is(err, sim.ErrCrashed) {
				t.Fatal(err)
			}
			l.w.Sleep(100_000)
			landed := func() (n int) {
				for k := range 512 {
					n += int(l.b.word(8 * k))
				}
				return n
			}
			if err := f.fence(l.b.qp); err != nil {
				t.Fatal(err)
			}
			before := landed()
			if before%64 != 0 {
				cut++
			}
			l.w.Sleep(10_000_000)
			if landed() != before {
				late++
			}
			if f.name == "none" && landed() != 512 {
				t.Errorf("%d words of 512 landed in the end", landed())
			}
		}
		if f.name == "none" && late < 50 {
			t.Errorf("only %d of 60 hosts had WRITEs that landed late", late)
		}
		if f.name != "none" && late > 0 {
			t.Errorf("%s: %d times something landed behind it", f.name, late)
		}
		if cut == 0 {
			t.Errorf("%s: no WRITE was cut", f.name)
		}
	}
}

// TestLag: READs and atomics that execute late are overtaken by WRITEs far behind.
func TestLag(t *testing.T) {
	l := newLink(t, withFaults(sim.Fault{Kind: sim.KindLag, To: "m", Rate: 1, DelayNS: 20_000}))
	overtaken := 0
	l.run(func() {
		for i := uint64(1); i <= 100; i++ {
			l.a.setWord(64, i)
			if _, err := l.a.qp.PostSend([]verbs.SendWR{l.a.wr(l.b, verbs.OpRead, 0, 8, 0)}); err != nil {
				t.Fatal(err)
			}
			l.w.Sleep(3_000)
			l.a.do(t, 2, l.a.wr(l.b, verbs.OpWrite, 64, 8, 0))
			if l.a.word(0) == i {
				overtaken++
			}
		}
	})
	if overtaken < 50 || overtaken == 100 {
		t.Errorf("%d of 100 READs were overtaken by a WRITE posted 3 µs later", overtaken)
	}
}

// TestHeal: the plan ends, links work, paused hosts go on, the crashed stay dead.
func TestHeal(t *testing.T) {
	l := newLink(t, withFaults(
		sim.Fault{Kind: sim.KindPartition, From: "m"},
		sim.Fault{Kind: sim.KindPause, Host: "c", AtNS: 10_000, ForNS: 1 << 40},
		sim.Fault{Kind: sim.KindCrash, Host: "c", AtNS: 10_000_000}), func(c *verbs.ConnAttr) { c.Timeout = 4 })
	done := false
	l.c.Go(func() {
		l.c.Sleep(20_000)
		if wc := l.a.do(t, 1, l.a.wr(l.b, verbs.OpWrite, 0, 8, 0)); wc.Status != verbs.StatusSuccess {
			t.Error(wc.Status)
		}
		done = true
	})
	l.w.Sleep(100_000)
	l.w.Heal()
	l.w.Sleep(1_000_000)
	if !done {
		t.Error("the paused worker has not gone on")
	}
	l.w.Sleep(20_000_000)
	if l.c.Crashed() {
		t.Error("a crash has struck after Heal")
	}
}

// TestProcessesOfOneMachine share its NIC and are not parted; each crashes alone.
func TestProcessesOfOneMachine(t *testing.T) {
	l := newLink(t, withFaults(sim.Fault{Kind: sim.KindPartition, From: "c"}))
	p := must[*sim.Host](t)(l.c.AddProcess("c/2", sim.HostOptions{}))
	a, b := side(t, p, 4096), *l.a
	b.newQP(t)
	join(t, a, &b)
	l.c.Pause()
	if err := l.w.RunOn(p, "", func() {
		if wc := a.do(t, 1, a.wr(&b, verbs.OpWrite, 0, 8, 0)); wc.Status != verbs.StatusSuccess {
			t.Error(wc.Status)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if p.Counters() != l.c.Counters() || p.Counters().RxWriteRequests != 1 {
		t.Errorf("%+v", p.Counters())
	}
	p.Crash()
	if l.c.Crashed() {
		t.Error("both have crashed")
	}
}

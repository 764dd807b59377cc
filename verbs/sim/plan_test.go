package sim_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"fjord/verbs"
	"fjord/verbs/sim"
)

// TestMalformedPlans: each is refused with the fault, the field, its value and what
// would be right.
func TestMalformedPlans(t *testing.T) {
	for _, c := range []struct {
		text string
		says []string
	}{
		{`{"faults":[{"kind":"los","rate":0.1}]}`, []string{"fault 0", `kind is "los"`, "loss, duplicate, reorder"}},
		{`{"faults":[{"rate":0.1}]}`, []string{`kind is ""`}},
		{`{"faults":[{"kind":"loss","rate":0.1},{"kind":"loss"}]}`, []string{"fault 1", "loss needs rate"}},
		{`{"faults":[{"kind":"loss","rate":1.5}]}`, []string{"rate is 1.5", "at most 1"}},
		{`{"faults":[{"kind":"loss","rate":-0.5}]}`, []string{"rate is -0.5"}},
		{`{"faults":[{"kind":"loss","rate":0.5,"verb":3}]}`, []string{"loss does not use verb", "it has from, to, rate"}},
		{`{"faults":[{"kind":"loss","rate":0.5,"at_ns":-7}]}`, []string{"at_ns is -7", "right is 0 to"}},
		{`{"faults":[{"kind":"loss","rate":0.5,"for_ns":1152921504606846976}]}`, []string{"for_ns is 1152921504606846976"}},
		{`{"faults":[{"kind":"delay","rate":0.5}]}`, []string{"delay needs delay_ns"}},
		{`{"faults":[{"kind":"delay","rate":0.5,"delay_ns":-1}]}`, []string{"delay_ns is -1"}},
		{`{"faults":[{"kind":"partition"}]}`, []string{"partition needs from"}},
		{`{"faults":[{"kind":"partition","from":"m0","to":"m0"}]}`, []string{`to is "m0"`, "another host"}},
		{`{"faults":[{"kind":"pause","host":"c0","at_ns":5}]}`, []string{"pause needs for_ns"}},
		{`{"faults":[{"kind":"pause","host":"c0","for_ns":5}]}`, []string{"at_ns is 0 and verb is 0", "one of the two"}},
		{`{"faults":[{"kind":"crash","host":"c0","at_ns":5,"verb":5,"phase":"half"}]}`, []string{"at_ns is 5 and verb is 5"}},
		{`{"faults":[{"kind":"crash","host":"c0","verb":5}]}`, []string{"phase is missing", "before, half or after"}},
		{`{"faults":[{"kind":"crash","host":"c0","at_ns":5,"phase":"half"}]}`, []string{`phase is "half"`, "without verb"}},
		{`{"faults":[{"kind":"crash","host":"c0","verb":5,"phase":"middle"}]}`, []string{`phase is "middle"`, "before, half or after"}},
		{`{"faults":[{"kind":"crash","verb":5,"phase":"half"}]}`, []string{"crash needs host"}},
		{`{"faults":[{"kind":"crash","host":"c0","at_ns":5,"late_ns":-5}]}`, []string{"late_ns is -5"}},
		{`{"faults":[{"kind":"loss","rate":0.1,"op":"PEEK"}]}`, []string{`op is "PEEK"`, "WRITE, WRITE_WITH_IMM, SEND", "FAA"}},
		{`{"faults":[{"kind":"loss","rate":0.1,"count":-1}]}`, []string{"count"}},
		{`{"faults":[{"kind":"pause","host":"c0","at_ns":5,"for_ns":5,"count":2}]}`, []string{"pause does not use count"}},
		{`{"faults":[{"kind":"loss","rate":0.1,"colour":"red"}]}`, []string{"unknown field", "colour"}},
		{`{"faults":[{"kind":"loss","rate":"much"}]}`, []string{"rate"}},
		{`{"faults":[]} {}`, []string{"more behind"}},
		{`{"faults":`, []string{"unexpected EOF"}},
		{``, []string{"EOF"}},
		{`[]`, []string{"array"}},
	} {
		_, err := sim.ReadPlan(strings.NewReader(c.text))
		if !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		for _, s := range append(c.says, "plan") {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: the error does not say %q: %v", c.text, s, err)
			}
		}
	}
}

// TestPlansOfWorlds: New refuses what ReadPlan would, and names of hosts are checked
// when they are given.
func TestPlansOfWorlds(t *testing.T) {
	bad := sim.Plan{Faults: []sim.Fault{{Kind: sim.KindLoss}}}
	if _, err := sim.New(sim.Options{Plan: bad}); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("New: %v", err)
	}
	p := sim.Plan{Faults: []sim.Fault{{Kind: sim.KindCrash, Host: "m7", AtNS: 1}}}
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	if err := p.Validate("m0", "m1"); err == nil || !strings.Contains(err.Error(), `host is "m7", right is one of m0, m1`) {
		t.Errorf("%v", err)
	}
}

// TestPlansRoundTrip through JSON, and a World tells its own.
func TestPlansRoundTrip(t *testing.T) {
	for seed := range uint64(50) {
		p := randomPlan(t, seed)
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		q, err := sim.ReadPlan(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		w := newWorld(t, sim.Options{Plan: q})
		if !reflect.DeepEqual(p, q) || !reflect.DeepEqual(w.Plan(), p) {
			t.Errorf("%s became %+v, and in a world %+v", text, q, w.Plan())
		}
	}
}

func randomPlan(t *testing.T, seed uint64) sim.Plan {
	t.Helper()
	return must[sim.Plan](t)(sim.RandomPlan(seed, sim.RandomOptions{Compute: []string{"c0", "c1"}, Memory: []string{"m0", "m1", "m2"},
		UntilNS: 5_000_000, Crashes: 2, MemoryCrashes: 1}))
}

// TestRandomPlans are valid, the same from the same seed, and have every kind; what
// can be over is over in time.
func TestRandomPlans(t *testing.T) {
	kinds := map[sim.Kind]int{}
	for seed := range uint64(300) {
		p := randomPlan(t, seed)
		if !reflect.DeepEqual(p, randomPlan(t, seed)) {
			t.Fatalf("seed %d gives two plans", seed)
		}
		if err := p.Validate("c0", "c1", "m0", "m1", "m2"); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		crashed := map[string]bool{}
		for _, f := range p.Faults {
			kinds[f.Kind]++
			if f.Kind == sim.KindCrash && crashed[f.Host] {
				t.Errorf("seed %d: %s crashes twice", seed, f.Host)
			}
			crashed[f.Host] = f.Kind == sim.KindCrash
			if f.Kind != sim.KindCrash && f.AtNS+f.ForNS > 5_000_000 {
				t.Errorf("seed %d: %+v lasts too long", seed, f)
			}
		}
	}
	for _, k := range []sim.Kind{sim.KindLoss, sim.KindDuplicate, sim.KindReorder, sim.KindDelay, sim.KindPartition, sim.KindPause,
		sim.KindCrash, sim.KindLag, sim.KindSpread} {
		if kinds[k] < 30 {
			t.Errorf("%s was drawn %d times in 300 plans", k, kinds[k])
		}
	}
	only := must[sim.Plan](t)(sim.RandomPlan(3, sim.RandomOptions{Compute: []string{"c"}, Memory: []string{"m"}, UntilNS: 10_000, Crashes: 1,
		Without: []sim.Kind{sim.KindLoss, sim.KindDuplicate, sim.KindReorder, sim.KindDelay, sim.KindPartition, sim.KindPause, sim.KindCrash, sim.KindLag, sim.KindSpread}}))
	if len(only.Faults) != 0 {
		t.Errorf("without any kind there is %+v", only)
	}
	for _, o := range []sim.RandomOptions{{}, {Compute: []string{"c"}, Memory: []string{"m"}},
		{Compute: []string{"c"}, Memory: []string{"m"}, UntilNS: 10_000, Crashes: 2}, {Compute: []string{"c"}, Memory: []string{"m"}, UntilNS: 10_000, MemoryCrashes: -1}} {
		if _, err := sim.RandomPlan(1, o); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// FuzzReadPlan: whatever the text, there is a valid plan or an error.
func FuzzReadPlan(f *testing.F) {
	f.Add(`{"faults":[{"kind":"crash","host":"c0","verb":5,"phase":"half","late_ns":100}]}`)
	f.Add(`{"faults":[{"kind":"partition","from":"m0","one_way":true,"at_ns":1,"for_ns":2}]}`)
	f.Add(`{"faults":[{"kind":"loss","rate":1e-300}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := sim.ReadPlan(strings.NewReader(text))
		if err != nil {
			return
		}
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		if w, err := sim.New(sim.Options{Plan: p}); err != nil {
			t.Fatal(err)
		} else {
			w.Close()
		}
	})
}

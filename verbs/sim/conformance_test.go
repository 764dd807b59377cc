package sim_test

import (
	"testing"

	"fjord/verbs"
	"fjord/verbs/sim"
	"fjord/verbs/verbstest"
)

// conform runs the suite in worlds of a plan.
func conform(t *testing.T, effort int, faults ...sim.Fault) {
	verbstest.Run(t, func(t *testing.T) verbstest.Env {
		w := must[*sim.World](t)(sim.New(sim.Options{Seed: 1, Plan: sim.Plan{Faults: faults}}))
		t.Cleanup(w.Close)
		return verbstest.Env{A: must[verbs.Device](t)(w.NewDevice("a")), B: must[verbs.Device](t)(w.NewDevice("b")), Effort: effort,
			Drive: func(body func()) {
				if err := w.Run(body); err != nil {
					t.Fatal(err)
				}
			}}
	})
}

func TestConformance(t *testing.T) { conform(t, 25) }

// hostile is what a fabric may do on a bad day without losing anything.
var hostile = []sim.Fault{
	{Kind: sim.KindLag, Rate: 0.5, DelayNS: 3_000},
	{Kind: sim.KindSpread, Rate: 0.5, DelayNS: 3_000},
	{Kind: sim.KindDelay, Rate: 0.2, DelayNS: 5_000},
	{Kind: sim.KindDuplicate, Rate: 0.1, DelayNS: 5_000},
	{Kind: sim.KindReorder, From: "a", To: "b", Rate: 0.02, DelayNS: 3_000},
}

// TestConformanceWhenHostile: the promises of package verbs hold on a bad day.
func TestConformanceWhenHostile(t *testing.T) { conform(t, 10, hostile...) }

// TestConformanceWhenLossy: and when requests are lost. (Answers are not, nor do
// they change their order: one that refuses a request comes once, and then the
// responder is silent.)
func TestConformanceWhenLossy(t *testing.T) {
	conform(t, 10, append(hostile, sim.Fault{Kind: sim.KindLoss, From: "a", To: "b", Rate: 0.02})...)
}

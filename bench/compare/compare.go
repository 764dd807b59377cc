package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// config is what to compare.
type config struct {
	engines    []spec
	bases      []string // names of engines that ratios refer to; those not among engines are left out
	settings   []setting
	goroutines []int
	rounds     int
	warmup     time.Duration
	duration   time.Duration
	seed       uint64
}

// result is one engine in one setting with one number of goroutines.
type result struct {
	Setting    string  `json:"setting"`
	Goroutines int     `json:"goroutines"`
	Engine     string  `json:"engine"`
	PerSecond  float64 `json:"committed_per_s"` // median over the rounds
	// BaseOverThis is, for each base, the median over the rounds of base's rate divided by this
	// engine's in the same round.
	BaseOverThis map[string]float64 `json:"base_over_this"`
	Conserved    bool               `json:"conserved"`
	Rounds       []measurement      `json:"rounds"`
}

// compare measures everything that cfg asks for, and calls report as soon as a group, the engines in
// one setting with one number of goroutines, is complete. Complaints about broken sums go to loud.
// It stops at any other error.
func compare(cfg config, loud io.Writer, report func(group []result) error) error {
	for _, s := range cfg.settings {
		l := newLedger(s, cfg.seed)
		for _, n := range cfg.goroutines {
			group, err := compareGroup(cfg, s, l, n, loud)
			if err != nil {
				return err
			}
			if len(group) == 0 {
				continue // none of the engines runs with so many goroutines
			}
			if err := report(group); err != nil {
				return err
			}
		}
	}
	return nil
}

// compareGroup interleaves the engines: the machine's speed drifts, so only what was measured in the
// same round is set in relation. Each round starts with another engine, as the place within the round
// may matter too.
func compareGroup(cfg config, s setting, l ledger, goroutines int, loud io.Writer) ([]result, error) {
	var group []result
	var engines []spec
	for _, e := range cfg.engines {
		if e.maxGoroutines == 0 || goroutines <= e.maxGoroutines {
			engines = append(engines, e)
			group = append(group, result{Setting: s.name, Goroutines: goroutines, Engine: e.name,
				Conserved: true, Rounds: make([]measurement, cfg.rounds)})
		}
	}
	for round := range cfg.rounds {
		// The same inputs for all engines of a round, others in the next.
		c := cell{s, l, goroutines, cfg.warmup, cfg.duration, cfg.seed + uint64(round)}
		for i := range engines {
			i = (i + round) % len(engines)
			m, err := c.measure(engines[i])
			if err != nil {
				err = fmt.Errorf("%s, %s, %d goroutines, round %d: %w", engines[i].name, s.name, goroutines, round, err)
				if !errors.Is(err, errNotConserved) {
					return nil, err
				}
				fmt.Fprintln(loud, "CHECK FAILED:", err)
				group[i].Conserved = false
			}
			group[i].Rounds[round] = m
		}
	}
	summarize(group, cfg.bases)
	return group, nil
}

// summarize fills in the medians.
func summarize(group []result, bases []string) {
	for i := range group {
		r := &group[i]
		r.PerSecond = medianOver(len(r.Rounds), func(round int) float64 { return r.Rounds[round].PerSecond })
		r.BaseOverThis = map[string]float64{}
		for _, name := range bases {
			b := slices.IndexFunc(group, func(r result) bool { return r.Engine == name })
			if b < 0 {
				continue
			}
			r.BaseOverThis[name] = medianOver(len(r.Rounds), func(round int) float64 {
				return group[b].Rounds[round].PerSecond / r.Rounds[round].PerSecond
			})
		}
	}
}

// medianOver is the median of f(0) ... f(n-1).
func medianOver(n int, f func(int) float64) float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = f(i)
	}
	slices.Sort(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

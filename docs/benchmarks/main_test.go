package main

import (
	"strings"
	"testing"
)

func TestPublishedFigures(t *testing.T) {
	p, err := readPublished()
	if err != nil {
		t.Fatal(err)
	}
	if len(p["FORD"]) != 13 || len(p["SMART"]) != 13 || len(p) != 2 {
		t.Fatalf("published are %v", p)
	}
	if f := at(p["FORD"], 24); f != (point{24, 2.120, 65.839, 139.377, 0.173}) {
		t.Errorf("FORD with 24 threads: %+v", f)
	}
	for _, n := range threads {
		if at(p["FORD"], n).threads != n || at(p["SMART"], n).threads != n {
			t.Errorf("nothing is published for %d threads", n)
		}
	}
}

func TestTablesReplaceWhatWasThere(t *testing.T) {
	text := "a\n<!-- begin x -->\nold\n<!-- end x -->\nb\n"
	got, err := replace([]byte(text), "x", table([][]string{{"n", "tps"}, {"1", "2"}}))
	if err != nil {
		t.Fatal(err)
	}
	if want := "a\n<!-- begin x -->\n| n | tps |\n|---|---:|\n| 1 | 2 |\n<!-- end x -->\nb\n"; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := replace([]byte(text), "y", ""); err == nil || !strings.Contains(err.Error(), "begin y") {
		t.Errorf("a table without a place: %v", err)
	}
}

// Stations of like nodes go by one name, and one with time to spare is no
// bottleneck.
func TestBottleneck(t *testing.T) {
	var r report
	for _, c := range []struct {
		name  string
		taken float64
		want  string
	}{
		{"memory-2 atomic unit", 0.996, "memory atomic unit: 100 %"},
		{"compute-0 wire out", 0.9, "compute wire out: 90 %"},
		{"processors", 0.41, "none: round trips (processors: 41 %)"},
	} {
		r.Simulation.Busiest.Name, r.Simulation.Busiest.Taken = c.name, c.taken
		if got := r.busiest(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

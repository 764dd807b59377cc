package house_test

import (
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// arrow is what a package may import of this module, and whether it may use
// modules of others.
type arrow struct {
	to     []string
	others bool
}

// arrows go down only: a package may import what is listed and nothing else of
// this module. Tests are free. The same table, with the reason for each line, is
// in .golangci.yml.
var arrows = map[string]arrow{
	"verbs":                   {},
	"verbs/mem":               {to: []string{"verbs", "internal/words"}},
	"verbs/sim":               {to: []string{"verbs"}},
	"verbs/verbstest":         {to: []string{"verbs", "internal/words"}},
	"layout":                  {},
	"lock":                    {to: []string{"verbs", "layout"}},
	"coord":                   {to: []string{"verbs", "layout", "lock", "internal/words"}},
	"txn":                     {to: []string{"coord", "lock", "layout", "verbs", "verbs/mem"}, others: true},
	"bench":                   {to: []string{"txn", "coord", "lock", "verbs", "verbs/sim", "internal/serial"}, others: true},
	"bench/smallbank":         {to: []string{"bench", "txn"}},
	"internal/words":          {},
	"internal/serial":         {},
	"internal/serial/check":   {to: []string{"internal/serial"}},
	"internal/script":         {to: []string{"coord", "layout", "verbs", "verbs/mem"}},
	"internal/flaws":          {},
	"internal/house":          {},
	"internal/simtest":        {to: []string{"txn", "coord", "lock", "layout", "verbs", "verbs/sim", "internal/serial"}, others: true},
	"internal/simtest/mutate": {},
	"cmd/fjord":               {to: []string{"internal/simtest"}},
}

// TestArrowsOfImport: every package of the module is in the table and keeps to it.
func TestArrowsOfImport(t *testing.T) {
	const module = "fjord/"
	seen := map[string]bool{}
	for _, name := range files(t, ".go") {
		folder := path.Dir(name)
		allowed, ok := arrows[folder]
		if !ok {
			t.Errorf("%s: the folder %q is not in the table of arrows: say what it may import", name, folder)
			continue
		}
		seen[folder] = true
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, filepath.FromSlash(name)), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			first, _, _ := strings.Cut(imported, "/")
			switch rest, own := strings.CutPrefix(imported, module); {
			case own && !slices.Contains(allowed.to, rest):
				t.Errorf("%s imports %s: %s may import %v of this module", name, rest, folder, allowed.to)
			case !own && strings.Contains(first, ".") && !allowed.others:
				t.Errorf("%s imports %s: %s uses the standard library only", name, imported, folder)
			}
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(arrows)) {
		if !seen[folder] {
			t.Errorf("%q is in the table of arrows, and is no package", folder)
		}
	}
}

// TestArrowsGoDown: the table itself has no cycle, and nothing points at a
// benchmark but another benchmark.
func TestArrowsGoDown(t *testing.T) {
	const (
		unseen = iota
		above
		done
	)
	state := map[string]int{}
	var visit func(folder string, way []string)
	visit = func(folder string, way []string) {
		way = append(way, folder)
		switch state[folder] {
		case above:
			t.Errorf("a cycle: %s", strings.Join(way, " → "))
			return
		case done:
			return
		}
		state[folder] = above
		for _, to := range arrows[folder].to {
			if _, ok := arrows[to]; !ok {
				t.Errorf("%s may import %s, which is no package", folder, to)
			}
			if strings.HasPrefix(to, "bench") && !strings.HasPrefix(folder, "bench/") {
				t.Errorf("%s may import %s: nothing stands on a benchmark", folder, to)
			}
			visit(to, way)
		}
		state[folder] = done
	}
	for _, folder := range slices.Sorted(maps.Keys(arrows)) {
		visit(folder, nil)
	}
}

package house_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// block returns the fenced blocks of a language in a Markdown text.
func blocks(text, language string) (all []string) {
	var block []string
	in := false
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case !in && line == "```"+language:
			in, block = true, nil
		case in && line == "```":
			in = false
			all = append(all, strings.Join(block, "\n"))
		case in:
			block = append(block, line)
		}
	}
	return all
}

// unindent takes one tab off every line.
func unindent(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "\t")
	}
	return strings.Join(lines, "\n")
}

// TestREADMEProgramIsTested: every Go block of the README stands, line by line, in
// an example that go test compiles and runs.
func TestREADMEProgramIsTested(t *testing.T) {
	all := blocks(content(t, "README.md"), "go")
	if len(all) == 0 {
		t.Fatal("the README has no Go block")
	}
	const example = "txn/example_readme_test.go"
	tested := unindent(content(t, example))
	for _, block := range all {
		if !strings.Contains(tested, block) {
			t.Errorf("this block of the README is not in %s:\n%s", example, block)
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestLinksLeadSomewhere: files and headings that the documentation links to exist.
func TestLinksLeadSomewhere(t *testing.T) {
	for _, name := range files(t, ".md") {
		for _, m := range link.FindAllStringSubmatch(content(t, name), -1) {
			target, heading, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := path.Join(path.Dir(name), target)
			if target == "" {
				file = name
			}
			if !exists(file) {
				t.Errorf("%s links to %s, which does not exist", name, m[1])
				continue
			}
			if heading != "" && !headings(content(t, file))[heading] {
				t.Errorf("%s links to %s: there is no such heading", name, m[1])
			}
		}
	}
}

var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// headings returns the anchors of a Markdown text's headings.
func headings(text string) map[string]bool {
	all := map[string]bool{}
	for line := range strings.SplitSeq(text, "\n") {
		if title := strings.TrimLeft(line, "#"); title != line && strings.HasPrefix(title, " ") {
			anchor := notInAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			all[strings.ReplaceAll(anchor, " ", "-")] = true
		}
	}
	return all
}

var (
	codeFile = regexp.MustCompile("`((?:[a-z.]+/)+[a-z_0-9]+\\.(?:go|md|txt))`")
	// `name` (`folder/file.go`), also `a`, `b` (`folder/file.go`)
	placed   = regexp.MustCompile("((?:`[A-Za-z][A-Za-z0-9.]*`(?:,\\s+|\\s+and\\s+)?)+)\\s+\\(`((?:[a-z]+/)+[a-z_0-9]+\\.go)`\\)")
	quoted   = regexp.MustCompile("`([^`]+)`")
	testName = regexp.MustCompile(`\b((?:Test|Fuzz|Example|Benchmark)[A-Z][A-Za-z0-9]*)\b`)
)

// TestDocsSpeakOfWhatIsThere: a file that the documentation names exists, a name
// that it places in a file is declared there, and a test it names is one.
func TestDocsSpeakOfWhatIsThere(t *testing.T) {
	tests := map[string]bool{}
	for _, name := range files(t, "_test.go") {
		for declared := range declarations(t, name) {
			tests[declared] = true
		}
	}
	for _, name := range files(t, ".md") {
		if name == "CHANGELOG.md" { // tells of the past
			continue
		}
		text := content(t, name)
		for _, m := range codeFile.FindAllStringSubmatch(text, -1) {
			if !exists(m[1]) && !exists(path.Join(path.Dir(name), m[1])) {
				t.Errorf("%s speaks of %s, which does not exist", name, m[1])
			}
		}
		for _, m := range placed.FindAllStringSubmatch(text, -1) {
			if !exists(m[2]) {
				continue // said above
			}
			declared := declarations(t, m[2])
			for _, q := range quoted.FindAllStringSubmatch(m[1], -1) {
				if !declared[q[1]] {
					t.Errorf("%s says that %s is in %s; it is not declared there", name, q[1], m[2])
				}
			}
		}
		for _, m := range testName.FindAllStringSubmatch(text, -1) {
			if !tests[m[1]] {
				t.Errorf("%s speaks of %s, and there is no such test", name, m[1])
			}
		}
	}
}

// declarations returns the names that a file declares: f, Type, Type.method and
// Type.field.
func declarations(t *testing.T, rel string) map[string]bool {
	t.Helper()
	file := filepath.Join(root, filepath.FromSlash(rel))
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f, err := parser.ParseFile(token.NewFileSet(), file, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			all[d.Name.Name] = true
			if d.Recv != nil {
				recv := d.Recv.List[0].Type
				if p, ok := recv.(*ast.StarExpr); ok {
					recv = p.X
				}
				if id, ok := recv.(*ast.Ident); ok {
					all[id.Name+"."+d.Name.Name] = true
				}
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					all[s.Name.Name] = true
					if st, ok := s.Type.(*ast.StructType); ok {
						for _, field := range st.Fields.List {
							for _, n := range field.Names {
								all[s.Name.Name+"."+n.Name] = true
							}
						}
					}
				case *ast.ValueSpec:
					for _, n := range s.Names {
						all[n.Name] = true
					}
				}
			}
		}
	}
	return all
}

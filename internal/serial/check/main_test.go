package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const header = `{"format":"fjord-history/1"}` + "\n"

func TestExitStatus(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	writer := file("writer", header+`{"id":1,"session":0,"begin_ns":0,"end_ns":10,"outcome":"commit","writes":[{"t":"acc","k":"07","prev":5,"v":6}]}`)
	reader := file("reader", header+`{"id":1,"session":0,"begin_ns":20,"end_ns":30,"outcome":"commit","reads":[{"t":"acc","k":"07","v":5}]}`)
	early := file("early", header+`{"id":9,"session":0,"begin_ns":5,"end_ns":30,"outcome":"commit","reads":[{"t":"acc","k":"07","v":5}]}`)
	broken := file("broken", header+"{")
	for _, c := range []struct {
		args []string
		want int
		says string
	}{
		{[]string{writer}, 0, "strictly serializable; 1 attempts"},
		{[]string{writer, early}, 0, "strictly serializable; 2 attempts"},
		{[]string{writer, reader}, 1, "T1 read acc/07 at version 5, which T2 replaced by version 6 (rw)"},
		{[]string{writer, reader}, 1, "NOT strictly serializable: 1 violation(s)"},
		{[]string{writer, reader}, 1, "T1 is " + reader + "/1 (session " + reader + "/0, "},
		{[]string{broken}, 2, "broken: history line 2: "},
		{[]string{filepath.Join(dir, "none")}, 2, "no such file"},
		{nil, 2, "usage: check"},
		{[]string{"--limit", "0", writer}, 2, "usage: check"},
		{[]string{"--nonsense"}, 2, "flag provided but not defined"},
	} {
		var out bytes.Buffer
		if got := run(c.args, &out, &out); got != c.want || !strings.Contains(out.String(), c.says) {
			t.Errorf("%q: status %d, want %d and %q:\n%s", c.args, got, c.want, c.says, out.String())
		}
	}
}

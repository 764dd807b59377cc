package serial

import (
	"strings"
	"testing"
)

// wantWords fails unless the history was found wrong, with a violation of that kind whose explanation says all
// of words.
func wantWords(t *testing.T, res Result, kind Kind, words ...string) {
	t.Helper()
	if res.OK {
		t.Fatalf("found nothing: %v", res.String())
	}
	said := ""
	for i := range res.Violations {
		v := &res.Violations[i]
		said += v.Explain() + "\n"
		if v.Kind != kind {
			continue
		}
		missing := false
		for _, w := range words {
			missing = missing || !strings.Contains(v.Explain(), w)
		}
		if !missing {
			return
		}
	}
	t.Fatalf("no %v that says %q; it says:\n%s", kind, words, said)
}

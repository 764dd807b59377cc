//go:build linux && !race

package verbs_test

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"fjord/verbs"
)

// flags returns the VmFlags of the mapping that holds the address.
func flags(t *testing.T, a uintptr) string {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Skipf("cannot look at the mappings: %v", err)
	}
	defer func() { _ = f.Close() }()
	inside := false
	for s := bufio.NewScanner(f); s.Scan(); {
		var lo, hi uintptr
		if n, _ := fmt.Sscanf(s.Text(), "%x-%x ", &lo, &hi); n == 2 {
			inside = lo <= a && a < hi
		}
		if rest, ok := strings.CutPrefix(s.Text(), "VmFlags:"); ok && inside {
			return rest + " "
		}
	}
	t.Skip("the kernel shows no VmFlags")
	return ""
}

func TestMemoryAsksForItsPages(t *testing.T) {
	for huge, want := range map[verbs.HugePages]string{verbs.HugeTransparent: " hg ", verbs.HugeNever: " nh "} {
		m, err := verbs.MapMemory(8<<20, huge)
		if err != nil {
			t.Fatal(err)
		}
		a := uintptr(unsafe.Pointer(&m.Bytes()[0]))
		if a%(2<<20) != 0 {
			t.Errorf("the mapping begins at %#x, which is no multiple of 2 MiB", a)
		}
		if got := flags(t, a); !strings.Contains(got, want) {
			if !strings.Contains(got, "hg") && !strings.Contains(got, "nh") {
				t.Skipf("the kernel has no transparent huge pages: %s", got)
			}
			t.Errorf("%v: VmFlags are%s, want%s", huge, got, want)
		}
		if err := m.Free(); err != nil {
			t.Fatal(err)
		}
	}
}

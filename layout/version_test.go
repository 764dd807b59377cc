package layout

import "testing"

func TestVersionFlags(t *testing.T) {
	if Pending|Absent|CounterMask != 1<<64-1 || Pending&Absent != 0 || (Pending|Absent)&CounterMask != 0 {
		t.Fatal("the parts of the version word overlap or leave a gap")
	}
	for _, c := range []struct {
		v               Version
		counter         uint64
		pending, absent bool
		text            string
	}{
		{0, 0, false, false, "0"},
		{7, 7, false, false, "7"},
		{7 | Pending, 7, true, false, "7+pending"},
		{7 | Absent, 7, false, true, "7+absent"},
		{7 | Absent | Pending, 7, true, true, "7+absent+pending"},
		{CounterMask, 1<<62 - 1, false, false, "4611686018427387903"},
	} {
		if c.v.Counter() != c.counter || c.v.IsPending() != c.pending || c.v.IsAbsent() != c.absent || c.v.String() != c.text {
			t.Errorf("%#x: counter %d, pending %v, absent %v, %q", uint64(c.v), c.v.Counter(), c.v.IsPending(), c.v.IsAbsent(), c.v)
		}
		if w := c.v.WithoutPending(); w.IsPending() || w.IsAbsent() != c.absent || w.Counter() != c.counter {
			t.Errorf("%v without pending is %v", c.v, w)
		}
	}
}

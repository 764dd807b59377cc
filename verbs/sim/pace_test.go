package sim

import "testing"

// TestPace: a mark halves the rate, another one soon after does nothing, later ones
// cut less; without marks the rate comes back, fast to where it was and then slowly.
func TestPace(t *testing.T) {
	const line = 100_000
	n := newNIC(nics[1], new(Network))
	var p pace
	if p.hold(0, 1000, n) != 0 {
		t.Error("a QP that was never slowed down waits")
	}
	if !p.slow(1_000, line) || p.rate != line/2 {
		t.Errorf("the first mark leaves %d", p.rate)
	}
	if p.slow(1_000+cnpGap-1, line) || p.rate != line/2 {
		t.Errorf("a mark within %d ns leaves %d", int64(cnpGap), p.rate)
	}
	first, second := p.hold(2_000, 1000, n), p.hold(2_000, 1000, n)
	if second-first != 2000 {
		t.Errorf("messages of 1000 ps at line rate are %d ps apart at half of it", second-first)
	}
	now := int64(1_000)
	was := p.rate
	for i := range fastRises {
		now += risePause
		p.rise(now, line)
		if p.rate <= was || p.rate > line {
			t.Fatalf("rise %d leads from %d to %d", i, was, p.rate)
		}
		was = p.rate
	}
	if p.rate < line*9/10 {
		t.Errorf("fast recovery leads to %d", p.rate)
	}
	alpha := p.alpha
	p.slow(now+cnpGap, line)
	if cut := was - p.rate; cut <= 0 || cut >= was/2 || alpha >= alphaOne {
		t.Errorf("a later mark cuts %d of %d", cut, was)
	}
	for range 100_000 {
		now += risePause
		if p.rise(now, line); p.rate == 0 {
			return
		}
	}
	t.Errorf("the rate never came back to the line's: %d", p.rate)
}

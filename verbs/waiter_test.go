package verbs_test

import (
	"errors"
	"testing"

	"fjord/verbs"
)

// stage is a world in which a test decides what happens while a waiter waits.
type stage struct {
	verbs.Runtime
	now     int64
	virtual bool
	yields  int
	parks   int
	onYield func()
	onPark  func(deadline int64)
}

func (s *stage) Now() int64              { return s.now }
func (s *stage) Virtual() bool           { return s.virtual }
func (s *stage) NewParker() verbs.Parker { return (*stageParker)(s) }
func (s *stage) Yield() {
	s.yields++
	if s.onYield != nil {
		s.onYield()
	}
}

type stageParker stage

func (p *stageParker) Park(deadline int64) {
	p.parks++
	if p.onPark != nil {
		p.onPark(deadline)
	}
}
func (p *stageParker) Unpark() {}

// stageCQ has as many completions as the test puts into it.
type stageCQ struct {
	verbs.CQ
	n     int
	polls int
	arms  int
	onArm func()
}

func (c *stageCQ) Poll(wcs []verbs.WC) int {
	c.polls++
	n := min(c.n, len(wcs))
	c.n -= n
	return n
}

func (c *stageCQ) Arm(verbs.Parker) {
	c.arms++
	if c.onArm != nil {
		c.onArm()
	}
}

func TestWaiterTakesWhatIsThereWithoutWaiting(t *testing.T) {
	s, cq := &stage{}, &stageCQ{n: 3}
	n, err := verbs.NewWaiter(s).Poll(cq, make([]verbs.WC, 8), 0)
	if n != 3 || err != nil || cq.polls != 1 || s.yields+s.parks+cq.arms != 0 {
		t.Fatalf("n %d, %v; %d polls, %d yields, %d parks, %d arms", n, err, cq.polls, s.yields, s.parks, cq.arms)
	}
}

func TestWaiterSpinsThenYieldsThenParks(t *testing.T) {
	s, cq := &stage{}, &stageCQ{}
	pollsAtYield := 0
	s.onYield = func() {
		if pollsAtYield == 0 {
			pollsAtYield = cq.polls
		}
	}
	s.onPark = func(int64) { cq.n = 1 }
	n, err := verbs.NewWaiter(s).Poll(cq, make([]verbs.WC, 8), 0)
	if n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if pollsAtYield < 50 || s.yields < 50 || s.parks != 1 || cq.arms != 1 {
		t.Fatalf("%d polls before the first yield, %d yields, %d parks, %d arms", pollsAtYield, s.yields, s.parks, cq.arms)
	}
}

func TestWaiterParksAtOnceInVirtualTime(t *testing.T) {
	s, cq := &stage{virtual: true}, &stageCQ{}
	s.onPark = func(int64) { cq.n = 1 }
	if n, err := verbs.NewWaiter(s).Poll(cq, make([]verbs.WC, 8), 0); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if s.yields != 0 || s.parks != 1 || cq.polls > 4 {
		t.Fatalf("%d yields, %d parks, %d polls", s.yields, s.parks, cq.polls)
	}
}

func TestWaiterFindsWhatArrivesBetweenPollAndArm(t *testing.T) {
	s, cq := &stage{virtual: true}, &stageCQ{}
	cq.onArm = func() { cq.n = 1 } // arrives just before Arm takes effect: nobody will unpark
	s.onPark = func(int64) { t.Fatal("parked beside a completion") }
	if n, err := verbs.NewWaiter(s).Poll(cq, make([]verbs.WC, 8), 0); n != 1 || err != nil {
		t.Fatal(n, err)
	}
}

func TestWaiterArmsAgainAfterASpuriousWakeUp(t *testing.T) {
	s, cq := &stage{virtual: true}, &stageCQ{}
	s.onPark = func(int64) {
		if s.parks == 5 {
			cq.n = 1
		}
		if cq.arms != s.parks {
			t.Fatalf("%d arms at park %d", cq.arms, s.parks)
		}
	}
	if n, err := verbs.NewWaiter(s).Poll(cq, make([]verbs.WC, 8), 0); n != 1 || err != nil || s.parks != 5 {
		t.Fatal(n, err, s.parks)
	}
}

func TestWaiterGivesUpAtTheDeadline(t *testing.T) {
	for _, virtual := range []bool{false, true} {
		s, cq := &stage{virtual: virtual, now: 100}, &stageCQ{}
		s.onPark = func(deadline int64) {
			if deadline != 500 {
				t.Fatalf("parked until %d, right is 500", deadline)
			}
			s.now += 150 // wakes now and then for nothing
		}
		n, err := verbs.NewWaiter(s).Poll(cq, make([]verbs.WC, 8), 500)
		if n != 0 || !errors.Is(err, verbs.ErrTimeout) || s.now < 500 {
			t.Fatal(n, err, s.now)
		}
		// A completion that comes with the deadline is taken.
		s.onPark = func(int64) { s.now, cq.n = 1000, 1 }
		s.now = 600
		if n, err = verbs.NewWaiter(s).Poll(cq, make([]verbs.WC, 8), 1000); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		// A deadline in the past still looks once.
		cq.n = 1
		if n, err = verbs.NewWaiter(s).Poll(cq, make([]verbs.WC, 8), 1); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
}

func TestWaiterUntil(t *testing.T) {
	s := &stage{virtual: true}
	done, armed := false, 0
	s.onPark = func(int64) { done = true }
	if err := verbs.NewWaiter(s).Until(func() bool { return done }, func(verbs.Parker) { armed++ }, 0); err != nil || armed != 1 {
		t.Fatal(err, armed)
	}
	if err := verbs.NewWaiter(s).Until(func() bool { return true }, func(verbs.Parker) { t.Fatal("armed") }, 0); err != nil {
		t.Fatal(err)
	}
}

func TestWaiterAllocatesNothing(t *testing.T) {
	s, cq := &stage{virtual: true}, &stageCQ{}
	s.onPark = func(int64) { cq.n = 1 }
	w, wcs := verbs.NewWaiter(s), make([]verbs.WC, 8)
	var in verbs.CQ = cq
	if n := testing.AllocsPerRun(100, func() { _, _ = w.Poll(in, wcs, 0) }); n != 0 {
		t.Errorf("a wait that parks allocates %v times", n)
	}
}

package coord

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A worker gets the session that it had last; another gets another.
func TestAcquireGivesTheSameSessionAgain(t *testing.T) {
	c := newTestCluster(t, small(1, 1))
	co := join(t, c, c, 8)
	ctx := context.Background()
	first, err := co.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	first.Release()
	for range 10 {
		s, err := co.Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if s != first {
			t.Errorf("session %d, want %d again", s.Index(), first.Index())
		}
		done := make(chan *Session)
		go func() {
			s, err := co.Acquire(ctx)
			if err != nil {
				t.Error(err)
			}
			s.Release()
			done <- s
		}()
		if other := <-done; other == s {
			t.Error("two workers have one session")
		}
		s.Release()
	}
}

// A worker that runs on a session is told so when it asks for another, in
// whatever way it came to the one it has. Manual ones belong to no worker.
func TestAcquireTellsNesting(t *testing.T) {
	c := newTestCluster(t, small(1, 1))
	co := join(t, c, c, 8)
	ctx := context.Background()
	manual := acquire(t, co)
	s, err := co.Acquire(ctx)
	if err != nil {
		t.Fatalf("beside a manual session: %v", err)
	}
	_, err = co.Acquire(ctx)
	wantErr(t, err, ErrNested)
	second, err := co.AcquireManual(ctx)
	if err != nil {
		t.Errorf("a manual session beside the worker's: %v", err)
	}
	second.Release()
	s.Release()
	manual.Release()
	s, err = co.Acquire(ctx)
	if err != nil {
		t.Errorf("after the release: %v", err)
	}
	s.Release()
}

// Few sessions, very many workers that come and go: nobody shares one, nobody is
// said to nest who does not, and whoever does is told.
func TestAcquireUnderStress(t *testing.T) {
	workers, rounds := 200, 200
	if raceEnabled {
		workers, rounds = 100, 40
	}
	c := newTestCluster(t, small(1, 1))
	co := join(t, c, c, 8)
	ctx := context.Background()
	var users [8]atomic.Int32
	var wg sync.WaitGroup
	run := func() error {
		s, err := co.Acquire(ctx)
		if err != nil {
			return err
		}
		if n := users[s.Index()].Add(1); n != 1 {
			return errors.New("two workers run on one session")
		}
		runtime.Gosched()
		if _, err := co.Acquire(ctx); !errors.Is(err, ErrNested) {
			return errors.New("a nested call was not told: " + err.Error())
		}
		users[s.Index()].Add(-1)
		s.Release()
		return nil
	}
	for range workers {
		wg.Go(func() {
			for range rounds {
				done := make(chan error)
				go func() { done <- run() }() // its identity is used again by the next
				if err := errors.Join(run(), <-done); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := len(co.pool.snapshot()); n > 8 {
		t.Errorf("%d sessions were made, 8 are allowed", n)
	}
}

// When all sessions are in use, more workers wait; each Release lets one go on.
// The wait ends with the context, and is bounded without.
func TestAcquireWaits(t *testing.T) {
	c := newTestCluster(t, small(1, 1))
	co := join(t, c, c, 2)
	co.pool.patience = int64(50 * time.Millisecond)
	ctx := context.Background()
	a, b := acquire(t, co), acquire(t, co)

	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, err := co.Acquire(short)
	wantErr(t, err, context.DeadlineExceeded)

	begun := time.Now()
	_, err = co.Acquire(ctx)
	wantErr(t, err, ErrNoSession, "all 2", "never ended")
	if d := time.Since(begun); d < 40*time.Millisecond || d > 5*time.Second {
		t.Errorf("the wait took %v, its bound is 50 ms", d)
	}

	co.pool.patience = sessionPatience
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			s, err := co.Acquire(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			s.Release()
		})
	}
	time.Sleep(time.Millisecond)
	a.Release()
	wg.Wait()
	b.Release()
}

// Who gives up waiting for a session leaves the line.
func TestWaiterThatGivesUpLeavesTheLine(t *testing.T) {
	c := newTestCluster(t, small(1, 1))
	co := join(t, c, c, 1)
	s := acquire(t, co)
	for range 10 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		_, err := co.Acquire(ctx)
		cancel()
		wantErr(t, err, context.DeadlineExceeded)
	}
	if n := len(co.pool.queue); n != 0 {
		t.Errorf("%d workers are in line that wait no longer", n)
	}
	s.Release()
}

// A session that finds no local memory says what holds it, and what helps.
func TestSessionWithoutLocalMemory(t *testing.T) {
	c := newTestCluster(t, small(1, 1))
	co := join(t, c, c, 2)
	s := acquire(t, co)
	for {
		if _, ok := s.Alloc(chunkSize / 2); !ok {
			break
		}
	}
	_, err := co.AcquireManual(context.Background())
	wantErr(t, err, ErrNoMemory, "65536", "lower", "raise Sessions")
	s.Release()
	other := acquire(t, co)
	other.Release()
}

// A session that could not be made leaves its place to the next try, whatever the
// order in which many fail.
func TestSessionsThatCannotBeMade(t *testing.T) {
	c := newTestCluster(t, small(2, 1))
	w := &wire{Cluster: c}
	co := join(t, c, w, 4)
	co.pool.patience = int64(time.Second)
	ctx := context.Background()
	w.refuse.Store(true)
	var gate sync.WaitGroup
	for range 10 {
		gate.Add(3)
		w.onDemand = func() { gate.Done(); gate.Wait() } // three fail together
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				_, err := co.AcquireManual(ctx)
				wantErr(t, err, ErrNoNode)
			})
		}
		wg.Wait()
	}
	w.onDemand = nil
	w.refuse.Store(false)
	var all []*Session
	for range 4 {
		s, err := co.AcquireManual(ctx)
		if err != nil {
			t.Fatalf("session %d of 4, once the node answers again: %v", len(all)+1, err)
		}
		all = append(all, s)
	}
	for _, s := range all {
		s.Release()
	}
}

// A worker that waits for a session gets the place of one that could not be made.
func TestWaiterGetsThePlaceOfAFailure(t *testing.T) {
	c := newTestCluster(t, small(1, 1))
	w := &wire{Cluster: c}
	co := join(t, c, w, 1)
	ctx := context.Background()
	making, fail := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w.onDemand = func() {
		once.Do(func() { close(making); <-fail; w.refuse.Store(true) })
	}
	first := make(chan error)
	go func() { _, err := co.AcquireManual(ctx); first <- err }()
	<-making
	second := make(chan error)
	go func() {
		_, err := co.AcquireManual(ctx)
		second <- err
	}()
	time.Sleep(10 * time.Millisecond)
	close(fail)
	wantErr(t, <-first, ErrNoNode)
	select {
	case err := <-second:
		wantErr(t, err, ErrNoNode) // it has tried by itself
	case <-time.After(5 * time.Second):
		t.Error("a waiter was not woken")
	}
}

// Nobody waits for sessions that nobody is going to give back.
func TestAcquireWithAllSessionsLost(t *testing.T) {
	c := newTestCluster(t, small(1, 1))
	co := join(t, c, c, 2)
	ctx := context.Background()
	a, b := acquire(t, co), acquire(t, co)
	a.Park()
	b.Park()
	begun := time.Now()
	_, err := co.Acquire(ctx)
	wantErr(t, err, ErrNoNode, "all 2 sessions")
	if d := time.Since(begun); d > time.Second {
		t.Errorf("it took %v", d)
	}
	if !a.Unpark() || a.Unpark() {
		t.Error("a parked session is taken up again once")
	}
	a.Release()
	s, err := co.Acquire(ctx)
	if err != nil || s != a {
		t.Errorf("the session taken up again: %v, %v", s, err)
	}
	s.Release()
}

// Close refuses new sessions and waits for those that run, and for those that are
// being made: their memory must not go away under them.
func TestCloseWaitsForSessions(t *testing.T) {
	c := newTestCluster(t, small(1, 1))
	w := &wire{Cluster: c}
	co := join(t, c, w, 4)
	ctx := context.Background()
	running := acquire(t, co)
	making, goOn := make(chan struct{}), make(chan struct{})
	w.onDemand = func() { close(making); <-goOn }
	made := make(chan error)
	go func() {
		s, err := co.AcquireManual(ctx)
		if err == nil {
			s.Release()
		}
		made <- err
	}()
	<-making
	closed := make(chan error)
	go func() { closed <- co.Close(ctx) }()
	notYet := func(what string) {
		t.Helper()
		select {
		case err := <-closed:
			t.Fatalf("Close returned (%v) while %s", err, what)
		case <-time.After(20 * time.Millisecond):
		}
	}
	notYet("a session ran and another was being made")
	running.Release()
	notYet("a session was being made")
	_, err := co.Acquire(ctx)
	wantErr(t, err, ErrEnded)
	close(goOn)
	wantErr(t, <-made, ErrEnded)
	if err := <-closed; err != nil {
		t.Errorf("close: %v", err)
	}
	if err := co.Close(ctx); err != nil {
		t.Errorf("close again: %v", err)
	}
}

// Drain waits for what ran when it began, and for nothing that began later.
func TestDrain(t *testing.T) {
	c := newTestCluster(t, small(1, 1))
	calls := 0
	co := join(t, c, c, 4, func(cfg *Config) {
		cfg.OnDrain = func(context.Context, uint64) error { calls++; return nil }
	})
	ctx := context.Background()
	before := acquire(t, co)
	done := make(chan error)
	go func() {
		epoch, err := c.NewEpoch(ctx)
		if epoch != 2 || co.Epoch() != 2 {
			t.Errorf("epoch %d, the coordinator has acknowledged %d; want 2", epoch, co.Epoch())
		}
		done <- err
	}()
	time.Sleep(10 * time.Millisecond)
	after := acquire(t, co)
	select {
	case <-done:
		t.Fatal("the epoch began while an older transaction ran")
	case <-time.After(10 * time.Millisecond):
	}
	before.Release()
	select { // the second pass waits for what ran when it began
	case err := <-done:
		t.Errorf("the epoch began while a transaction ran that was older than its second pass: %v", err)
	case <-time.After(10 * time.Millisecond):
	}
	after.Release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if calls != 2 {
		t.Errorf("OnDrain was called %d times, want 2", calls)
	}

	endless := acquire(t, co)
	short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
	defer cancel()
	_, err := c.NewEpoch(short)
	wantErr(t, err, context.DeadlineExceeded, "in a transaction")
	if co.Epoch() != 2 {
		t.Errorf("an epoch was acknowledged that has not begun: %d", co.Epoch())
	}
	endless.Release()
}

// A coordinator that is closed, or is closing, holds up no epoch but for the
// transactions that it still runs.
func TestDrainOfAClosedCoordinator(t *testing.T) {
	c := newTestCluster(t, small(1, 1))
	dev, err := c.NewDevice("compute")
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	co, err := Join(ctx, c, dev, Config{Sessions: 4, Cache: 8, OnDrain: func(context.Context, uint64) error { return ErrEnded }})
	if err != nil {
		t.Fatal(err)
	}
	idle, endless := acquire(t, co), acquire(t, co)
	idle.Release()
	short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
	defer cancel()
	wantErr(t, co.Close(short), context.DeadlineExceeded, "in a transaction")

	short, cancel = context.WithTimeout(ctx, 5*time.Millisecond)
	defer cancel()
	_, err = c.NewEpoch(short)
	wantErr(t, err, context.DeadlineExceeded)
	endless.Release()
	short, cancel = context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := c.NewEpoch(short); err != nil {
		t.Errorf("an epoch after the last transaction of a closed coordinator ended: %v", err)
	}
}

// Sessions shows all of them, each once, as idle or busy, also after Close.
func TestSessionsAreShown(t *testing.T) {
	c := newTestCluster(t, small(1, 1))
	co := join(t, c, c, 4)
	a, b := acquire(t, co), acquire(t, co)
	count := func() (idle, busy int) {
		co.Sessions(func(*Session) { idle++ }, func(*Session) { busy++ })
		return idle, busy
	}
	a.Release()
	if i, n := count(); i != 1 || n != 1 {
		t.Errorf("%d idle and %d busy, want 1 and 1", i, n)
	}
	b.Park()
	if i, n := count(); i != 1 || n != 1 {
		t.Errorf("%d idle and %d busy with one parked, want 1 and 1", i, n)
	}
	if err := co.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if i, n := count(); i != 2 || n != 0 {
		t.Errorf("%d idle and %d busy after Close, want 2 and 0: nobody changes them any more", i, n)
	}
}

// A session whose sequence numbers are used up goes on under a number of its own;
// when those are used up too, it says so and what helps.
func TestTokensNeverRepeat(t *testing.T) {
	c := newTestCluster(t, small(1, 1))
	co := join(t, c, c, 2)
	s := acquire(t, co)
	defer s.Release()
	first, err := s.NextToken()
	if err != nil || first == 0 || first.Coordinator() != co.ID() {
		t.Fatalf("first token %v, %v", first, err)
	}
	s.seq = 1<<32 - 2
	last, err := s.NextToken()
	if err != nil || last.Sequence() != 1<<32-1 || last.Session() != first.Session() {
		t.Errorf("last token of the number is %v, %v", last, err)
	}
	next, err := s.NextToken()
	if err != nil || next.Session() == first.Session() || next.Sequence() != 1 {
		t.Errorf("token after the last is %v, %v; want a fresh session number", next, err)
	}
	co.pool.numbers = 1<<16 - 2
	s.seq = 1<<32 - 1
	_, err = s.NextToken()
	wantErr(t, err, ErrEnded, "used up", "open again")
}

package coord

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"fjord/verbs"
)

// Bounds of Config.SuspectAfter, in nanoseconds.
const (
	MinSuspectAfter = 100_000
	MaxSuspectAfter = 3600_000_000_000
)

// beatsPerSuspicion is how often a coordinator beats, and looks, in the time after
// which its silence is taken for death: enough that a few late ones do not matter.
const beatsPerSuspicion = 8

// strangersPatience is how long a coordinator that is watched by one without heartbeats
// of its own has to stand still.
const strangersPatience = 2_000_000_000

// privateSessions is how many sessions a coordinator has beside those of
// transactions: the heart's, and that of a recovery.
const privateSessions = 2

// heart is the worker of a coordinator that shows it to be alive, watches the others,
// and looks after idle sessions. It WRITEs a growing number into the coordinator's line
// at every memory node, and READs those of the others, on QPs of its own. It looks at
// its own clock only.
type heart struct {
	c        *Coordinator
	patience int64 // SuspectAfter; 0: there is no worker
	report   func(uint16, *Recovery, error)
	sweep    func(context.Context, *Recovery) error

	ctx    context.Context // of recoveries; ends with the coordinator
	cancel context.CancelFunc
	phase  atomic.Int32
	parker verbs.Parker
	s      *Session
	count  uint64
	looked int64 // when it looked last; 0: never
	seen   map[uint16]sighting

	recovering atomic.Bool // somebody is being settled
	keeper     *Session    // the session for that

	mu    sync.Mutex
	under map[uint16]bool // who is being settled or swept
}

// sighting is what is known of another coordinator's heartbeat.
type sighting struct {
	beat  uint64
	since int64 // own clock: when it was first seen so
}

// Phases of the heart.
const (
	heartIdle    = iota
	heartBeating // in the middle of a step: what it uses may not be freed
	heartStopped
)

func (h *heart) init(c *Coordinator, cfg Config) error {
	if d := cfg.SuspectAfter; d != 0 && (d < MinSuspectAfter || d > MaxSuspectAfter) {
		return fmt.Errorf("%w: SuspectAfter is %d ns, right is %d to %d, or 0 for no heartbeats", ErrConfig, d, MinSuspectAfter, MaxSuspectAfter)
	}
	h.c, h.patience, h.report, h.sweep = c, cfg.SuspectAfter, cfg.Report, cfg.OnRecovered
	h.seen, h.under = make(map[uint16]sighting), make(map[uint16]bool)
	h.parker = c.rt.NewParker()
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return nil
}

// Beats tells whether the coordinator shows heartbeats.
func (c *Coordinator) Beats() bool { return c.heart.patience > 0 }

func (h *heart) start() {
	if h.patience > 0 {
		h.c.rt.Go(h.run)
	}
}

// run beats until the coordinator is closed.
func (h *heart) run() {
	for h.phase.CompareAndSwap(heartIdle, heartBeating) {
		h.step()
		h.phase.Store(heartIdle)
		h.parker.Park(h.c.rt.Now() + h.patience/beatsPerSuspicion)
	}
}

// stop ends the worker, which may sleep on, and waits for what it is doing.
func (h *heart) stop(ctx context.Context) error {
	h.cancel()
	err := h.c.pool.until(ctx, func() bool {
		return h.phase.CompareAndSwap(heartIdle, heartStopped) || h.phase.Load() == heartStopped
	})
	if err == nil {
		err = h.c.pool.until(ctx, h.idle)
	}
	if err != nil {
		return fmt.Errorf("coord: a recovery is running: %w", err)
	}
	h.parker.Unpark()
	for _, s := range []*Session{h.s, h.keeper} {
		if s != nil {
			s.free()
		}
	}
	return nil
}

// private returns a session outside of the pool, connected under the present seat.
func (c *Coordinator) private(ctx context.Context, at **Session) (*Session, error) {
	seat, ok := c.seated()
	if !ok {
		if err := c.rejoin(ctx); err != nil {
			return nil, err
		}
		if seat, ok = c.seated(); !ok {
			return nil, fmt.Errorf("%w: coordinator %d", ErrFenced, seat.ID)
		}
	}
	if *at == nil {
		s, err := newSession(ctx, c, noSession)
		if err != nil {
			return nil, err
		}
		*at = s
	}
	return *at, (*at).reseat(ctx, seat)
}

// noSession is the index of a session that has no log slots.
const noSession = -1

// step is one beat, and one look.
func (h *heart) step() {
	c := h.c
	if c.closed.Load() {
		// No transaction begins, and those that run are still to be waited for.
		if h.s == nil || h.s.seat.ID == noSeat {
			return
		}
	} else if _, err := c.private(h.ctx, &h.s); err != nil {
		return // others will say so, when they need it
	}
	s := h.s
	_ = s.repairAll(h.ctx, anyConn, anyConn) // a node that is away is seen again when it is back
	beats, ok := h.exchange(s)
	if !ok {
		h.looked = 0 // this coordinator is out of reach, not the others
		return
	}
	h.mind()
	if suspects := h.judge(beats); len(suspects) > 0 && h.sweep != nil && !c.closed.Load() &&
		h.recovering.CompareAndSwap(false, true) {
		c.rt.Go(func() { h.recover(suspects) })
	}
}

// recover recovers suspects: first all of them are settled, since the sweep of one
// waits for the locks of the others.
func (h *heart) recover(suspects []suspect) {
	tell := func(id uint16, r *Recovery, err error) {
		if h.report != nil && h.ctx.Err() == nil {
			h.report(id, r, err)
		}
	}
	var settled []*Recovery
	for _, x := range suspects {
		if r, err := h.c.settle(h.ctx, x.id, x.beat); err == nil {
			settled = append(settled, r)
		} else if !errors.Is(err, ErrRecovering) { // else it is being swept, which takes its time
			tell(x.id, r, err)
		}
	}
	h.recovering.Store(false)
	for _, r := range settled { // side by side: one may have to wait for a living coordinator's lock
		h.c.rt.Go(func() {
			err := h.c.finish(h.ctx, r)
			h.swept(r.ID)
			tell(r.ID, r, err)
		})
	}
}

// sweeps notes that a recovery has begun, which ends with swept. It is false if there
// is one of that coordinator.
func (h *heart) sweeps(id uint16) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.under[id] {
		return false
	}
	h.under[id] = true
	return true
}

func (h *heart) swept(id uint16) {
	h.mu.Lock()
	delete(h.under, id)
	h.mu.Unlock()
}

// idle tells whether no recovery is running, and that none begins.
func (h *heart) idle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.under) == 0 && h.recovering.CompareAndSwap(false, true)
}

// exchange beats at all nodes and reads the beats that are there: for each place the
// words found. ok is false if no node has answered.
func (h *heart) exchange(s *Session) (found [][]uint64, ok bool) {
	l := h.c.layout
	s.Reset()
	word, ok := s.Alloc(8)
	if !ok {
		return nil, false
	}
	h.count++
	word.SetWord(0, uint64(s.seat.ID)<<beatIDShift|h.count&(1<<beatIDShift-1))
	area := int(l.Header.Coordinators) * heartbeatLine
	bufs := make([]Buf, len(l.Nodes))
	for node := range bufs {
		if bufs[node], ok = s.Alloc(area); !ok {
			return nil, false
		}
		base := l.Nodes[node].Base + l.Header.HeartbeatOffset
		s.Write(node, base+uint64(s.seat.Place)*heartbeatLine, word)
		s.Read(node, base, bufs[node])
	}
	s.Ring()
	_ = s.Wait() // each node is looked at
	found = make([][]uint64, l.Header.Coordinators)
	answered := false
	for node := range bufs {
		if s.Lost(node) {
			continue
		}
		answered = true
		for place := range found {
			found[place] = append(found[place], bufs[node].Word(place*heartbeatLine))
		}
	}
	return found, answered
}

// suspect is a coordinator whose beat has stood still.
type suspect struct {
	id   uint16
	beat uint64
}

// judge returns those whose beat has stood still for too long.
func (h *heart) judge(found [][]uint64) (suspects []suspect) {
	c := h.c
	members, err := c.dir.Members(h.ctx)
	if err != nil {
		return nil
	}
	now := c.rt.Now()
	away := h.looked == 0 || now-h.looked > h.patience/2 // then it is this one that has stood still
	h.looked = now
	present := make(map[uint16]bool, len(members))
	for _, m := range members {
		present[m.ID] = true
		if m.ID == h.s.seat.ID || !m.Beats || m.Place >= len(found) {
			continue
		}
		beat := uint64(0)
		for _, w := range found[m.Place] {
			beat = max(beat, beatOf(w, m.ID))
		}
		old, known := h.seen[m.ID]
		switch {
		case !known || away || old.beat != beat:
			h.seen[m.ID] = sighting{beat, now}
		case now-old.since >= h.patience:
			h.seen[m.ID] = sighting{beat, now} // the next try comes after as long a time
			suspects = append(suspects, suspect{m.ID, beat})
		}
	}
	for id := range h.seen {
		if !present[id] {
			delete(h.seen, id)
		}
	}
	slices.SortFunc(suspects, func(a, b suspect) int { return cmp.Compare(a.id, b.id) })
	return suspects
}

// mind has the releases made good that have failed on idle sessions: nobody else
// would notice before they are used again, while others wait for the locks. Where
// requests execute when they are posted, a failure is known at once.
func (h *heart) mind() {
	for _, s := range h.c.pool.snapshot() {
		if s.sync || !atomic.CompareAndSwapUint64(&s.owner, 0, ownerStats) {
			continue
		}
		if s.seat.ID == h.s.seat.ID {
			s.takeAll(s.cq.Poll(s.wcs[:]))
			if s.spoiled > 0 {
				_ = s.Settle(h.ctx) // tried again at the next beat
			}
		}
		s.Release()
	}
}

// evidence watches a suspect for as long as it takes to tell that it is dead, and
// returns the beat at which it stands. Of one that shows no heartbeats there is none.
func (h *heart) evidence(ctx context.Context, s *Session, id uint16) (beat uint64, err error) {
	members, err := h.c.dir.Members(ctx)
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(members, func(m Seat) bool { return m.ID == id })
	if i < 0 {
		return 0, fmt.Errorf("%w: coordinator %d has left, was recovered, or never joined", ErrNoMember, id)
	}
	m := members[i]
	if beat, err = h.look(s, m); err != nil || !m.Beats {
		return beat, err
	}
	patience := h.patience
	if patience == 0 {
		patience = strangersPatience
	}
	for end := h.c.rt.Now() + patience; h.c.rt.Now() < end; {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		h.c.rt.Sleep(patience / beatsPerSuspicion)
		now, err := h.look(s, m)
		if err != nil {
			return 0, err
		}
		if now != beat {
			return 0, fmt.Errorf("%w: coordinator %d has beaten while it was watched", ErrAlive, id)
		}
	}
	return beat, nil
}

// look reads a coordinator's newest beat.
func (h *heart) look(s *Session, m Seat) (newest uint64, err error) {
	l := h.c.layout
	s.Reset()
	var bufs []Buf
	for node := range l.Nodes {
		b, ok := s.Alloc(8)
		if !ok {
			return 0, errNoLocal
		}
		bufs = append(bufs, b)
		s.Read(node, l.Nodes[node].Base+l.Header.HeartbeatOffset+uint64(m.Place)*heartbeatLine, b)
	}
	if err := s.round(); err != nil {
		return 0, err
	}
	for _, b := range bufs {
		newest = max(newest, beatOf(b.Word(0), m.ID))
	}
	return newest, nil
}

// round is one round trip for everything that is staged.
func (s *Session) round() error {
	s.Ring()
	return s.Wait()
}

package verbstest

import (
	"fmt"

	"fjord/verbs"
)

// move is a row of the table in ibv_modify_qp(3) for RC queue pairs. It is
// written down here once more on purpose: the suite must not judge providers by
// the code that they share.
type move struct {
	from, to  verbs.QPState
	need, may verbs.AttrMask
}

func moves() []move {
	m := []move{
		{from: verbs.StateReset, to: verbs.StateInit, need: verbs.AttrPKeyIndex | verbs.AttrPort | verbs.AttrAccess},
		{from: verbs.StateInit, to: verbs.StateInit, may: verbs.AttrPKeyIndex | verbs.AttrPort | verbs.AttrAccess},
		{from: verbs.StateInit, to: verbs.StateRTR,
			need: verbs.AttrDest | verbs.AttrPathMTU | verbs.AttrDestQPN | verbs.AttrRQPSN | verbs.AttrMaxDestRdAtomic | verbs.AttrMinRNRTimer,
			may:  verbs.AttrAccess | verbs.AttrPKeyIndex},
		{from: verbs.StateRTR, to: verbs.StateRTS,
			need: verbs.AttrSQPSN | verbs.AttrTimeout | verbs.AttrRetryCnt | verbs.AttrRNRRetry | verbs.AttrMaxRdAtomic,
			may:  verbs.AttrAccess | verbs.AttrMinRNRTimer},
		{from: verbs.StateRTS, to: verbs.StateRTS, may: verbs.AttrAccess | verbs.AttrMinRNRTimer},
	}
	for _, from := range everyState() {
		m = append(m, move{from: from, to: verbs.StateReset}, move{from: from, to: verbs.StateErr})
	}
	return m
}

func everyState() []verbs.QPState {
	return []verbs.QPState{verbs.StateReset, verbs.StateInit, verbs.StateRTR, verbs.StateRTS, verbs.StateErr}
}

func everyAttr() []verbs.AttrMask {
	var l []verbs.AttrMask
	for m := verbs.AttrPKeyIndex; m <= verbs.AttrMaxRdAtomic; m <<= 1 {
		l = append(l, m)
	}
	return l
}

// at makes a side in that state, whose peer would be peer.
func (t *T) at(st verbs.QPState) (s, peer *side) {
	t.Helper()
	s, peer = t.pair(idle)
	t.advance(s, peer, st)
	return s, peer
}

// advance takes a side in RESET to st.
func (t *T) advance(s, peer *side, st verbs.QPState) {
	t.Helper()
	steps := []struct {
		attr verbs.QPAttr
		mask verbs.AttrMask
	}{{verbs.QPAttr{State: verbs.StateInit, Port: 1, Access: s.conn.Access}, maskInit}, {s.rtr(peer), maskRTR}, {s.rts(), maskRTS}}
	switch st {
	case verbs.StateReset:
		steps = nil
	case verbs.StateInit:
		steps = steps[:1]
	case verbs.StateRTR:
		steps = steps[:2]
	case verbs.StateRTS:
	case verbs.StateErr:
		steps = steps[:1]
	}
	for _, step := range steps {
		s.modify(step.attr, step.mask)
	}
	if st == verbs.StateErr {
		s.toErr()
	}
	if s.qp.State() != st {
		t.Fatalf("QP is in %v, not in %v", s.qp.State(), st)
	}
}

// good returns attributes that are right for every move.
func (s *side) good(peer *side, to verbs.QPState) verbs.QPAttr {
	a := s.rtr(peer)
	b := s.rts()
	a.State, a.Port, a.Access = to, 1, s.conn.Access
	a.SQPSN, a.Timeout, a.RetryCnt, a.RNRRetry, a.MaxRdAtomic = b.SQPSN, b.Timeout, b.RetryCnt, b.RNRRetry, b.MaxRdAtomic
	return a
}

// outOfRange lists for an attribute values that are wrong on this device.
func outOfRange(d verbs.DeviceAttr, m verbs.AttrMask, good verbs.QPAttr) []verbs.QPAttr {
	var l []verbs.QPAttr
	add := func(set func(a *verbs.QPAttr)) {
		a := good
		set(&a)
		l = append(l, a)
	}
	switch m {
	case verbs.AttrPort:
		add(func(a *verbs.QPAttr) { a.Port = 0 })
		if d.Ports < 255 {
			add(func(a *verbs.QPAttr) { a.Port = d.Ports + 1 })
		}
	case verbs.AttrAccess:
		add(func(a *verbs.QPAttr) { a.Access = verbs.AccessAll + 1 })
		add(func(a *verbs.QPAttr) { a.Access = 0x80 })
	case verbs.AttrPathMTU:
		for _, mtu := range []uint32{0, 1, 255, 300, 1500, 8192, 1 << 31} {
			add(func(a *verbs.QPAttr) { a.PathMTU = mtu })
		}
		if d.ActiveMTU < 4096 {
			add(func(a *verbs.QPAttr) { a.PathMTU = 2 * d.ActiveMTU })
		}
	case verbs.AttrDestQPN:
		add(func(a *verbs.QPAttr) { a.DestQPN = 1 << 24 })
	case verbs.AttrRQPSN:
		add(func(a *verbs.QPAttr) { a.RQPSN = 1 << 24 })
	case verbs.AttrSQPSN:
		add(func(a *verbs.QPAttr) { a.SQPSN = 1<<32 - 1 })
	case verbs.AttrMaxDestRdAtomic:
		if d.MaxQPRdAtomic < 255 {
			add(func(a *verbs.QPAttr) { a.MaxDestRdAtomic = d.MaxQPRdAtomic + 1 })
		}
	case verbs.AttrMaxRdAtomic:
		if d.MaxQPRdAtomic < 255 {
			add(func(a *verbs.QPAttr) { a.MaxRdAtomic = d.MaxQPRdAtomic + 1 })
		}
	case verbs.AttrMinRNRTimer:
		add(func(a *verbs.QPAttr) { a.MinRNRTimer = 32 })
	case verbs.AttrTimeout:
		add(func(a *verbs.QPAttr) { a.Timeout = 32 })
	case verbs.AttrRetryCnt:
		add(func(a *verbs.QPAttr) { a.RetryCnt = 8 })
	case verbs.AttrRNRRetry:
		add(func(a *verbs.QPAttr) { a.RNRRetry = 8 })
	}
	return l
}

func transitions() []spec {
	var l []spec
	for _, from := range everyState() {
		for _, to := range everyState() {
			var m *move
			for _, row := range moves() {
				if row.from == from && row.to == to {
					m = &row
				}
			}
			if m == nil {
				l = append(l, spec{fmt.Sprintf("%v to %v is refused", from, to), func(t *T) { t.refusedMove(from, to) }})
			} else {
				l = append(l, spec{fmt.Sprintf("%v to %v takes its attributes and no others", from, to), func(t *T) { t.move(*m) }})
			}
		}
	}
	return append(l,
		spec{"attributes alone are changed in INIT and RTS, and nowhere else", func(t *T) {
			for _, st := range everyState() {
				s, _ := t.at(st)
				err := s.qp.Modify(verbs.QPAttr{Access: verbs.AccessRemoteRead}, verbs.AttrAccess)
				if ok := st == verbs.StateInit || st == verbs.StateRTS; (err == nil) != ok {
					t.Errorf("Modify of Access alone in %v: %v", st, err)
				}
				if s.qp.State() != st {
					t.Errorf("Modify of Access alone took %v to %v", st, s.qp.State())
				}
			}
		}},
		spec{"unknown bits of the mask are refused", func(t *T) {
			s, _ := t.at(verbs.StateReset)
			err := s.qp.Modify(verbs.QPAttr{State: verbs.StateInit, Port: 1}, maskInit|1<<31)
			t.refusal("Modify", err, verbs.ErrInvalid, "unknown")
		}},
		spec{"a state that does not exist is refused", func(t *T) {
			s, _ := t.at(verbs.StateReset)
			if err := s.qp.Modify(verbs.QPAttr{State: verbs.StateErr + 1, Port: 1}, maskInit); err == nil {
				t.Fatal("accepted")
			}
		}},
	)
}

func (t *T) refusedMove(from, to verbs.QPState) {
	s, peer := t.at(from)
	attr := s.good(peer, to)
	masks := []verbs.AttrMask{verbs.AttrState}
	for _, m := range moves() {
		if m.to == to {
			masks = append(masks, verbs.AttrState|m.need)
		}
	}
	for _, m := range masks {
		err := s.qp.Modify(attr, m)
		t.refusal(fmt.Sprintf("Modify with %v", m), err, verbs.ErrState, from.String(), to.String())
		if s.qp.State() != from {
			t.Fatalf("a refused move left the QP in %v", s.qp.State())
		}
	}
}

func (t *T) move(m move) {
	s, peer := t.at(m.from)
	attr := s.good(peer, m.to)
	before := s.qp.Query()
	refused := func(a verbs.QPAttr, mask verbs.AttrMask, name string) {
		t.Helper()
		t.refusal(fmt.Sprintf("Modify %v to %v with %v", m.from, m.to, mask), s.qp.Modify(a, mask), verbs.ErrInvalid, name)
		if got := s.qp.Query(); got != before {
			t.Fatalf("a refused Modify changed %+v to %+v", before, got)
		}
	}
	for _, x := range everyAttr() {
		switch {
		case m.need&x != 0:
			refused(attr, verbs.AttrState|m.need&^x, x.String())
		case m.may&x == 0:
			refused(attr, verbs.AttrState|m.need|x, x.String())
		}
		if (m.need|m.may)&x != 0 {
			for _, a := range outOfRange(s.dev.Attr(), x, attr) {
				refused(a, verbs.AttrState|m.need|x, x.String())
			}
		}
	}
	for _, mask := range []verbs.AttrMask{m.need, m.need | m.may} {
		s, peer := t.at(m.from)
		s.modify(s.good(peer, m.to), verbs.AttrState|mask)
		if st := s.qp.State(); st != m.to {
			t.Fatalf("Modify %v to %v with %v left the QP in %v", m.from, m.to, mask, st)
		}
	}
	for _, x := range everyAttr() {
		if m.may&x != 0 {
			s, peer := t.at(m.from)
			s.modify(s.good(peer, m.to), verbs.AttrState|m.need|x)
		}
	}
}

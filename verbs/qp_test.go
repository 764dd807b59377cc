package verbs_test

import (
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"

	"fjord/verbs"
)

const allAttrs = verbs.AttrMaxRdAtomic<<1 - 1

// row is a line of the table in ibv_modify_qp(3), written down independently of
// CheckModify.
type row struct{ need, may verbs.AttrMask }

func table() map[[2]verbs.QPState]row {
	const (
		reset, init, rtr, rts = verbs.StateReset, verbs.StateInit, verbs.StateRTR, verbs.StateRTS
		ports                 = verbs.AttrPKeyIndex | verbs.AttrPort | verbs.AttrAccess
	)
	t := map[[2]verbs.QPState]row{
		{reset, init}: {need: ports},
		{init, init}:  {may: ports},
		{init, rtr}: {need: verbs.AttrDest | verbs.AttrPathMTU | verbs.AttrDestQPN | verbs.AttrRQPSN | verbs.AttrMaxDestRdAtomic | verbs.AttrMinRNRTimer,
			may: verbs.AttrAccess | verbs.AttrPKeyIndex},
		{rtr, rts}: {need: verbs.AttrSQPSN | verbs.AttrTimeout | verbs.AttrRetryCnt | verbs.AttrRNRRetry | verbs.AttrMaxRdAtomic,
			may: verbs.AttrAccess | verbs.AttrMinRNRTimer},
		{rts, rts}: {may: verbs.AttrAccess | verbs.AttrMinRNRTimer},
	}
	for st := reset; st <= verbs.StateErr; st++ {
		t[[2]verbs.QPState{st, reset}] = row{}
		t[[2]verbs.QPState{st, verbs.StateErr}] = row{}
	}
	return t
}

// names lists the attributes of a mask, one by one.
func names(m verbs.AttrMask) []string {
	var l []string
	for b := verbs.AttrState; b <= verbs.AttrMaxRdAtomic; b <<= 1 {
		if m&b != 0 {
			l = append(l, b.String())
		}
	}
	return l
}

func good(st verbs.QPState) verbs.QPAttr {
	return verbs.QPAttr{State: st, Port: 1, Access: verbs.AccessAll, PathMTU: 4096, DestQPN: 1<<24 - 1, RQPSN: 1<<24 - 1,
		SQPSN: 1<<24 - 1, MinRNRTimer: 31, Timeout: 31, RetryCnt: 7, RNRRetry: 7, MaxDestRdAtomic: 255, MaxRdAtomic: 255}
}

// TestCheckModify tries, for every pair of states, all masks that are at most two
// attributes away from those of any legal move, and random ones, against the table.
func TestCheckModify(t *testing.T) {
	tab := table()
	masks := map[verbs.AttrMask]bool{}
	for _, r := range tab {
		for _, base := range []verbs.AttrMask{r.need, r.need | r.may} {
			for m := range allAttrs + 1 {
				if m&verbs.AttrState == 0 && bits.OnesCount32(uint32(m)) <= 2 {
					masks[base^m] = true
				}
			}
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		masks[verbs.AttrMask(rng.Uint32())&allAttrs&^verbs.AttrState] = true
	}
	legal := 0
	for cur := verbs.StateReset; cur <= verbs.StateErr; cur++ {
		for to := verbs.StateReset; to <= verbs.StateErr+1; to++ {
			for m := range masks {
				for _, stateBit := range []verbs.AttrMask{0, verbs.AttrState} {
					a, next := good(to), cur
					if stateBit != 0 {
						next = to
					}
					err := verbs.CheckModify(cur, &a, m|stateBit)
					r, ok := tab[[2]verbs.QPState{cur, next}]
					missing, extra := r.need&^m, m&^(r.need|r.may)
					var kind error
					var says []string
					switch {
					case !ok:
						kind, says = verbs.ErrState, []string{cur.String(), next.String()}
					case missing != 0:
						kind, says = verbs.ErrInvalid, names(missing)
					case extra != 0:
						kind, says = verbs.ErrInvalid, names(extra)
					default:
						legal++
					}
					if !errors.Is(err, kind) {
						t.Fatalf("CheckModify(%v, to %v, %v) = %v, right is %v", cur, next, m|stateBit, err, kind)
					}
					for _, s := range says {
						if !strings.Contains(err.Error(), s) {
							t.Fatalf("CheckModify(%v, to %v, %v): %q does not name %s", cur, next, m|stateBit, err, s)
						}
					}
				}
			}
		}
	}
	if legal < 30 {
		t.Errorf("only %d legal moves were met", legal)
	}
	a := good(verbs.StateInit)
	if err := verbs.CheckModify(verbs.StateReset, &a, allAttrs+1|verbs.AttrState|verbs.AttrPKeyIndex|verbs.AttrPort|verbs.AttrAccess); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("unknown bit of the mask: %v", err)
	}
}

// TestCheckModifyValues walks each attribute over the edges of its range.
func TestCheckModifyValues(t *testing.T) {
	type edge struct {
		attr  verbs.AttrMask
		set   func(a *verbs.QPAttr, v uint32)
		right []uint32
		wrong []uint32
	}
	psn := func(set func(a *verbs.QPAttr, v uint32), m verbs.AttrMask) edge {
		return edge{m, set, []uint32{0, 1, 1<<24 - 1}, []uint32{1 << 24, 1<<24 + 1, 1<<32 - 1}}
	}
	for _, e := range []edge{
		{verbs.AttrPort, func(a *verbs.QPAttr, v uint32) { a.Port = uint8(v) }, []uint32{1, 255}, []uint32{0}},
		{verbs.AttrAccess, func(a *verbs.QPAttr, v uint32) { a.Access = verbs.Access(v) }, []uint32{0, 1, uint32(verbs.AccessAll)}, []uint32{uint32(verbs.AccessAll) + 1, 255}},
		{verbs.AttrPathMTU, func(a *verbs.QPAttr, v uint32) { a.PathMTU = v }, []uint32{256, 512, 1024, 2048, 4096}, []uint32{0, 1, 255, 257, 1500, 8192, 1<<32 - 1}},
		psn(func(a *verbs.QPAttr, v uint32) { a.DestQPN = v }, verbs.AttrDestQPN),
		psn(func(a *verbs.QPAttr, v uint32) { a.RQPSN = v }, verbs.AttrRQPSN),
		psn(func(a *verbs.QPAttr, v uint32) { a.SQPSN = v }, verbs.AttrSQPSN),
		{verbs.AttrMinRNRTimer, func(a *verbs.QPAttr, v uint32) { a.MinRNRTimer = uint8(v) }, []uint32{0, 31}, []uint32{32, 255}},
		{verbs.AttrTimeout, func(a *verbs.QPAttr, v uint32) { a.Timeout = uint8(v) }, []uint32{0, 31}, []uint32{32, 255}},
		{verbs.AttrRetryCnt, func(a *verbs.QPAttr, v uint32) { a.RetryCnt = uint8(v) }, []uint32{0, 7}, []uint32{8, 255}},
		{verbs.AttrRNRRetry, func(a *verbs.QPAttr, v uint32) { a.RNRRetry = uint8(v) }, []uint32{0, 7}, []uint32{8, 255}},
		{verbs.AttrPKeyIndex, func(a *verbs.QPAttr, v uint32) { a.PKeyIndex = uint16(v) }, []uint32{0, 65535}, nil},
		{verbs.AttrMaxDestRdAtomic, func(a *verbs.QPAttr, v uint32) { a.MaxDestRdAtomic = uint8(v) }, []uint32{0, 255}, nil},
		{verbs.AttrMaxRdAtomic, func(a *verbs.QPAttr, v uint32) { a.MaxRdAtomic = uint8(v) }, []uint32{0, 255}, nil},
	} {
		for move, r := range table() {
			takes := (r.need|r.may)&e.attr != 0
			check := func(v uint32) error {
				a := good(move[1])
				e.set(&a, v)
				m := verbs.AttrState | r.need
				if takes {
					m |= e.attr
				}
				return verbs.CheckModify(move[0], &a, m)
			}
			for _, v := range e.right {
				if err := check(v); err != nil {
					t.Errorf("%v of %d in %v: %v", e.attr, v, move, err)
				}
			}
			for _, v := range e.wrong {
				err := check(v)
				if !takes {
					if err != nil {
						t.Errorf("%v in %v is not meant, but looked at: %v", e.attr, move, err)
					}
					continue
				}
				if !errors.Is(err, verbs.ErrInvalid) || !strings.Contains(err.Error(), e.attr.String()) || !strings.Contains(err.Error(), fmt.Sprint(v)) {
					t.Errorf("%v of %d in %v: error is %v", e.attr, v, move, err)
				}
			}
		}
	}
}

// TestRNRTimer holds the codes against the table of the InfiniBand
// specification (9.7.5.2.8), in milliseconds.
func TestRNRTimer(t *testing.T) {
	ms := [32]float64{655.36, .01, .02, .03, .04, .06, .08, .12, .16, .24, .32, .48, .64, .96, 1.28, 1.92, 2.56, 3.84, 5.12, 7.68,
		10.24, 15.36, 20.48, 30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52}
	for code, want := range ms {
		if got := verbs.RNRTimer(uint8(code)); got != int64(want*1e6+0.5) {
			t.Errorf("code %d is %d ns, right is %g ms", code, got, want)
		}
	}
}

// recorder is a QP that notes its moves.
type recorder struct {
	verbs.QP
	state verbs.QPState
	attrs []verbs.QPAttr
	fail  verbs.QPState
}

func (r *recorder) Num() uint32 { return 0x123 }

func (r *recorder) Modify(a verbs.QPAttr, m verbs.AttrMask) error {
	if r.fail != 0 && a.State == r.fail {
		return verbs.ErrClosed
	}
	if err := verbs.CheckModify(r.state, &a, m); err != nil {
		return err
	}
	r.state = a.State
	r.attrs = append(r.attrs, a)
	return nil
}

func TestBringUp(t *testing.T) {
	dev := verbs.DeviceAttr{ActiveMTU: 1024, MaxQPRdAtomic: 16}
	local := verbs.Endpoint{GID: verbs.GID{1}, QPN: 0x111, PSN: 0x222}
	remote := verbs.Endpoint{GID: verbs.GID{2}, QPN: 0x333, PSN: 0x444}
	r := &recorder{}
	if err := verbs.BringUp(r, local, remote, verbs.DefaultConnAttr(dev)); err != nil {
		t.Fatal(err)
	}
	if len(r.attrs) != 3 || r.state != verbs.StateRTS {
		t.Fatalf("%d moves, now in %v", len(r.attrs), r.state)
	}
	rtr, rts := r.attrs[1], r.attrs[2]
	if rtr.DestGID != remote.GID || rtr.DestQPN != remote.QPN || rtr.RQPSN != remote.PSN || rtr.PathMTU != 1024 || rtr.MaxDestRdAtomic != 16 {
		t.Errorf("RTR with %+v", rtr)
	}
	if rts.SQPSN != local.PSN || rts.RNRRetry != 7 || rts.RetryCnt != 7 || rts.MaxRdAtomic != 16 {
		t.Errorf("RTS with %+v", rts)
	}
	for _, st := range []verbs.QPState{verbs.StateInit, verbs.StateRTR, verbs.StateRTS} {
		err := verbs.BringUp(&recorder{fail: st}, local, remote, verbs.DefaultConnAttr(dev))
		if !errors.Is(err, verbs.ErrClosed) || !strings.Contains(err.Error(), st.String()) || !strings.Contains(err.Error(), "0x123") {
			t.Errorf("a failure at %v is told as %v", st, err)
		}
	}
	if err := verbs.BringUp(&recorder{}, local, remote, verbs.ConnAttr{}); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("the zero ConnAttr: %v", err)
	}
}

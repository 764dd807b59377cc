package txn_test

import (
	"errors"
	"sync/atomic"

	"fjord/verbs"
)

// script decides what happens to the doorbells of coordinators. With none set
// they go straight to the provider.
type script struct {
	hook atomic.Pointer[func(d *doorbell) (int, error)]
	away atomic.Pointer[verbs.GID] // a memory node that no QP can be brought up to
}

// set makes hook decide about every doorbell from now on; nil: none does.
func (s *script) set(hook func(d *doorbell) (int, error)) {
	if hook == nil {
		s.hook.Store(nil)
		return
	}
	s.hook.Store(&hook)
}

// doorbell is one PostSend.
type doorbell struct {
	qp   verbs.QP // the provider's
	dest verbs.GID
	wrs  []verbs.SendWR
}

// pass lets it through.
func (d *doorbell) pass() (int, error) { return d.qp.PostSend(d.wrs) }

// cut breaks the QP in the middle of the list: requests before done execute,
// but only those before told do so with an answer; told is done at most. What
// has no answer completes as flushed.
func (d *doorbell) cut(told, done int) (int, error) {
	if d.qp.State() != verbs.StateRTS {
		return d.pass() // it is broken already: each request is flushed once
	}
	for i := range d.wrs[:done] {
		wr := d.wrs[i]
		if i >= told {
			wr.Flags &^= verbs.FlagSignaled
		}
		if n, err := d.qp.PostSend([]verbs.SendWR{wr}); err != nil {
			return i + n, err
		}
	}
	if err := d.qp.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState); err != nil {
		return told, err
	}
	n, err := d.qp.PostSend(d.wrs[told:])
	return told + n, err
}

type scriptedDevice struct {
	verbs.Device
	s   *script
	see device
}

// device is what a coordinator sees of the provider. The engine takes other ways
// through its sessions with each.
type device uint8

const (
	deviceAsIs     device = iota
	deviceAsync           // completions have to be awaited
	deviceNoInline        // and payloads stay where they are until then
	deviceLent            // the provider's own, which no script sees: it lends memory
)

func (d device) String() string {
	return [...]string{"as it is", "asynchronous", "without inline", "lent"}[d]
}

// Attr hides what the coordinator is not to see.
func (d *scriptedDevice) Attr() verbs.DeviceAttr {
	a := d.Device.Attr()
	if d.see >= deviceAsync {
		a.Caps &^= verbs.CapSyncPost
	}
	if d.see >= deviceNoInline {
		a.MaxInline = 0
		a.Caps &^= verbs.CapInline
	}
	return a
}

func (d *scriptedDevice) AllocPD() (verbs.PD, error) {
	pd, err := d.Device.AllocPD()
	if err != nil {
		return nil, err
	}
	return &scriptedPD{pd, d.s}, nil
}

type scriptedPD struct {
	verbs.PD
	s *script
}

func (p *scriptedPD) CreateQP(init verbs.QPInit) (verbs.QP, error) {
	qp, err := p.PD.CreateQP(init)
	if err != nil {
		return nil, err
	}
	return &scriptedQP{QP: qp, s: p.s}, nil
}

var errAway = errors.New("the memory node is away")

type scriptedQP struct {
	verbs.QP
	s    *script
	dest verbs.GID
}

func (q *scriptedQP) Modify(a verbs.QPAttr, mask verbs.AttrMask) error {
	if mask&verbs.AttrDest != 0 {
		q.dest = a.DestGID
		if away := q.s.away.Load(); away != nil && *away == q.dest {
			return errAway
		}
	}
	return q.QP.Modify(a, mask)
}

func (q *scriptedQP) PostSend(wrs []verbs.SendWR) (int, error) {
	if f := q.s.hook.Load(); f != nil {
		return (*f)(&doorbell{q.QP, q.dest, wrs})
	}
	return q.QP.PostSend(wrs)
}

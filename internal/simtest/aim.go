package simtest

import (
	"fmt"
	"slices"
	"strings"

	"fjord/layout"
	"fjord/verbs"
)

// Aim is a fault at a moment of the protocol, where the simulator knows only of verbs:
// moments that are rare would else be met rarely.
type Aim struct {
	Host   string `json:"host"` // a coordinator's, or who joins in its place
	Moment Moment `json:"moment"`
	Nth    int    `json:"nth"`              // doorbell of that moment, from 1
	ForNS  int64  `json:"for_ns,omitempty"` // it stops for so long behind the doorbell; 0: it crashes
	Before bool   `json:"before,omitempty"` // it crashes before the doorbell, not behind it
}

// validate says what is wrong with an aim.
func (a *Aim) validate(hosts []string) error {
	switch {
	case !strings.HasPrefix(a.Host, "c") || len(hosts) > 0 && !slices.Contains(hosts, a.Host):
		return fmt.Errorf("host is %q, right is a coordinator's, c0 and so on", a.Host)
	case !slices.Contains(moments, a.Moment):
		return fmt.Errorf("moment is %q, right is one of %v", a.Moment, moments)
	case a.Nth < 1:
		return fmt.Errorf("nth is %d, right is 1 or more", a.Nth)
	case a.ForNS < 0 || a.ForNS > mostNS:
		return fmt.Errorf("for_ns is %d, right is 0 (a crash) to %d", a.ForNS, int64(mostNS))
	case a.ForNS > 0 && a.Before:
		return fmt.Errorf("before is for a crash, and for_ns is %d", a.ForNS)
	}
	return nil
}

// Moment is what a doorbell is about.
type Moment string

// The moments.
const (
	MomentLock     Moment = "lock"     // a CAS of a lock
	MomentValidate Moment = "validate" // a READ of a lock and a version
	MomentLog      Moment = "log"      // a log entry
	MomentMark     Moment = "mark"     // the state of a log entry
	MomentCell     Moment = "cell"     // a new image, or an old one that is put back
	MomentUnlock   Moment = "unlock"   // of a cell that was written
	MomentRelease  Moment = "release"  // of a lock alone
)

var moments = []Moment{MomentLock, MomentValidate, MomentLog, MomentMark, MomentCell, MomentUnlock, MomentRelease}

// Sizes by which requests are told apart.
const (
	wordSize   = 8
	unlockSize = 16
)

// momentOf tells what a request is about.
func (r *run) momentOf(wr *verbs.SendWR) Moment {
	n := 0
	for _, g := range wr.SGL {
		n += int(g.Length)
	}
	switch {
	case wr.Opcode == verbs.OpCAS:
		return MomentLock
	case wr.Opcode == verbs.OpRead && n == unlockSize:
		return MomentValidate
	case wr.Opcode != verbs.OpWrite:
	case r.inLog(wr.RemoteAddr) && n == wordSize:
		return MomentMark
	case r.inLog(wr.RemoteAddr):
		return MomentLog
	case !r.inExtents(wr.RemoteAddr):
	case n == wordSize && wr.RemoteAddr%layout.CellAlign == 0:
		return MomentRelease
	case n == unlockSize:
		return MomentUnlock
	default:
		return MomentCell
	}
	return ""
}

func (r *run) inLog(va uint64) bool {
	return r.between(va, r.layout.Header.LogOffset, r.layout.Header.ExtentOffset)
}

func (r *run) inExtents(va uint64) bool {
	return r.between(va, r.layout.Header.ExtentOffset, r.layout.Header.RegionSize)
}

// between tells whether an address lies between two offsets of some memory node's region.
func (r *run) between(va, from, to uint64) bool {
	for i := range r.layout.Nodes {
		if off := va - r.layout.Nodes[i].Base; off >= from && off < to {
			return true
		}
	}
	return false
}

// shoot returns the aim that a doorbell of a life meets; nil if there is none.
func (c *life) shoot(wrs []verbs.SendWR) (hit *Aim) {
	r := c.run
	if len(r.aims) == 0 || c.index < 0 || r.phase != phaseSafety {
		return nil
	}
	var about []Moment
	for i := range wrs {
		about = append(about, r.momentOf(&wrs[i]))
	}
	for i := range r.aims {
		if a := &r.aims[i]; a.Host == hostName(c.index) && a.Nth > 0 && slices.Contains(about, a.Moment) {
			if a.Nth--; a.Nth == 0 && hit == nil {
				hit = &r.setup.Plan.Aims[i]
			}
		}
	}
	return hit
}

// stop stops a life's host for a while.
func (c *life) stop(ns int64) {
	r := c.run
	r.world.Go(func() {
		r.world.Sleep(ns)
		c.host.Resume()
	})
	c.host.Pause()
}

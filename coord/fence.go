package coord

import (
	"fmt"
	"slices"
	"unsafe"

	"fjord/internal/words"
	"fjord/verbs"
)

// link is a memory node's end of a connection.
type link struct {
	qp    verbs.QP
	owner uint16 // coordinator at the other end
}

// admit notes a QP that was brought up for a coordinator, unless that was fenced
// meanwhile. Under mu.
func (n *MemNode) admit(id uint16, qp verbs.QP) error {
	if err := n.refusal(id); err != nil {
		return err
	}
	n.links[qp.Num()] = &link{qp: qp, owner: id}
	return nil
}

// refusal says why a coordinator is not connected. Under mu.
func (n *MemNode) refusal(id uint16) error {
	if n.closed {
		return fmt.Errorf("coord: memory node %d: %w", n.id, verbs.ErrClosed)
	}
	if n.fenced[id] {
		return fmt.Errorf("%w: memory node %d refuses coordinator %d", ErrFenced, n.id, id)
	}
	return nil
}

// destroy ends a connection. It returns when no request of it is executing. The
// link is forgotten only then: a fence must not take it for gone before.
func (n *MemNode) destroy(qpn uint32) error {
	n.mu.Lock()
	l := n.links[qpn]
	n.mu.Unlock()
	if l == nil {
		return nil // destroyed before
	}
	err := l.qp.Close()
	n.mu.Lock()
	if n.links[qpn] == l {
		delete(n.links, qpn)
	}
	n.mu.Unlock()
	return err
}

// Fence ends all connections of a coordinator and makes no new one. It returns when
// no request of it is executing, nor ever will be. A closed node executes nothing.
func (n *MemNode) Fence(id uint16) error {
	n.mu.Lock()
	n.fenced[id] = true
	var all []uint32
	for qpn, l := range n.links {
		if l.owner == id {
			all = append(all, qpn)
		}
	}
	n.mu.Unlock()
	slices.Sort(all) // nothing hangs on the order of a map
	for _, qpn := range all {
		if err := n.destroy(qpn); err != nil {
			return fmt.Errorf("coord: memory node %d: fence coordinator %d: %w", n.id, id, err)
		}
	}
	return nil
}

// beat returns the word in the heartbeat line of a place.
func (n *MemNode) beat(place int) (w uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return 0
	}
	b := n.mem.Bytes()
	words.LoadWords(unsafe.Pointer(&w), unsafe.Pointer(&b[n.beats+uint64(place)*heartbeatLine]), 1)
	return w
}

// A beat is coordinator (16 bits) | count (48): who gets a place begins above all that
// had it before.
const beatIDShift = 48

// beatOf returns a beat if it is of that coordinator, else 0: none was seen.
func beatOf(w uint64, id uint16) uint64 {
	if w>>beatIDShift != uint64(id) {
		return 0
	}
	return w
}

// beats is the count in a beat.
func beats(w uint64) uint64 { return w & (1<<beatIDShift - 1) }

package main

import (
	"fmt"
	"sync/atomic"
)

// This file is no engine. It moves the bytes that fjord's protocol has to move, on one goroutine, and
// leaves out all the rest: what a bare loop takes for this is a floor under any implementation.

// floorCell has the size and the order of words of a fjord cell with an 8-byte key and a row.
type floorCell [8]uint64

const (
	floorLock    = 0
	floorVersion = 1
	floorCents   = 6
	floorUpdates = 7
)

// floorEntry is as long as the log entry of one written record: 152 bytes.
type floorEntry [19]uint64

// floorNode is one copy: its cells, and a log slot with room for one transaction.
type floorNode struct {
	cells [tables][]floorCell
	log   [maxKeys]floorEntry
}

// floorEngine keeps the primary in nodes[0]. It is its own worker.
type floorEngine struct {
	nodes []*floorNode
	entry floorEntry
}

func openFloor(copies int) func(ledger) (engine, error) {
	return func(l ledger) (engine, error) {
		e := &floorEngine{}
		for range copies {
			n := &floorNode{}
			for t := range n.cells {
				n.cells[t] = make([]floorCell, l.accounts())
				for a := range n.cells[t] {
					n.cells[t][a][floorCents] = uint64(l[t][a].cents)
				}
			}
			e.nodes = append(e.nodes, n)
		}
		return e, nil
	}
}

func (e *floorEngine) worker() (worker, error) { return e, nil }

func (e *floorEngine) run(o *op) (committed bool, retries int, err error) {
	const token = 1
	var (
		images  [maxKeys]floorCell
		rows    [maxKeys]row
		primary = e.nodes[0]
	)
	for i := range o.n {
		c := &primary.cells[o.keys[i].table][o.keys[i].account]
		if !atomic.CompareAndSwapUint64(&c[floorLock], 0, token) {
			return false, 0, fmt.Errorf("account %d is locked, with nobody there to lock it", o.keys[i].account)
		}
		images[i] = *c
		rows[i] = row{int64(images[i][floorCents]), images[i][floorUpdates]}
	}
	committed = o.apply(&rows)
	if committed {
		for i := range o.n {
			if o.keys[i].write {
				e.write(i, &o.keys[i], &images[i], rows[i])
			}
		}
	}
	for i := range o.n {
		atomic.StoreUint64(&primary.cells[o.keys[i].table][o.keys[i].account][floorLock], 0)
	}
	return committed, 0, nil
}

func (e *floorEngine) write(i int, k *access, image *floorCell, r row) {
	image[floorVersion]++
	image[floorCents], image[floorUpdates] = uint64(r.cents), r.updates
	e.entry[0]++
	for _, n := range e.nodes {
		n.log[i] = e.entry
		n.cells[k.table][k.account] = *image
		image[floorLock] = 0 // from the second copy on: backups are not locked
	}
}

func (e *floorEngine) totals() (totals, error) {
	var sum totals
	for t := range e.nodes[0].cells {
		for a, c := range e.nodes[0].cells[t] {
			for i, n := range e.nodes[1:] {
				if n.cells[t][a] != c {
					return sum, fmt.Errorf("%v of account %d differs at copy %d", table(t), a, i+1)
				}
			}
			sum.add(row{int64(c[floorCents]), c[floorUpdates]})
		}
	}
	return sum, nil
}

func (e *floorEngine) close() error { return nil }

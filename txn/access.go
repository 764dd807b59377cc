package txn

import (
	"encoding/binary"

	"fjord/coord"
	"fjord/layout"
)

// access is what a transaction knows of one key.
type access struct {
	t      *Table
	hash   uint64
	first  uint64 // prefix of the key
	keyOff int32  // in tx.keys
	keyLen int32
	cell   int32 // its record's cell; noCell before it was found, or where there is none
	head   int32 // its bucket's header, where that matters: absence, insert, delete
	search int32 // in tx.searches: its look into the bucket; noCell if there was none
	tries  int32
	stage  stage
	mode   mode
	op     op

	known   bool // looked up: present tells
	present bool // a record was there
	walked  bool // absent, as the whole chain behind its header's lock showed
	asked   bool // the user's function knows what was there: it goes into the history as read

	put  image     // what Put and Insert write
	view coord.Buf // the copy of the value that the user has
}

// search is a look into the bucket of a key.
type search struct {
	at     layout.Addr // of the bucket that is looked at
	bucket coord.Buf
	words  coord.Buf      // the head's lock and version, READ before it
	first  layout.Version // the version in them, on which absence rests
}

const noCell int32 = -1

// stage is what an access waits for.
type stage uint8

const (
	stageDone   stage = iota
	stageAt           // the cell at a known address, locked if the mode says so
	stageBucket       // header words and head bucket
	stageChain        // an overflow bucket
	stageHead         // the head bucket behind its header's lock
	stageTail         // an overflow bucket behind that lock
)

// op is what commit does to the key.
type op uint8

const (
	opNone op = iota
	opPut
	opDelete
)

func (tx *Tx) keyOf(a *access) []byte { return tx.keys[a.keyOff : a.keyOff+a.keyLen] }

// linear is how many accesses are searched one by one; beyond, an index is kept.
const linear = 16

// find returns the access of a key, noCell if there is none.
func (tx *Tx) find(t *Table, key []byte) int32 {
	first := prefix(key)
	if i := int(tx.latest); i < len(tx.accs) && tx.accs[i].is(t, first, key) && tx.same(i, key) { // Put after Get
		return int32(i)
	}
	i := noCell
	if len(tx.accs) <= linear {
		for j := range tx.accs {
			if tx.accs[j].is(t, first, key) && tx.same(j, key) {
				i = int32(j)
				break
			}
		}
	} else {
		i = tx.findHashed(t, key)
	}
	if i >= 0 {
		tx.latest = i
	}
	return i
}

// is tells whether the access is of a key, as far as its first 8 bytes tell.
func (a *access) is(t *Table, first uint64, key []byte) bool {
	return a.first == first && a.t == t && int(a.keyLen) == len(key)
}

// same compares the rest.
func (tx *Tx) same(i int, key []byte) bool {
	return len(key) <= 8 || string(tx.keyOf(&tx.accs[i])) == string(key)
}

func (tx *Tx) findHashed(t *Table, key []byte) int32 {
	hash := layout.HashKey(t.meta.ID, key)
	mask := uint64(len(tx.index) - 1)
	for p := hash & mask; tx.index[p] != 0; p = (p + 1) & mask {
		i := tx.index[p] - 1
		if a := &tx.accs[i]; a.hash == hash && a.t == t && string(tx.keyOf(a)) == string(key) {
			return i
		}
	}
	return noCell
}

// prefix returns the first 8 bytes of a key, fewer padded with zeros: with the
// length it tells most keys apart.
func prefix(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.LittleEndian.Uint64(key)
	}
	w := uint64(0)
	for i, b := range key {
		w |= uint64(b) << (8 * i)
	}
	return w
}

// add makes an access for a key that has none.
func (tx *Tx) add(t *Table, key []byte) int32 {
	off := len(tx.keys)
	tx.keys = append(tx.keys, key...)
	n := len(tx.accs)
	if n == cap(tx.accs) {
		tx.accs = append(tx.accs, access{})
	}
	tx.accs = tx.accs[:n+1] // in place: cheaper than a copy of a new one
	a := &tx.accs[n]
	*a = access{}
	a.t, a.hash, a.first = t, layout.HashKey(t.meta.ID, key), prefix(key)
	a.keyOff, a.keyLen = int32(off), int32(len(key))
	tx.db.co.Cache.Prefetch(a.hash)
	a.cell, a.head, a.search = noCell, noCell, noCell
	i := int32(n)
	if len(tx.accs) <= linear {
		return i
	}
	if 2*len(tx.accs) > len(tx.index) {
		size := max(8*linear, 2*len(tx.index))
		if cap(tx.index) >= size {
			tx.index = tx.index[:size]
			clear(tx.index)
		} else {
			tx.index = make([]int32, size)
		}
		for j := range tx.accs {
			tx.enter(int32(j))
		}
		return i
	}
	if len(tx.accs) == linear+1 {
		for j := range tx.accs {
			tx.enter(int32(j))
		}
		return i
	}
	tx.enter(i)
	return i
}

func (tx *Tx) enter(i int32) {
	mask := uint64(len(tx.index) - 1)
	p := tx.accs[i].hash & mask
	for tx.index[p] != 0 {
		p = (p + 1) & mask
	}
	tx.index[p] = i + 1
}

// require queues what access i lacks for mode m.
func (tx *Tx) require(i int32, m mode) {
	a := &tx.accs[i]
	if a.stage != stageDone {
		a.mode = max(a.mode, m) // queued in this very Fetch
		if m == modeInsert {
			a.stage = stageHead
		}
		return
	}
	if !a.known {
		a.mode = m
		switch {
		case m == modeInsert:
			a.stage = stageHead
		case a.lookCached(tx):
			a.stage = stageAt
		default:
			a.stage = stageBucket
		}
		tx.work = append(tx.work, i)
		return
	}
	if m <= a.mode {
		return
	}
	switch {
	case a.present && !tx.cells[a.cell].locked:
		a.stage = stageAt
		tx.cells[a.cell].img = coord.Buf{} // the user may hold the old image
		tx.work = append(tx.work, i)
	case !a.present && m == modeInsert && (a.head == noCell || !tx.cells[a.head].locked):
		a.stage = stageHead
		tx.work = append(tx.work, i)
	}
	a.mode = m
}

// lookCached makes the access's cell from the address cache.
func (a *access) lookCached(tx *Tx) bool {
	addr := tx.db.co.Cache.Get(a.hash)
	if addr == 0 || uint64(addr.Shard()) >= a.t.shards {
		return false
	}
	a.cell = tx.newCell(addr, a.t.slot, layout.KindRecord)
	return true
}

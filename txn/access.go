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
	keyOff int    // in tx.keys
	keyLen int
	valLen int     // of the value in put
	cell   *cell   // its record's; nil before it was found, or where there is none
	head   *cell   // its bucket's header, where that matters: absence, insert, delete
	search *search // its look into the bucket; nil if there was none
	stage  stage
	mode   mode
	op     op
	tries  uint8 // at a torn or pending image; up to readTries

	known   bool // looked up: present tells
	present bool // a record was there
	walked  bool // absent, as the whole chain behind its header's lock showed
	stale   bool // the cached address was wrong
	asked   bool // the user's function knows what was there: it goes into the history as read

	put  coord.Buf // what Put and Insert write: an image, key and value in place, not yet sealed
	view coord.Buf // the copy of the value that the user has
}

// search is a look into the bucket of a key.
type search struct {
	at     layout.Addr // of the bucket that is looked at
	bucket coord.Buf
	words  coord.Buf      // the head's lock and version, READ before it
	first  layout.Version // the version in them, on which absence rests
}

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

// access returns the access of a key, a new one if it has none, or nil if the key
// cannot be asked for: then unusable says why. Nothing is fetched.
//
// Put follows Get, and keys are often used in the order of Fetch: the first looks
// are at the access that was found last and at the one behind it.
func (tx *Tx) access(t *Table, key []byte) *access {
	if !tx.live || tx.doomed != nil {
		return nil
	}
	first, accs := prefix(key), tx.accs
	for i := tx.latest; i < len(accs) && i <= tx.latest+1; i++ {
		if a := accs[i]; a.first == first && a.t == t && a.keyLen == len(key) {
			if len(key) > 8 && !tx.is(a, key) {
				break
			}
			tx.latest = i
			return a
		}
	}
	return tx.enlist(t, key, first)
}

// is compares the whole key.
func (tx *Tx) is(a *access, key []byte) bool { return string(tx.keyOf(a)) == string(key) }

// enlist is access with a look at all that there are. It makes one for a key that
// has none.
func (tx *Tx) enlist(t *Table, key []byte, first uint64) *access {
	if len(tx.accs) <= linear {
		for i, a := range tx.accs {
			if a.first == first && a.t == t && a.keyLen == len(key) && (len(key) <= 8 || tx.is(a, key)) {
				tx.latest = i
				return a
			}
		}
	}
	if !tx.usable(t, key) {
		return nil
	}
	hash := layout.HashKey(t.meta.ID, key)
	if len(tx.accs) > linear {
		if i, ok := tx.findHashed(t, key, hash); ok {
			tx.latest = i
			return tx.accs[i]
		}
	}
	tx.db.co.Cache.Prefetch(hash)
	off := len(tx.keys)
	if len(key) <= 8 {
		tx.keys = binary.LittleEndian.AppendUint64(tx.keys, first)
	} else {
		tx.keys = append(tx.keys, key...)
	}
	n := len(tx.accs)
	if n == cap(tx.accs) {
		tx.accs = more(tx.accs)
	}
	tx.accs = tx.accs[:n+1]
	a := tx.accs[n]
	*a = access{}
	a.t, a.hash, a.first = t, hash, first
	a.keyOff, a.keyLen = off, len(key)
	tx.latest = n
	if n >= linear {
		tx.addHashed(n)
	}
	return a
}

func (tx *Tx) findHashed(t *Table, key []byte, hash uint64) (i int, ok bool) {
	mask := uint64(len(tx.index) - 1)
	for p := hash & mask; tx.index[p] != 0; p = (p + 1) & mask {
		i := int(tx.index[p] - 1)
		if a := tx.accs[i]; a.hash == hash && a.t == t && tx.is(a, key) {
			return i, true
		}
	}
	return 0, false
}

// prefix returns the first 8 bytes of a key, fewer padded with zeros, as they
// stand in a cell: with the length it is all of a short key, and tells most others
// apart.
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

// addHashed enters the newest access into the index, which begins with it or may
// have to grow: then all are entered.
func (tx *Tx) addHashed(n int) {
	first := n
	if n == linear {
		first = 0
	}
	if size := 2 * (n + 1); size > len(tx.index) {
		size = max(8*linear, 2*len(tx.index))
		if cap(tx.index) >= size {
			tx.index = tx.index[:size]
			clear(tx.index)
		} else {
			tx.index = make([]int32, size)
		}
		first = 0
	}
	for j := first; j <= n; j++ {
		tx.enter(int32(j))
	}
}

func (tx *Tx) enter(i int32) {
	mask := uint64(len(tx.index) - 1)
	p := tx.accs[i].hash & mask
	for tx.index[p] != 0 {
		p = (p + 1) & mask
	}
	tx.index[p] = i + 1
}

// require queues what an access lacks for mode m.
func (tx *Tx) require(a *access, m mode) {
	if a.known || a.stage != stageDone {
		tx.raise(a, m)
		return
	}
	a.mode, a.stage = m, stageBucket
	if m == modeInsert {
		a.stage = stageHead
	} else if addr := tx.db.co.Cache.Get(a.hash); addr != 0 && a.t.holds(addr) {
		// What the cache takes for the key's address may, by a coincidence of hashes,
		// lie in another table.
		a.cell, a.stage = tx.newCell(addr, a.t.slot, layout.KindRecord), stageAt
	}
	tx.work = append(tx.work, a)
}

// raise is require for an access that is known, or queued in this very Fetch.
func (tx *Tx) raise(a *access, m mode) {
	switch {
	case a.stage != stageDone:
		if m == modeInsert {
			a.stage = stageHead
		}
	case m <= a.mode:
	case a.present && !a.cell.locked:
		a.stage = stageAt
		a.cell.mem = coord.Buf{} // the user may hold the old image
		tx.work = append(tx.work, a)
	case !a.present && m == modeInsert && (a.head == nil || !a.head.locked):
		a.stage = stageHead
		tx.work = append(tx.work, a)
	}
	a.mode = max(a.mode, m)
}

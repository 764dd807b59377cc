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
	first  uint64      // prefix of the key
	bucket uint64      // number of the head bucket where it belongs
	at     layout.Addr // and its address
	cell   *cell       // its record's; nil before it was found, or where there is none
	head   *cell       // its bucket's header, where that matters: absence, insert, delete
	search *search     // its look into the bucket; nil if there was none
	keyOff int32       // of a long key, in tx.keys
	keyLen int32
	valLen int32 // of the value in put
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

	short [8]byte // a short key: prefix as it stands in memory
	own   cell    // what cell points to where the address was known
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

func (tx *Tx) keyOf(a *access) []byte {
	if a.keyLen <= 8 {
		binary.LittleEndian.PutUint64(a.short[:], a.first)
		return a.short[:a.keyLen]
	}
	return tx.keys[a.keyOff : a.keyOff+a.keyLen]
}

// linear is how many accesses are searched one by one; beyond, an index is kept.
const linear = 16

// access returns the access of a key, a new one if it has none, or nil if the key
// cannot be asked for: then unusable says why. Nothing is fetched.
//
// Keys are often used in the order of Fetch, again and again: the first look is at
// the access behind the one that was found last, and behind the end comes the first.
func (tx *Tx) access(t *Table, key []byte) *access {
	first, i := prefix(key), tx.latest+1
	if i >= len(tx.accs) {
		i = 0
	}
	if i < len(tx.accs) {
		if a := tx.accs[i]; tx.same(a, t, key, first) && tx.usable() {
			tx.latest = i
			return a
		}
	}
	return tx.enlist(t, key, first)
}

// usable tells whether the transaction goes on.
func (tx *Tx) usable() bool { return tx.live && tx.doomed == nil }

// same tells whether an access is that of a key, of which first is the prefix.
func (tx *Tx) same(a *access, t *Table, key []byte, first uint64) bool {
	return a.first == first && a.t == t && int(a.keyLen) == len(key) && (len(key) <= 8 || string(tx.keyOf(a)) == string(key))
}

// enlist is access with a look at all that there are. It makes one for a key that
// has none.
func (tx *Tx) enlist(t *Table, key []byte, first uint64) *access {
	n := len(tx.accs)
	if n <= linear {
		for i, a := range tx.accs {
			if tx.same(a, t, key, first) {
				if !tx.usable() {
					return nil
				}
				tx.latest = i
				return a
			}
		}
	}
	if !tx.allowed(t, key) {
		return nil
	}
	var hash uint64
	if len(key) == 8 {
		hash = layout.HashWord(t.meta.ID, first)
	} else {
		hash = layout.HashKey(t.meta.ID, key)
	}
	if n > linear {
		if i, ok := tx.findHashed(t, key, hash); ok {
			tx.latest = i
			return tx.accs[i]
		}
	}
	if n == cap(tx.accs) {
		tx.accs = more(tx.accs)
	}
	tx.accs = tx.accs[:n+1]
	a := tx.accs[n]
	a.t, a.hash, a.first, a.keyLen = t, hash, first, int32(len(key))
	a.cell, a.head, a.search = nil, nil, nil
	a.valLen, a.stage, a.mode, a.op, a.tries = 0, stageDone, modeRead, opNone, 0
	a.known, a.present, a.walked, a.stale, a.asked = false, false, false, false, false
	a.put, a.view = coord.Buf{}, coord.Buf{}
	if len(key) > 8 {
		a.keyOff = int32(len(tx.keys))
		tx.keys = append(tx.keys, key...)
	}
	tx.latest = n
	if n >= linear {
		tx.addHashed(n)
	}
	if a.bucket, a.at = t.head(hash); t.index != nil {
		t.index.Prefetch(a.bucket)
	} else {
		t.db.co.Cache.Prefetch(hash)
	}
	return a
}

// allowed tells whether a key of a table may be asked for.
func (tx *Tx) allowed(t *Table, key []byte) bool {
	return tx.usable() && t != nil && t.db == tx.db && uint(len(key)-1) < uint(t.schema.KeySize) && !t.dropped.Load()
}

func (tx *Tx) findHashed(t *Table, key []byte, hash uint64) (i int, ok bool) {
	mask := uint64(len(tx.index) - 1)
	for p := hash & mask; tx.index[p] != 0; p = (p + 1) & mask {
		i := int(tx.index[p] - 1)
		if a := tx.accs[i]; a.hash == hash && a.t == t && string(tx.keyOf(a)) == string(key) {
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
	tx.seek(a, m)
	tx.work = append(tx.work, a)
}

// seek decides where a fresh access looks for its record. Where its place is known
// and in this processor's reach, the record is on its way to it at once: of a Fetch,
// no lock has to wait for the one before it.
func (tx *Tx) seek(a *access, m mode) {
	a.mode, a.stage = m, stageBucket
	if m == modeInsert {
		a.stage = stageHead
		return
	}
	t := a.t
	addr := t.remembered(a.hash, a.bucket, a.at)
	if addr == 0 {
		return
	}
	c := &a.own
	a.cell, a.stage = c, stageAt
	tx.add(c, addr, t.slot, layout.KindRecord)
	c.mem = tx.s.Quick(t.slot + auxSize + a.room())
	tx.s.Prefetch(c.node, c.va)
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

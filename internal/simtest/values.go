package simtest

import (
	"encoding/binary"
	"fmt"
	"slices"

	"fjord/internal/serial"
	"fjord/txn"
)

// A value is a number, a stamp that tells one Put from every other, and bytes that
// follow from the stamp: as much of it as there is room for.
const (
	numberSize  = 8
	stampedSize = 16
)

// encode makes the value of a Put.
func encode(size int, number, stamp uint64) []byte {
	b := make([]byte, size)
	for i := stampedSize; i < size; i++ {
		b[i] = filler(stamp, i)
	}
	head := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, number), stamp)
	copy(b, head)
	return b
}

func filler(stamp uint64, i int) byte {
	return byte((stamp*0x9e3779b97f4a7c15 + uint64(i)*0x2545f4914f6cdd1d) >> 56)
}

// number returns the number in a value, 0 if that has no room for one.
func number(b []byte) uint64 {
	if len(b) < numberSize {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

// stampOf returns the stamp in a value, 0 if that has no room for one.
func stampOf(b []byte) uint64 {
	if len(b) < stampedSize {
		return 0
	}
	return binary.LittleEndian.Uint64(b[numberSize:])
}

// whole tells whether a value is one that somebody has put.
func whole(b []byte) bool {
	stamp := stampOf(b)
	for i := stampedSize; i < len(b); i++ {
		if b[i] != filler(stamp, i) {
			return false
		}
	}
	return true
}

// values are the stamps that an attempt has seen and put, by key.
type values struct{ seen, put map[string]uint64 }

// check compares every stamp that was read with the one that the writer of that version
// has put: a version alone does not tell that the bytes are its own.
func (h *history) checkValues(fail func(string, ...any)) {
	type place struct {
		key     string
		version uint64
	}
	put := make(map[place]uint64)
	by := make(map[place]string)
	each := func(fn func(a *serial.Attempt, v *values)) {
		ids := make([]txn.ID, 0, len(h.values))
		for id := range h.values {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		for _, id := range ids {
			if i, ok := h.index[id]; ok && h.attempts[i].Outcome != serial.Abort {
				fn(&h.attempts[i], h.values[id])
			}
		}
	}
	each(func(a *serial.Attempt, v *values) {
		for _, w := range a.Writes {
			if stamp := v.put[w.Key]; stamp != 0 && !w.Delete {
				p := place{w.Key, w.Version}
				if a.Outcome == serial.Commit || put[p] == 0 {
					put[p], by[p] = stamp, a.ID
				}
			}
		}
	})
	each(func(a *serial.Attempt, v *values) {
		if a.Outcome != serial.Commit {
			return
		}
		for _, x := range a.Reads {
			p := place{x.Key, x.Version}
			if seen, want := v.seen[x.Key], put[p]; seen != 0 && want != 0 && seen != want {
				fail("values: %s read version %d of %q with stamp %d; %s, which wrote that version, put %d", a.ID, x.Version, x.Key, seen, by[p], want)
			}
		}
	})
}

func (r *run) stamp(key string) uint64 {
	r.stamps = append(r.stamps, key)
	return uint64(len(r.stamps))
}

// genuine complains about a value that nobody has put under its key.
func (r *run) genuine(table, key string, b []byte) {
	stamp := stampOf(b)
	switch {
	case len(b) < stampedSize:
	case stamp == 0 || stamp > uint64(len(r.stamps)):
		r.fail("values: %s %q has the stamp %d, which nobody has put", table, key, stamp)
	case r.stamps[stamp-1] != key:
		r.fail("values: %s %q has what was put under %q", table, key, r.stamps[stamp-1])
	case !whole(b):
		r.fail("values: %s %q: the value with stamp %d is not what was put: %s", table, key, stamp, fmt.Sprintf("%x", b[:min(len(b), 64)]))
	}
}

package sim

import "math/bits"

// eventKind says what happens to the actor of an event.
type eventKind uint8

const (
	evWake   eventKind = iota // a worker's deadline
	evRun                     // a worker's processor is free for it
	evArrive                  // a request reaches the responder
	evAccess                  // the responder works on memory for it
	evReply                   // the answer is seen at the requester
	evTimer                   // a QP looks whether answers are overdue
	evResume                  // a QP has waited for its peer's receives
	evFault                   // the plan strikes
)

// actor is whoever an event is about.
type actor interface {
	fire(w *World, e event)
}

// event is something that happens at a time. What a and b mean is the actor's.
type event struct {
	on   actor
	kind eventKind
	a, b uint64
}

// agenda is the queue of events in the order of time, and of sequence within one
// time. Those of the next microseconds are in a wheel that has a list for each
// nanosecond; later ones wait in a heap, and move when the wheel comes round to
// their time, before others of that time can be added.
type agenda struct {
	base  int64 // the wheel has the times from here on
	wheel [wheelSize]list
	used  [wheelSize / 64]uint64      // a bit for each list that is not empty
	words [wheelSize / 64 / 64]uint64 // a bit for each word of those
	near  int                         // events in the wheel
	far   []entry
	seq   uint64
	slab  []node
	free  uint32 // first unused node, by number from 1
}

// wheelSize is how many nanoseconds the wheel has: more than a round trip.
const wheelSize = 1 << 14

// list is first and last node of a time, by number from 1; 0: none.
type list struct{ first, last uint32 }

type node struct {
	event
	next uint32
}

// entry is an event of the heap, which has no pointers, so that sifting costs no
// write barriers.
type entry struct {
	at   int64
	seq  uint64
	node uint32
}

func (x *entry) before(y *entry) bool { return x.at < y.at || x.at == y.at && x.seq < y.seq }

func (g *agenda) empty() bool { return g.near == 0 && len(g.far) == 0 }

// push adds an event at a time that is not before the latest that was popped.
func (g *agenda) push(at int64, e event) {
	n := g.free
	if n == 0 {
		g.slab = append(g.slab, node{event: e})
		n = uint32(len(g.slab))
	} else {
		x := &g.slab[n-1]
		g.free = x.next
		x.event, x.next = e, 0
	}
	if at < g.base+wheelSize {
		g.hang(at, n)
		return
	}
	g.seq++
	g.lift(entry{at, g.seq, n})
}

// hang puts a node behind the others of its time.
func (g *agenda) hang(at int64, n uint32) {
	i := uint(at) % wheelSize
	l := &g.wheel[i]
	g.near++
	if l.first == 0 {
		l.first = n
		g.used[i/64] |= 1 << (i % 64)
		g.words[i/64/64] |= 1 << (i / 64 % 64)
	} else {
		g.slab[l.last-1].next = n
	}
	l.last = n
}

// pop takes the next event; there must be one.
func (g *agenda) pop() (int64, event) {
	if g.near == 0 {
		g.turn(g.far[0].at)
	}
	i := g.next(uint(g.base) % wheelSize)
	if at := g.base + int64((i-uint(g.base))%wheelSize); at != g.base {
		g.turn(at)
	}
	l := &g.wheel[i]
	n := l.first
	x := &g.slab[n-1]
	e := x.event
	g.near--
	if l.first = x.next; l.first == 0 {
		g.used[i/64] &^= 1 << (i % 64)
		if g.used[i/64] == 0 {
			g.words[i/64/64] &^= 1 << (i / 64 % 64)
		}
	}
	x.on, x.next = nil, g.free
	g.free = n
	return g.base, e
}

// turn moves the wheel on to a time, and into it what the heap has for the times
// that it reaches now.
func (g *agenda) turn(at int64) {
	g.base = at
	for len(g.far) > 0 && g.far[0].at < at+wheelSize {
		x := g.drop()
		g.hang(x.at, x.node)
	}
}

// next returns the first list that is not empty, from list i on and round.
func (g *agenda) next(i uint) uint {
	word := i / 64
	if rest := g.used[word] >> (i % 64); rest != 0 {
		return i + uint(bits.TrailingZeros64(rest))
	}
	w := (word + 1) % uint(len(g.used))
	for k := w / 64; ; k = (k + 1) % uint(len(g.words)) {
		rest := g.words[k]
		if k == w/64 {
			rest = rest >> (w % 64) << (w % 64)
			w = 0 // the second time round, all of it
		}
		if rest != 0 {
			word = k*64 + uint(bits.TrailingZeros64(rest))
			return word*64 + uint(bits.TrailingZeros64(g.used[word]))
		}
	}
}

// fan is the number of children of a node of the heap: four lie in two cache lines.
const fan = 4

// lift adds an entry to the heap.
func (g *agenda) lift(x entry) {
	g.far = append(g.far, x)
	i := len(g.far) - 1
	for i > 0 {
		up := (i - 1) / fan
		if !x.before(&g.far[up]) {
			break
		}
		g.far[i] = g.far[up]
		i = up
	}
	g.far[i] = x
}

// drop takes the first entry off the heap.
func (g *agenda) drop() entry {
	top := g.far[0]
	last := len(g.far) - 1
	x := g.far[last]
	h := g.far[:last]
	g.far = h
	i := 0
	for {
		first := i*fan + 1
		if first >= len(h) {
			break
		}
		least := first
		for c := first + 1; c < min(first+fan, len(h)); c++ {
			if h[c].before(&h[least]) {
				least = c
			}
		}
		if !h[least].before(&x) {
			break
		}
		h[i] = h[least]
		i = least
	}
	if last > 0 {
		h[i] = x
	}
	return top
}

package verbstest

import (
	"sync/atomic"
	"testing"
	"unsafe"

	"fjord/internal/words"
	"fjord/verbs"
)

// lender returns the QP of a as one that lends its peer's memory, after requests of
// the usual kind have shown it what works together. The specification is skipped if
// the provider lends none.
func (t *T) lender(a, b *side) verbs.Windower {
	t.Helper()
	w, ok := a.qp.(verbs.Windower)
	if !ok {
		t.Skipf("QPs do not lend their peer's memory (no verbs.Windower)")
	}
	if a.dev.Attr().Caps&verbs.CapSyncPost == 0 {
		t.Fatal("a provider with verbs.Windower says that requests have not executed when PostSend returns (no CapSyncPost)")
	}
	a.do(a.to(b, verbs.OpWrite, 0, 8, 64))
	a.do(a.to(b, verbs.OpRead, 0, 8, 64))
	return w
}

// look opens the window, looks into it and closes it.
func look(w verbs.Windower, rkey uint32) bool {
	_, ok := w.OpenWindow(rkey)
	if ok {
		w.CloseWindow()
	}
	return ok
}

func windows() []spec {
	refused := func(name string, spoil func(t *T, a, b *side)) spec {
		return spec{"none is lent " + name, func(t *T) {
			a, b := t.pair(impatient)
			w := t.lender(a, b)
			if !look(w, b.mr.RKey()) {
				t.Fatal("no window between regions that a WRITE and a READ have worked between")
			}
			spoil(t, a, b)
			if look(w, b.mr.RKey()) {
				t.Fatal("a window was opened")
			}
		}}
	}
	return []spec{
		{"a window is the peer's region", func(t *T) {
			a, b := t.pair()
			w := t.lender(a, b)
			win, ok := w.OpenWindow(b.mr.RKey())
			if !ok {
				t.Fatal("no window between regions that a WRITE and a READ have worked between")
			}
			if win.VA != b.mr.Addr() || win.Size != b.mr.Length() || win.Base != unsafe.Pointer(&b.mr.Bytes()[0]) {
				t.Fatalf("the window begins at %p, address %#x, and has %d bytes; right is %p, %#x, %d",
					win.Base, win.VA, win.Size, &b.mr.Bytes()[0], b.mr.Addr(), b.mr.Length())
			}
			word := uint64(77)
			words.Store(unsafe.Add(win.Base, 128), unsafe.Pointer(&word), 8)
			if old := words.CAS((*uint64)(unsafe.Add(win.Base, 136)), 0, 5); old != 0 {
				t.Fatalf("CAS of a fresh word found %d", old)
			}
			w.CloseWindow()
			a.do(a.to(b, verbs.OpRead, 0, 16, 128))
			if a.word(0) != 77 || a.word(8) != 5 {
				t.Fatalf("a READ behind the window sees %d and %d, right is 77 and 5", a.word(0), a.word(8))
			}
		}},
		{"requests and windows keep their order", func(t *T) {
			a, b := t.pair()
			w := t.lender(a, b)
			for i := range uint64(t.rounds(200)) {
				a.setWord(0, 2*i+1)
				a.post(a.unsignaled(b, verbs.OpWrite, 0, 8, 64))
				win, ok := w.OpenWindow(b.mr.RKey())
				if !ok {
					t.Fatal("no window")
				}
				var got uint64
				words.Load(unsafe.Pointer(&got), unsafe.Add(win.Base, 64), 8)
				if got != 2*i+1 {
					t.Fatalf("in the window behind a WRITE of %d stands %d", 2*i+1, got)
				}
				got++
				words.Store(unsafe.Add(win.Base, 64), unsafe.Pointer(&got), 8)
				w.CloseWindow()
				if a.do(a.to(b, verbs.OpRead, 8, 8, 64)); a.word(8) != 2*i+2 {
					t.Fatalf("a READ behind a window that wrote %d sees %d", 2*i+2, a.word(8))
				}
			}
		}},
		{"windows exclude each other, and posts, on one QP only", func(t *T) {
			a, b := t.pair()
			w := t.lender(a, b)
			c := t.watch(b)
			other := t.lender(c, b)
			win, ok := w.OpenWindow(b.mr.RKey())
			if !ok {
				t.Fatal("no window")
			}
			if !look(other, b.mr.RKey()) {
				t.Fatal("a second QP to the same region has no window beside the first's")
			}
			c.setWord(0, 9)
			c.do(c.to(b, verbs.OpWrite, 0, 8, 64)) // nor do its posts wait
			var got uint64
			words.Load(unsafe.Pointer(&got), unsafe.Add(win.Base, 64), 8)
			w.CloseWindow()
			if got != 9 {
				t.Fatalf("in the window stands %d, the other QP has written 9", got)
			}
		}},
		{"no key but the region's opens one", func(t *T) {
			a, b := t.pair()
			w := t.lender(a, b)
			for _, k := range []uint32{0, ^b.mr.RKey(), b.mr.RKey() + 1, a.mr.RKey()} {
				if k != b.mr.RKey() && look(w, k) {
					t.Fatalf("a window was opened with the key %#x, that of the region is %#x", k, b.mr.RKey())
				}
			}
		}},
		refused("in ERR", func(_ *T, a, _ *side) { a.toErr() }),
		refused("when the peer is in ERR", func(_ *T, _, b *side) { b.toErr() }),
		refused("when the peer is closed", func(t *T, _, b *side) {
			if err := b.qp.Close(); err != nil {
				t.Fatal(err)
			}
		}),
		refused("when the peer has begun another connection", func(t *T, _, b *side) {
			c, _ := t.pair(idle)
			b.modify(verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState)
			t.bringUp(c, b)
		}),
		refused("of a region that was closed", func(t *T, _, b *side) {
			if err := b.mr.Close(); err != nil {
				t.Fatal(err)
			}
		}),
		refused("when the peer has taken a right back", func(_ *T, _, b *side) {
			b.modify(verbs.QPAttr{Access: verbs.AccessRemoteRead}, verbs.AttrAccess)
		}),
		{"none is lent without every right", func(t *T) {
			for _, access := range []verbs.Access{verbs.AccessLocalWrite | verbs.AccessRemoteRead, verbs.AccessLocalWrite | verbs.AccessRemoteRead | verbs.AccessRemoteWrite} {
				a, b := t.pair(func(c *conf) { c.mr = access })
				w, ok := a.qp.(verbs.Windower)
				if !ok {
					t.Skipf("QPs do not lend their peer's memory (no verbs.Windower)")
				}
				a.do(a.to(b, verbs.OpRead, 0, 8, 64))
				a.do(a.to(b, verbs.OpRead, 0, 8, 64))
				if look(w, b.mr.RKey()) {
					t.Fatalf("a window was opened to a region with the rights %#x", access)
				}
			}
		}},
		{"who promises that nothing executes waits for the window", func(t *T) {
			for _, leave := range []struct {
				name string
				do   func(b *side) error
			}{
				{"a move of the peer to ERR", func(b *side) error { return b.qp.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState) }},
				{"QP.Close of the peer", func(b *side) error { return b.qp.Close() }},
				{"MR.Close", func(b *side) error { return b.mr.Close() }},
			} {
				a, b := t.pair(impatient)
				w := t.lender(a, b)
				if _, ok := w.OpenWindow(b.mr.RKey()); !ok {
					t.Fatal("no window")
				}
				var left atomic.Bool
				g := t.newGroup()
				g.start(func() {
					if err := leave.do(b); err != nil {
						t.Fatal(err)
					}
					left.Store(true)
				})
				if !t.rt.Virtual() { // there it could not wait in any other way than by ending the world's time
					t.quiet()
				}
				early := left.Load()
				w.CloseWindow()
				g.wait()
				if early {
					t.Fatalf("%s returned while a window was open", leave.name)
				}
				if look(w, b.mr.RKey()) {
					t.Fatalf("a window was opened after %s", leave.name)
				}
			}
		}},
		{"a window costs no allocation", func(t *T) {
			a, b := t.pair()
			w := t.lender(a, b)
			if n := testing.AllocsPerRun(200, func() { look(w, b.mr.RKey()) }); n != 0 {
				t.Errorf("OpenWindow and CloseWindow allocate %v times", n)
			}
		}},
	}
}

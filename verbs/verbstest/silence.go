package verbstest

import "fjord/verbs"

func silence() []spec {
	// silent is a specification of a peer that gives no answer.
	silent := func(name string, quiet func(t *T, a, b *side)) spec {
		return spec{name + " is a peer that does not answer", func(t *T) {
			for _, op := range t.everyOp() {
				if op == verbs.OpWriteImm || op == verbs.OpSendImm || op == verbs.OpFAA {
					continue // as their sisters
				}
				a, b := t.pair(impatient, idle)
				quiet(t, a, b)
				if a.qp.State() == verbs.StateReset {
					if err := verbs.BringUp(a.qp, a.endpoint(), b.endpoint(), a.conn); err != nil {
						t.Fatal(err)
					}
				}
				a.poke(0, fill(1, 64))
				first, second := a.to(b, op, 0, 8, 64), a.to(b, verbs.OpWrite, 0, 8, 64)
				second.Flags = 0
				a.post(first, second)
				a.ends(first, verbs.StatusRetryExcErr)
				a.ends(second, verbs.StatusWRFlushErr)
				a.is(verbs.StateErr)
				b.holds("the silent peer", 64, make([]byte, 64))
			}
		}}
	}
	return []spec{
		silent("a QP in RESET", func(*T, *side, *side) {}),
		silent("a QP in INIT", func(t *T, a, b *side) { t.advance(b, a, verbs.StateInit) }),
		silent("a QP in ERR", func(t *T, a, b *side) { t.bringUp(a, b); b.toErr() }),
		silent("a closed QP", func(t *T, a, b *side) {
			t.bringUp(a, b)
			if err := b.qp.Close(); err != nil {
				t.Fatal(err)
			}
		}),
		silent("a QP closed after it had answered", func(t *T, a, b *side) {
			t.bringUp(a, b)
			a.do(a.to(b, verbs.OpWrite, 0, 8, 0))
			if err := b.qp.Close(); err != nil {
				t.Fatal(err)
			}
		}),
		silent("a QP that expects other PSNs", func(t *T, a, b *side) {
			psn := a.psn
			a.psn = (psn + 1<<24 - 1000) & (1<<24 - 1)
			t.advance(b, a, verbs.StateRTS)
			a.psn = psn
		}),
		silent("a QP connected to another QP", func(t *T, a, b *side) {
			c, _ := t.pair(impatient, idle)
			c.psn = a.psn
			t.advance(b, c, verbs.StateRTS)
		}),
		silent("a QP connected to another device", func(t *T, a, b *side) {
			attr := b.rtr(a)
			attr.DestGID = b.dev.Attr().GID
			t.advance(b, a, verbs.StateInit)
			b.modify(attr, maskRTR)
		}),
		silent("a QP that was reset and brought up again meanwhile", func(t *T, a, b *side) {
			t.bringUp(a, b)
			for range 3 {
				a.do(a.to(b, verbs.OpWrite, 0, 8, 0))
			}
			b.modify(verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState)
			t.advance(b, a, verbs.StateRTS)
		}),
		{"a number that no QP has is a peer that does not answer", func(t *T) {
			a, b := t.pair(impatient, idle)
			e := b.endpoint()
			e.QPN ^= 0x5a5a5a
			if err := verbs.BringUp(a.qp, a.endpoint(), e, a.conn); err != nil {
				t.Fatal(err)
			}
			a.fails(a.to(b, verbs.OpWrite, 0, 8, 0), verbs.StatusRetryExcErr)
		}},
		{"a closed device is a peer that does not answer", func(t *T) {
			a, b := t.pair(impatient)
			a.do(a.to(b, verbs.OpWrite, 0, 8, 0))
			if err := b.dev.Close(); err != nil {
				t.Fatal(err)
			}
			a.fails(a.to(b, verbs.OpWrite, 0, 8, 0), verbs.StatusRetryExcErr)
		}},
		{"a peer in ERR does not come back by itself, a new connection does", func(t *T) {
			a, b := t.pair(impatient)
			b.toErr()
			a.fails(a.to(b, verbs.OpWrite, 0, 8, 0), verbs.StatusRetryExcErr)
			t.reconnect(a, b)
			a.do(a.to(b, verbs.OpWrite, 0, 8, 0))
		}},
	}
}

package verbstest

import (
	"bytes"
	"math/rand/v2"

	"fjord/verbs"
)

// lengths around words, lines, pages and packets.
var lengths = []int{1, 2, 3, 4, 5, 7, 8, 9, 11, 15, 16, 17, 63, 64, 65, 127, 128, 255, 256, 257, 1024, 4095, 4096, 4097}

func shapes() []spec {
	return []spec{
		{"WRITE and READ of every alignment and length touch these bytes and no others", func(t *T) {
			a, b := t.pair()
			rng := t.rng()
			const src, dst, margin = 1024, 2048, 16
			for _, n := range lengths {
				for roff := range 16 {
					loff := rng.IntN(16)
					if n <= 65 && !raceEnabled {
						for loff = range 15 {
							t.shape(a, b, src+loff, dst+roff, n, margin, rng)
						}
						loff = 15
					}
					t.shape(a, b, src+loff, dst+roff, n, margin, rng)
				}
			}
		}},
		{"WRITE and READ beyond a page and a packet", func(t *T) {
			a, b := t.pair(sized(1 << 20))
			rng := t.rng()
			most := 200_000
			if raceEnabled {
				most = 20_000
			}
			for range t.rounds(60) {
				t.shape(a, b, rng.IntN(5000), 16+rng.IntN(5000), 1+rng.IntN(most), 16, rng)
			}
		}},
		{"every path MTU carries messages of every length around it", func(t *T) {
			rng := t.rng()
			for mtu := 256; mtu <= int(min(t.a.Attr().ActiveMTU, t.b.Attr().ActiveMTU)); mtu *= 2 {
				a, b := t.pair(func(c *conf) { c.conn.MTU = uint32(mtu) })
				for _, n := range []int{1, mtu - 1, mtu, mtu + 1, 2*mtu - 1, 2 * mtu, 2*mtu + 1, 5*mtu + 3} {
					t.shape(a, b, 32, 67, n, 16, rng)
					want := randomBytes(rng, n)
					a.poke(0, want)
					b.receive(1000, n)
					a.do(a.to(b, verbs.OpSend, 0, n, 0))
					if wc := b.arrived(); wc.ByteLen != uint32(n) {
						t.Fatalf("MTU %d, %d bytes sent: %v", mtu, n, show(wc))
					}
					b.holds("received", 1000, want)
				}
			}
		}},
		{"PSNs wrap around", func(t *T) {
			a, b := t.pair(idle)
			a.psn, b.psn = 0xffffff-20, 0xffffff-3
			t.bringUp(a, b)
			for i := range 40 {
				n := 100 + i*199
				a.poke(0, fill(byte(i), n))
				a.do(a.to(b, verbs.OpWrite, 0, n, 0))
				a.do(a.to(b, verbs.OpRead, 16384, n, 0))
				a.holds("read back", 16384, fill(byte(i), n))
				b.receive(32768, n)
				a.do(a.to(b, verbs.OpSend, 0, n, 0))
				b.arrived()
				b.holds("received", 32768, fill(byte(i), n))
				b.do(b.to(a, verbs.OpWrite, 0, n, 32768))
				a.holds("sent back", 32768, fill(byte(i), n))
			}
		}},
		{"pieces are gathered and scattered in order, whatever their lengths", func(t *T) {
			a, b := t.pair(func(c *conf) { c.size = 1 << 18 })
			rng := t.rng()
			for range t.rounds(300) {
				n := lengths[rng.IntN(len(lengths))] + rng.IntN(50)
				want := randomBytes(rng, n)
				list, roff := a.pieces(rng, n, a.sendSGE()), rng.IntN(64)
				a.scatter(list, want)
				wr := a.to(b, verbs.OpWrite, 0, 0, 70_000+roff)
				wr.SGL = list
				b.poke(70_000+roff-8, bytes.Repeat([]byte{0x55}, n+16))
				a.do(wr)
				b.holds("gathered", 70_000+roff-8, bytes.Join([][]byte{bytes.Repeat([]byte{0x55}, 8), want, bytes.Repeat([]byte{0x55}, 8)}, nil))

				want = randomBytes(rng, n)
				b.poke(70_000+roff, want)
				list = a.pieces(rng, n, a.sendSGE())
				a.wipe(list)
				wr = a.to(b, verbs.OpRead, 0, 0, 70_000+roff)
				wr.SGL = list
				if wc := a.do(wr); wc.ByteLen != uint32(n) {
					t.Fatalf("ByteLen is %d, right is %d", wc.ByteLen, n)
				}
				if got := a.gather(list); !bytes.Equal(got, want) {
					t.Fatalf("READ of %d bytes into %v: %s", n, list, difference(got, want))
				}
				a.untouched(list)
			}
		}},
		{"a SEND's pieces and its receive's pieces need not match", func(t *T) {
			a, b := t.pair(func(c *conf) { c.size = 1 << 18 })
			rng := t.rng()
			for range t.rounds(300) {
				n := lengths[rng.IntN(len(lengths))]
				want, list := randomBytes(rng, n), a.pieces(rng, n, a.sendSGE())
				a.scatter(list, want)
				into := b.pieces(rng, n+rng.IntN(2)*rng.IntN(100), b.sendSGE())
				b.wipe(into)
				b.receiveWR(verbs.RecvWR{ID: 3, SGL: into})
				wr := a.to(b, verbs.OpSend, 0, 0, 0)
				wr.SGL = list
				a.do(wr)
				if wc := b.arrived(); wc.ByteLen != uint32(n) || wc.Status != verbs.StatusSuccess {
					t.Fatalf("%d bytes sent: %v", n, show(wc))
				}
				if got := b.gather(into)[:n]; !bytes.Equal(got, want) {
					t.Fatalf("SEND of %v into %v: %s", list, into, difference(got, want))
				}
				b.untouched(into)
			}
		}},
		{"as many pieces as the QP was made for, and not one more", func(t *T) {
			limit := min(t.a.Attr().MaxSGE, t.b.Attr().MaxSGE)
			a, b := t.pair(func(c *conf) { c.init.MaxSendSGE, c.init.MaxRecvSGE = limit, limit })
			list, want := make([]verbs.SGE, 0, limit+1), []byte{}
			for i := range limit + 1 {
				list = append(list, a.sge(i*64, 3+i))
				a.poke(i*64, fill(byte(i), 3+i))
				if i < limit {
					want = append(want, fill(byte(i), 3+i)...)
				}
			}
			wr := a.to(b, verbs.OpWrite, 0, 0, 5)
			wr.SGL = list[:limit]
			a.do(wr)
			b.holds("gathered", 5, want)
			wr.SGL = list
			n, err := a.qp.PostSend([]verbs.SendWR{wr})
			t.refusal("PostSend with a piece too many", err, verbs.ErrInvalid, sprintf("%d", limit+1), sprintf("%d", limit))
			n2, err := b.qp.PostRecv([]verbs.RecvWR{{SGL: b.sgl(0, 8)}, {SGL: list}})
			t.refusal("PostRecv with a piece too many", err, verbs.ErrInvalid, sprintf("%d", limit+1), sprintf("%d", limit))
			if n != 0 || n2 != 1 {
				t.Fatalf("accepted %d sends and %d receives, right is 0 and 1", n, n2)
			}
		}},
		{"a QP made for no pieces takes none", func(t *T) {
			a, b := t.pair(func(c *conf) { c.init.MaxSendSGE, c.init.MaxRecvSGE = 0, 0 })
			_, err := a.qp.PostSend([]verbs.SendWR{a.to(b, verbs.OpWrite, 0, 8, 0)})
			t.refusal("PostSend", err, verbs.ErrInvalid)
			_, err = b.qp.PostRecv([]verbs.RecvWR{{SGL: b.sgl(0, 8)}})
			t.refusal("PostRecv", err, verbs.ErrInvalid)
			b.receiveWR(verbs.RecvWR{})
			wr := a.to(b, verbs.OpSend, 0, 0, 0)
			wr.SGL = nil
			a.do(wr)
			b.arrived()
		}},
		{"requests of no bytes succeed and touch nothing, whatever key and address they name", func(t *T) {
			a, b := t.pair()
			b.poke(0, fill(1, 256))
			for _, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpRead} {
				for _, sgl := range [][]verbs.SGE{nil, a.sgl(0, 0), {a.sge(8, 0), a.sge(0, 0)}} {
					wr := a.to(b, op, 0, 0, 0)
					wr.SGL = sgl
					a.do(wr)
					wr.RKey, wr.RemoteAddr = ^wr.RKey, 1
					a.do(wr)
				}
			}
			b.holds("the target", 0, fill(1, 256))
		}},
		{"large messages arrive whole", func(t *T) {
			n := int(min(t.a.Attr().MaxMsgSize, t.b.Attr().MaxMsgSize, 16<<20))
			if raceEnabled || t.env.Effort > 0 && t.env.Effort < 100 {
				n = min(n, 256<<10)
			}
			a, b := t.pair(sized(uint64(n)))
			rng := t.rng()
			want := randomBytes(rng, n)
			a.poke(0, want)
			a.do(a.to(b, verbs.OpWrite, 0, n, 0))
			b.holds("written", 0, want)
			a.poke(0, make([]byte, n))
			if wc := a.do(a.to(b, verbs.OpRead, 0, n, 0)); wc.ByteLen != uint32(n) {
				t.Fatalf("ByteLen is %d, right is %d", wc.ByteLen, n)
			}
			a.holds("read", 0, want)
			b.poke(0, make([]byte, n))
			b.receive(0, n)
			a.do(a.to(b, verbs.OpSend, 0, n, 0))
			if wc := b.arrived(); wc.ByteLen != uint32(n) {
				t.Fatalf("ByteLen is %d, right is %d", wc.ByteLen, n)
			}
			b.holds("received", 0, want)
		}},
		{"a message above MaxMsgSize is a local length error", func(t *T) {
			most := uint64(t.a.Attr().MaxMsgSize)
			pieces := uint64(min(t.a.Attr().MaxSGE, 32))
			each := most/pieces + 1 // the pieces may overlap: nothing is to be transferred
			if each > 64<<20 {
				t.Skipf("MaxMsgSize of %d in %d pieces needs a region of %d bytes", most, pieces, each)
			}
			a, b := t.pair(sized(each), func(c *conf) { c.init.MaxSendSGE = int(pieces) })
			for _, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpRead, verbs.OpSend} {
				wr := a.to(b, op, 0, 0, 0)
				wr.SGL = nil
				for range pieces {
					wr.SGL = append(wr.SGL, a.sge(0, int(each)))
				}
				b.receive(0, int(each))
				a.fails(wr, verbs.StatusLocLenErr)
				t.reconnect(a, b)
			}
			if one := most + 8; !raceEnabled && one <= 1<<32-1 && one <= min(t.a.Attr().MaxMRSize, t.b.Attr().MaxMRSize) && one <= 2<<30 {
				// One piece, of memory that is mapped but, as nobody touches it, not there.
				c, d := t.pair(sized(one))
				for _, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpRead} {
					c.fails(c.to(d, op, 0, int(one), 0), verbs.StatusLocLenErr)
					t.reconnect(c, d)
				}
			}
		}},
	}
}

// shape checks one WRITE and one READ of n bytes with the bytes around them.
func (t *T) shape(a, b *side, src, dst, n, margin int, rng *rand.Rand) {
	t.Helper()
	want := randomBytes(rng, n)
	ground := bytes.Repeat([]byte{0x5a}, n+2*margin)
	a.poke(src, want)
	b.poke(dst-margin, ground)
	a.do(a.to(b, verbs.OpWrite, src, n, dst))
	got := b.peek(dst-margin, n+2*margin)
	around := bytes.Join([][]byte{ground[:margin], want, ground[:margin]}, nil)
	if !bytes.Equal(got, around) {
		t.Fatalf("WRITE of %d bytes, source %d, target %d (mod 16): %s", n, src%16, dst%16, difference(got, around))
	}
	if src < margin {
		return
	}
	want = randomBytes(rng, n)
	b.poke(dst, want)
	a.poke(src-margin, ground)
	a.do(a.to(b, verbs.OpRead, src, n, dst))
	got = a.peek(src-margin, n+2*margin)
	around = bytes.Join([][]byte{ground[:margin], want, ground[:margin]}, nil)
	if !bytes.Equal(got, around) {
		t.Fatalf("READ of %d bytes, destination %d, source %d (mod 16): %s", n, src%16, dst%16, difference(got, around))
	}
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// sendSGE is how many pieces the sides of a plain pair allow.
func (s *side) sendSGE() int { return min(s.t.a.Attr().MaxSGE, s.t.b.Attr().MaxSGE, 8) }

// pieces cuts n bytes into at most most pieces of the side's region, some of
// them empty, at odd addresses, not overlapping and not in order.
func (s *side) pieces(rng *rand.Rand, n, most int) []verbs.SGE {
	count := 1 + rng.IntN(most)
	list := make([]verbs.SGE, count)
	slots := rng.Perm(count)
	slot := (1 << 17) / count &^ 63
	for i := range list {
		part := n
		if i < count-1 {
			part = rng.IntN(n + 1)
			if rng.IntN(8) == 0 {
				part = 0
			}
		}
		n -= part
		list[i] = s.sge(slots[i]*slot+8+rng.IntN(16), part)
	}
	return list
}

func (s *side) scatter(list []verbs.SGE, b []byte) {
	for _, p := range list {
		if p.Length > 0 {
			s.poke(int(p.Addr-s.mr.Addr()), b[:p.Length])
			b = b[p.Length:]
		}
	}
}

func (s *side) gather(list []verbs.SGE) []byte {
	var b []byte
	for _, p := range list {
		b = append(b, s.peek(int(p.Addr-s.mr.Addr()), int(p.Length))...)
	}
	return b
}

// wipe makes the pieces and the bytes on both sides of each 0xaa.
func (s *side) wipe(list []verbs.SGE) {
	for _, p := range list {
		s.poke(int(p.Addr-s.mr.Addr())-8, bytes.Repeat([]byte{0xaa}, int(p.Length)+16))
	}
}

// untouched checks that the bytes on both sides of each piece are still 0xaa.
func (s *side) untouched(list []verbs.SGE) {
	s.t.Helper()
	for _, p := range list {
		off := int(p.Addr - s.mr.Addr())
		s.holds("before a piece", off-8, bytes.Repeat([]byte{0xaa}, 8))
		s.holds("behind a piece", off+int(p.Length), bytes.Repeat([]byte{0xaa}, 8))
	}
}

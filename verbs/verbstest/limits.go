package verbstest

import (
	"fmt"

	"fjord/verbs"
)

func limits() []spec {
	return []spec{
		{"the device's description makes sense", func(t *T) {
			for _, d := range []verbs.Device{t.a, t.b} {
				a := d.Attr()
				if a.Provider == "" || a.Name == "" || a.GID == (verbs.GID{}) || a.Ports == 0 {
					t.Errorf("no identity: %+v", a)
				}
				for name, v := range map[string]int{"MaxQP": a.MaxQP, "MaxQPWR": a.MaxQPWR, "MaxSGE": a.MaxSGE, "MaxCQ": a.MaxCQ, "MaxCQE": a.MaxCQE,
					"MaxMR": a.MaxMR, "MaxPD": a.MaxPD, "MaxMsgSize": int(a.MaxMsgSize), "MaxQPRdAtomic": int(a.MaxQPRdAtomic)} {
					if v <= 0 {
						t.Errorf("%s is %d", name, v)
					}
				}
				if a.MaxMRSize == 0 || (a.Caps&verbs.CapInline != 0) != (a.MaxInline > 0) {
					t.Errorf("MaxMRSize is %d, MaxInline %d, Caps %#x", a.MaxMRSize, a.MaxInline, a.Caps)
				}
				switch a.ActiveMTU {
				case 256, 512, 1024, 2048, 4096:
				default:
					t.Errorf("ActiveMTU is %d", a.ActiveMTU)
				}
				if d.Runtime() == nil {
					t.Error("no Runtime")
				}
			}
			if t.a.Attr().GID == t.b.Attr().GID {
				t.Error("two devices with one GID")
			}
		}},
		{"CreateCQ names a wrong depth and the right range", func(t *T) {
			most := t.a.Attr().MaxCQE
			for _, depth := range []int{0, -1, most + 1} {
				_, err := t.a.CreateCQ(depth)
				t.refusal(fmt.Sprintf("CreateCQ(%d)", depth), err, verbs.ErrInvalid, fmt.Sprint(depth), fmt.Sprint(most))
			}
		}},
		{"CreateQP names a wrong argument and the right range", func(t *T) {
			d := t.a.Attr()
			pd, cq := t.newPD(t.a), t.newCQ(t.a, 16)
			good := verbs.QPInit{SendCQ: cq, RecvCQ: cq, MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}
			for _, c := range []struct {
				name  string
				wrong func(i *verbs.QPInit)
				value int
				most  int
			}{
				{"MaxSendWR", func(i *verbs.QPInit) { i.MaxSendWR = 0 }, 0, d.MaxQPWR},
				{"MaxSendWR", func(i *verbs.QPInit) { i.MaxSendWR = -5 }, -5, d.MaxQPWR},
				{"MaxSendWR", func(i *verbs.QPInit) { i.MaxSendWR = d.MaxQPWR + 1 }, d.MaxQPWR + 1, d.MaxQPWR},
				{"MaxRecvWR", func(i *verbs.QPInit) { i.MaxRecvWR = -1 }, -1, d.MaxQPWR},
				{"MaxRecvWR", func(i *verbs.QPInit) { i.MaxRecvWR = d.MaxQPWR + 1 }, d.MaxQPWR + 1, d.MaxQPWR},
				{"MaxSendSGE", func(i *verbs.QPInit) { i.MaxSendSGE = -1 }, -1, d.MaxSGE},
				{"MaxSendSGE", func(i *verbs.QPInit) { i.MaxSendSGE = d.MaxSGE + 1 }, d.MaxSGE + 1, d.MaxSGE},
				{"MaxRecvSGE", func(i *verbs.QPInit) { i.MaxRecvSGE = -1 }, -1, d.MaxSGE},
				{"MaxRecvSGE", func(i *verbs.QPInit) { i.MaxRecvSGE = d.MaxSGE + 1 }, d.MaxSGE + 1, d.MaxSGE},
				{"MaxInline", func(i *verbs.QPInit) { i.MaxInline = d.MaxInline + 1 }, int(d.MaxInline) + 1, int(d.MaxInline)},
			} {
				init := good
				c.wrong(&init)
				_, err := pd.CreateQP(init)
				t.refusal(fmt.Sprintf("CreateQP with %s %d", c.name, c.value), err, verbs.ErrInvalid, c.name, fmt.Sprint(c.value), fmt.Sprint(c.most))
			}
			foreign := t.newCQ(t.b, 16)
			closed := t.newCQ(t.a, 16)
			if err := closed.Close(); err != nil {
				t.Fatal(err)
			}
			for _, bad := range []verbs.CQ{nil, foreign, closed} {
				for i := range 2 {
					init := good
					if i == 0 {
						init.SendCQ = bad
					} else {
						init.RecvCQ = bad
					}
					if _, err := pd.CreateQP(init); err == nil {
						t.Errorf("CreateQP accepts the CQ %v", bad)
					}
				}
			}
			for _, c := range []func() error{pd.Close, cq.Close, foreign.Close} { // the failed ones left nothing behind
				if err := c(); err != nil {
					t.Error(err)
				}
			}
		}},
		{"the largest QP and the largest lists can be made", func(t *T) {
			d := t.a.Attr()
			if d.MaxQPWR > 1<<16 {
				t.Skipf("MaxQPWR is %d", d.MaxQPWR)
			}
			a, b := t.pair(func(c *conf) {
				c.init.MaxSendWR, c.init.MaxRecvWR = min(d.MaxQPWR, t.b.Attr().MaxQPWR), 16
			})
			a.do(a.to(b, verbs.OpWrite, 0, 8, 0))
		}},
		{"RegisterMR refuses memory and rights that make no sense", func(t *T) {
			pd := t.newPD(t.a)
			mem := t.mapped(4096)
			freed, err := verbs.MapMemory(4096, verbs.HugeNever)
			if err != nil {
				t.Fatal(err)
			}
			if err := freed.Free(); err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct {
				what   string
				mem    *verbs.Memory
				access verbs.Access
			}{
				{"no memory", nil, verbs.AccessAll}, {"freed memory", freed, verbs.AccessAll},
				{"unknown rights", mem, verbs.AccessAll + 1}, {"unknown rights", mem, 0x80},
				{"remote write without local write", mem, verbs.AccessRemoteWrite},
				{"remote atomics without local write", mem, verbs.AccessRemoteAtomic | verbs.AccessRemoteRead},
			} {
				_, err := pd.RegisterMR(c.mem, c.access)
				t.refusal("RegisterMR: "+c.what, err, verbs.ErrInvalid)
			}
			if err := pd.Close(); err != nil {
				t.Error(err)
			}
		}},
		{"a region says where it is, how long, and what its bytes are", func(t *T) {
			pd := t.newPD(t.a)
			mem := t.mapped(12345)
			mr, err := pd.RegisterMR(mem, verbs.AccessAll)
			if err != nil {
				t.Fatal(err)
			}
			if mr.Length() != 12345 || len(mr.Bytes()) != 12345 || &mr.Bytes()[0] != &mem.Bytes()[0] || mr.Addr() == 0 || mr.Addr()%8 != 0 {
				t.Fatalf("Addr %#x, Length %d, %d Bytes", mr.Addr(), mr.Length(), len(mr.Bytes()))
			}
		}},
		{"a limit that is reached is an error, and closing makes room", func(t *T) {
			d := t.a.Attr()
			feasible := 5000
			if raceEnabled || t.env.Effort > 0 && t.env.Effort < 100 {
				feasible = 1500
			}
			if d.MaxPD <= feasible {
				var pds []verbs.PD
				for range d.MaxPD {
					pds = append(pds, t.newPD(t.a))
				}
				_, err := t.a.AllocPD()
				t.refusal("one PD too many", err, verbs.ErrLimit, fmt.Sprint(d.MaxPD))
				for _, pd := range pds {
					if err := pd.Close(); err != nil {
						t.Fatal(err)
					}
				}
				if err := t.newPD(t.a).Close(); err != nil {
					t.Fatal(err)
				}
			}
			if d.MaxMR <= feasible {
				pd, mem := t.newPD(t.a), t.mapped(4096)
				var mrs []verbs.MR
				for range d.MaxMR {
					mr, err := pd.RegisterMR(mem, 0)
					if err != nil {
						t.Fatal(err)
					}
					mrs = append(mrs, mr)
				}
				_, err := pd.RegisterMR(mem, 0)
				t.refusal("one MR too many", err, verbs.ErrLimit, fmt.Sprint(d.MaxMR))
				for _, mr := range mrs {
					if err := mr.Close(); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := pd.RegisterMR(mem, 0); err != nil {
					t.Fatal(err)
				}
			}
			if d.MaxPD > feasible && d.MaxMR > feasible {
				t.Skipf("too many objects to make: MaxPD %d, MaxMR %d", d.MaxPD, d.MaxMR)
			}
		}},
		{"keys and QP numbers are distinct and cannot be guessed from their predecessors", func(t *T) {
			const n = 64
			pd, cq := t.newPD(t.a), t.newCQ(t.a, 16)
			var rkeys, lkeys, qpns []uint32
			for range n {
				mr := t.register(pd, 4096, verbs.AccessAll)
				rkeys, lkeys = append(rkeys, mr.RKey()), append(lkeys, mr.LKey())
				qp, err := pd.CreateQP(verbs.QPInit{SendCQ: cq, RecvCQ: cq, MaxSendWR: 1, MaxSendSGE: 1})
				if err != nil {
					t.Fatal(err)
				}
				qpns = append(qpns, qp.Num())
			}
			for name, l := range map[string][]uint32{"rkey": rkeys, "lkey": lkeys, "QPN": qpns} {
				seen, steps := map[uint32]bool{}, map[uint32]int{}
				for i, v := range l {
					if v == 0 || seen[v] {
						t.Errorf("%s %#x is 0 or was given twice", name, v)
					}
					seen[v] = true
					if i > 0 {
						if steps[v-l[i-1]]++; steps[v-l[i-1]] > 3 {
							t.Errorf("%ss follow each other in steps of %#x", name, v-l[i-1])
						}
					}
				}
			}
			for _, v := range qpns {
				if v>>24 != 0 {
					t.Errorf("QPN %#x has more than 24 bits", v)
				}
			}
		}},
	}
}

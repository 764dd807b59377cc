package sim_test

import (
	"testing"

	"fjord/verbs"
	"fjord/verbs/sim"
)

// BenchmarkVerbs is the speed of the simulation itself: sixteen workers on four
// hosts run the doorbells of transactions against three memory nodes. One
// operation is one verb.
func BenchmarkVerbs(b *testing.B) {
	w := must[*sim.World](b)(sim.New(sim.Options{Seed: 1}))
	defer w.Close()
	var nodes, peers []*sim.Host
	for _, name := range []string{"m0", "m1", "m2"} {
		nodes = append(nodes, host(b, w, name))
	}
	for _, name := range []string{"c0", "c1", "c2", "c3"} {
		peers = append(peers, host(b, w, name))
	}
	const each = 10 // verbs of one round
	left := b.N
	var wrs [][]verbs.SendWR
	var ends []*end
	for i := range 16 {
		a, m := side(b, peers[i%4], 1<<16), side(b, nodes[i%3], 1<<16)
		join(b, a, m)
		cas, read, write := a.wr(m, verbs.OpCAS, 0, 8, 64*i), a.wr(m, verbs.OpRead, 64, 128, 256*i), a.wr(m, verbs.OpWrite, 64, 128, 256*i)
		cas.Flags, write.Flags = 0, 0
		read.Flags = 0
		last := write
		last.Flags = verbs.FlagSignaled
		lastRead := read
		lastRead.Flags = verbs.FlagSignaled
		wrs = append(wrs, []verbs.SendWR{cas, read, cas, read, read, lastRead}, []verbs.SendWR{write, write, write, last})
		ends = append(ends, a)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i, e := range ends {
		e.dev.Host().Go(func() {
			for left > 0 {
				left -= each
				e.do(b, 1, wrs[2*i]...)
				e.do(b, 1, wrs[2*i+1]...)
			}
		})
	}
	start := w.Now()
	if err := w.Run(func() {
		for left > 0 {
			w.Sleep(100_000)
		}
	}); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "verbs/s")
	b.ReportMetric(float64(w.Stats().Events)/float64(b.N), "events/verb")
	b.ReportMetric(float64(w.Now()-start)/float64(b.N), "virtual-ns/verb")
}

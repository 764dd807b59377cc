package serial

import (
	"bytes"
	"testing"
)

var loads = []struct {
	name string
	load load
}{
	{"hot8", load{attempts: 200_000, sessions: 64, accounts: 8, abort: 200}},
	{"wide200k", load{attempts: 200_000, sessions: 64, accounts: 200_000, abort: 20}},
	{"orders", load{attempts: 200_000, sessions: 64, accounts: 1000, orders: 2000, span: 200, abort: 50, unknown: 2}},
	{"million", load{attempts: 1_000_000, sessions: 64, accounts: 100_000, abort: 20}},
}

func BenchmarkCheck(b *testing.B) {
	for _, l := range loads {
		b.Run(l.name, func(b *testing.B) {
			h := generate(l.load, 1)
			b.ReportAllocs()
			for b.Loop() {
				if res := Check(h, Options{}); !res.OK || res.Undecided {
					b.Fatal(res.String())
				}
			}
		})
	}
}

func BenchmarkReadJSONL(b *testing.B) {
	for _, l := range loads {
		b.Run(l.name, func(b *testing.B) {
			var buf bytes.Buffer
			if err := writeJSONL(&buf, generate(l.load, 1)); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(buf.Len()))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ReadJSONL(bytes.NewReader(buf.Bytes())); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

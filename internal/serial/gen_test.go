package serial

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

// load describes a workload for generate.
type load struct {
	attempts, sessions int
	accounts           int // keys loaded before the history, read and replaced
	orders             int // keys inserted, deleted and scanned
	span               int // keys that a scan looks at, at most
	abort, unknown     int // out of 1000
}

// generate runs sessions against a reference store that executes each transaction at one moment between
// its begin and its end, under what amounts to a global lock. What it records is strictly
// serializable by construction. An attempt of unknown outcome may take effect long after its end.
func generate(l load, seed uint64) *History {
	rng := rand.New(rand.NewPCG(seed, 0))
	type cell struct{ state, top uint64 }
	accounts := make([]cell, l.accounts)
	orders := make([]cell, l.orders)
	for i := range accounts {
		accounts[i] = cell{7, 7}
	}
	keys := make([]string, max(l.accounts, l.orders)+1)
	for i := range keys {
		keys[i] = string(binary.BigEndian.AppendUint64(nil, uint64(i)))
	}
	type session struct {
		at   Attempt
		step int // 0 idle, 1 begun, 2 executed
	}
	sessions := make([]session, l.sessions)
	h := &History{Header: map[string]any{"format": Format}}
	now := int64(0)
	execute := func(a *Attempt, effect bool) {
		kind := rng.IntN(8)
		if l.orders == 0 {
			kind %= 4
		}
		var top uint64
		put := func(table string, cells []cell, i int, del bool) {
			top = max(top, cells[i].top)
			a.Writes = append(a.Writes, Write{table, keys[i], cells[i].state, 0, del})
		}
		switch kind {
		case 0, 1: // payment: two accounts
			a.Type = "Payment"
			i, j := rng.IntN(l.accounts), rng.IntN(l.accounts)
			a.Reads = append(a.Reads, Read{"accounts", keys[i], accounts[i].state}, Read{"accounts", keys[j], accounts[j].state})
			put("accounts", accounts, i, false)
			if i != j {
				put("accounts", accounts, j, false)
			}
		case 2: // a write that depends on another key
			a.Type = "Copy"
			i, j := rng.IntN(l.accounts), rng.IntN(l.accounts)
			a.Reads = append(a.Reads, Read{"accounts", keys[i], accounts[i].state})
			put("accounts", accounts, j, false)
		case 3:
			a.Type = "Balance"
			for range 1 + rng.IntN(3) {
				i := rng.IntN(l.accounts)
				a.Reads = append(a.Reads, Read{"accounts", keys[i], accounts[i].state})
			}
		case 4, 5: // insert or delete
			a.Type = "Order"
			i := rng.IntN(l.orders)
			a.Reads = append(a.Reads, Read{"orders", keys[i], orders[i].state})
			put("orders", orders, i, orders[i].state != 0)
		case 6:
			a.Type = "Look"
			for range 3 {
				i := rng.IntN(l.orders)
				a.Reads = append(a.Reads, Read{"orders", keys[i], orders[i].state})
			}
		case 7:
			a.Type = "List"
			from := rng.IntN(l.orders)
			to := min(l.orders, from+1+rng.IntN(l.span))
			s := Scan{Table: "orders", From: keys[from], To: keys[to]}
			for i := from; i < to; i++ {
				if orders[i].state != 0 {
					s.Keys = append(s.Keys, KeyVersion{keys[i], orders[i].state})
				}
			}
			a.Scans = append(a.Scans, s)
		}
		for i := range a.Writes {
			w := &a.Writes[i]
			w.Version = top + 1
			if effect {
				cells := accounts
				if w.Table == "orders" {
					cells = orders
				}
				c := &cells[binary.BigEndian.Uint64([]byte(w.Key))]
				c.state, c.top = w.state(), w.Version
			}
		}
	}
	type late struct {
		index int
		at    int64
	}
	var later []late
	for begun, busy := 0, 0; begun < l.attempts || busy > 0; {
		now += 1 + rng.Int64N(3)
		later = slices.DeleteFunc(later, func(x late) bool {
			if x.at <= now {
				execute(&h.Attempts[x.index], true)
			}
			return x.at <= now
		})
		n := rng.IntN(len(sessions))
		s := &sessions[n]
		switch s.step {
		case 0:
			if begun < l.attempts {
				begun++
				busy++
				s.at = Attempt{ID: strconv.Itoa(begun), Session: strconv.Itoa(n), Begin: now, Outcome: Commit}
				s.step = 1
			}
		case 1:
			switch r := rng.IntN(1000); {
			case r < l.abort:
				s.at.Outcome, s.at.Reason = Abort, "locked"
				execute(&s.at, false)
			case r < l.abort+l.unknown:
				s.at.Outcome = Unknown
				if rng.IntN(2) == 0 {
					execute(&s.at, rng.IntN(2) == 0)
				}
			default:
				execute(&s.at, true)
			}
			s.step = 2
		case 2:
			s.at.End, s.step = now, 0
			busy--
			if s.at.Outcome == Unknown && s.at.Type == "" {
				later = append(later, late{len(h.Attempts), now + rng.Int64N(200)})
			}
			h.Attempts = append(h.Attempts, s.at)
		}
	}
	slices.SortStableFunc(h.Attempts, func(x, y Attempt) int { return cmp.Compare(x.End, y.End) })
	return h
}

// writeJSONL is the recorder's side of the format.
func writeJSONL(w io.Writer, h *History) error {
	type kv struct {
		T    string `json:"t,omitempty"`
		K    string `json:"k"`
		Prev uint64 `json:"prev,omitempty"`
		V    uint64 `json:"v"`
		Del  bool   `json:"del,omitempty"`
	}
	type scan struct {
		T    string `json:"t"`
		From string `json:"from"`
		To   string `json:"to"`
		Keys []kv   `json:"keys"`
	}
	type line struct {
		ID      json.Number `json:"id"`
		Session json.Number `json:"session"`
		Type    string      `json:"type"`
		Begin   int64       `json:"begin_ns"`
		End     int64       `json:"end_ns"`
		Outcome string      `json:"outcome"`
		Reason  string      `json:"reason"`
		Reads   []kv        `json:"reads"`
		Writes  []kv        `json:"writes"`
		Scans   []scan      `json:"scans"`
	}
	if _, err := fmt.Fprintf(w, "{\"format\":%q,\"benchmark\":\"test\"}\n", Format); err != nil {
		return err
	}
	enc := json.NewEncoder(w)
	x := func(k string) string { return hex.EncodeToString([]byte(k)) }
	for i := range h.Attempts {
		a := &h.Attempts[i]
		l := line{ID: json.Number(a.ID), Session: json.Number(a.Session), Type: a.Type, Begin: a.Begin, End: a.End,
			Outcome: a.Outcome.String(), Reason: a.Reason}
		for _, r := range a.Reads {
			l.Reads = append(l.Reads, kv{T: r.Table, K: x(r.Key), V: r.Version})
		}
		for _, w := range a.Writes {
			l.Writes = append(l.Writes, kv{w.Table, x(w.Key), w.Prev, w.Version, w.Delete})
		}
		for _, s := range a.Scans {
			out := scan{T: s.Table, From: x(s.From), To: x(s.To)}
			for _, k := range s.Keys {
				out.Keys = append(out.Keys, kv{K: x(k.Key), V: k.Version})
			}
			l.Scans = append(l.Scans, out)
		}
		if err := enc.Encode(l); err != nil {
			return err
		}
	}
	return nil
}

// Histories that are right by construction pass, whatever their shape.
func TestReferenceStorePasses(t *testing.T) {
	for _, l := range []load{
		{attempts: 3000, sessions: 8, accounts: 4},
		{attempts: 3000, sessions: 8, accounts: 200, abort: 300},
		{attempts: 3000, sessions: 8, accounts: 20, orders: 5, span: 5, abort: 200, unknown: 50},
		{attempts: 3000, sessions: 32, accounts: 20, orders: 8, span: 8, unknown: 20},
		{attempts: 3000, sessions: 64, accounts: 1000, orders: 300, span: 50, abort: 100, unknown: 10},
		{attempts: 2000, sessions: 400, accounts: 10, orders: 3, span: 3},
		{attempts: 500, sessions: 500, accounts: 10, orders: 3, span: 3, unknown: 100},
	} {
		for seed := range uint64(5) {
			res := Check(generate(l, seed), Options{})
			if !res.OK || res.Undecided {
				t.Errorf("%+v seed %d: %v", l, seed, res.String())
				for i := range res.Violations {
					t.Log(res.Violations[i].Explain())
				}
				break
			} else if seed == 0 {
				t.Logf("%+v: %v; %d choices", l, res.String(), res.Choices)
			}
		}
	}
}

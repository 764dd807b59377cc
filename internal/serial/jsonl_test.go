package serial

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// lineAttempt is an attempt as it stands in the file, for the plain twin of the parser.
type lineAttempt struct {
	ID      scalar `json:"id"`
	Session scalar `json:"session"`
	Type    string `json:"type"`
	Begin   *int64 `json:"begin_ns"`
	End     *int64 `json:"end_ns"`
	Outcome string `json:"outcome"`
	Reason  string `json:"reason"`
	Reads   []struct {
		T string  `json:"t"`
		K *string `json:"k"`
		V uint64  `json:"v"`
	} `json:"reads"`
	Writes []struct {
		T    string  `json:"t"`
		K    *string `json:"k"`
		Prev uint64  `json:"prev"`
		V    uint64  `json:"v"`
		Del  bool    `json:"del"`
	} `json:"writes"`
	Scans []struct {
		T    string `json:"t"`
		From string `json:"from"`
		To   string `json:"to"`
		Keys []struct {
			K *string `json:"k"`
			V uint64  `json:"v"`
		} `json:"keys"`
	} `json:"scans"`
}

// scalar is a JSON number or string, kept as text.
type scalar string

// UnmarshalJSON implements json.Unmarshaler.
func (s *scalar) UnmarshalJSON(b []byte) error {
	switch c := b[0]; {
	case c == '"':
		var v string
		if err := json.Unmarshal(b, &v); err != nil {
			return err
		}
		*s = scalar(v)
		return nil
	case c == '-' || c >= '0' && c <= '9':
		*s = scalar(b)
		return nil
	}
	return fmt.Errorf("%s is neither a number nor a string", b)
}

// plainRead is ReadJSONL by reflection: slow, and plainly right.
func plainRead(text string) (*History, error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	h := &History{}
	if err := json.Unmarshal([]byte(lines[0]), &h.Header); err != nil || h.Header["format"] != Format {
		return nil, errors.New("header")
	}
	ids := map[string]bool{}
	for _, line := range lines[1:] {
		var in lineAttempt
		if err := json.Unmarshal([]byte(line), &in); err != nil {
			return nil, err
		}
		a := Attempt{ID: string(in.ID), Session: string(in.Session), Type: in.Type, Reason: in.Reason, Begin: *in.Begin, End: *in.End}
		switch in.Outcome {
		case "commit":
			a.Outcome = Commit
		case "abort":
			a.Outcome = Abort
		case "unknown":
			a.Outcome = Unknown
		}
		if a.ID == "" || ids[a.ID] || a.Outcome == 0 || a.Begin > a.End {
			return nil, errors.New("attempt")
		}
		ids[a.ID] = true
		var err error
		key := func(k string) string {
			raw, e := hex.DecodeString(k)
			err = errors.Join(err, e)
			return string(raw)
		}
		for _, r := range in.Reads {
			a.Reads = append(a.Reads, Read{r.T, key(*r.K), r.V})
		}
		for _, w := range in.Writes {
			a.Writes = append(a.Writes, Write{w.T, key(*w.K), w.Prev, w.V, w.Del})
		}
		for _, s := range in.Scans {
			out := Scan{Table: s.T, From: key(s.From), To: key(s.To)}
			for _, k := range s.Keys {
				out.Keys = append(out.Keys, KeyVersion{key(*k.K), k.V})
			}
			a.Scans = append(a.Scans, out)
		}
		if err != nil {
			return nil, err
		}
		h.Attempts = append(h.Attempts, a)
	}
	return h, nil
}

const header = `{"format":"fjord-history/1","benchmark":"smallbank","seed":1}` + "\n"

// The history of a run reads back as it was recorded, and as encoding/json reads it.
func TestReadJSONLRoundTrip(t *testing.T) {
	h := generate(load{attempts: 2000, sessions: 16, accounts: 50, orders: 30, span: 10, abort: 100, unknown: 20}, 3)
	var b strings.Builder
	if err := writeJSONL(&b, h); err != nil {
		t.Fatal(err)
	}
	got, err := ReadJSONL(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Attempts, h.Attempts) {
		t.Error("not what was written")
	}
	plain, err := plainRead(b.String())
	if err != nil || !reflect.DeepEqual(got, plain) {
		t.Errorf("not what encoding/json reads (%v)", err)
	}
}

// What the format leaves free is read either way.
func TestReadJSONLAccepts(t *testing.T) {
	for _, line := range []string{
		`{"id":1,"session":2,"type":"Balance","begin_ns":-5,"end_ns":5,"outcome":"commit","reads":[{"t":"a","k":"00fF","v":3,"hv":9}],"writes":[],"scans":null}`,
		`{"id":"x-1","session":"p/2","begin_ns":0,"end_ns":0,"outcome":"abort","reason":"locked \u00e9 \"q\"","extra":{"a":[1,{"b":"]}"}],"c":null},"reads":null}`,
		` { "outcome" : "unknown" , "id" : 18446744073709551615 , "begin_ns" : 1 , "end_ns" : 9223372036854775807 , "writes" : [ { "t" : "ä" , "k" : "" , "prev" : 0 , "v" : 18446744073709551615 , "del" : true } , {"k":"01","t":null,"v":1,"del":false} ] } `,
		`{"id":-1.5e3,"begin_ns":1,"end_ns":2,"outcome":"commit","scans":[{"t":"s","from":"00","to":"ff","keys":[{"k":"01","v":2},{"v":0,"k":"02","x":-1}]},{}],"last":true}`,
	} {
		got, err := ReadJSONL(strings.NewReader(header + "\n" + line + "\n"))
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		want, err := plainRead(header + line)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v, but encoding/json reads\n%+v (%v)", line, got, want, err)
		}
	}
}

// What is wrong is refused with the number of its line.
func TestReadJSONLRefuses(t *testing.T) {
	ok := `{"id":1,"session":1,"begin_ns":1,"end_ns":2,"outcome":"commit"}` + "\n"
	for _, c := range []struct{ text, want string }{
		{"", "line 1: no header"},
		{"[]\n", "line 1: the header is not a JSON object"},
		{`{"format":"fjord-history/2"}`, "line 1: format is fjord-history/2"},
		{`{"x":1}`, "line 1: format is <nil>"},
		{header + ok + ok, "line 3: id 1 stands on line 2 already"},
		{header + ok + "\n" + `{"id":2`, "line 4: the line ends where a comma or the end of an object should be"},
		{header + "nonsense", "line 2: byte 1: 'n' where an object should be"},
		{header + `{"id":2,"begin_ns":5,"end_ns":4,"outcome":"commit"}`, "line 2: begin_ns 5 is after end_ns 4"},
		{header + `{"id":2,"begin_ns":5,"outcome":"commit"}`, "line 2: begin_ns or end_ns is missing"},
		{header + `{"begin_ns":5,"end_ns":6,"outcome":"commit"}`, "line 2: no id"},
		{header + `{"id":2,"begin_ns":5,"end_ns":6}`, "line 2: no outcome"},
		{header + `{"id":2,"begin_ns":5,"end_ns":6,"outcome":"maybe"}`, `outcome: "maybe" is none of`},
		{header + `{"id":2,"begin_ns":5,"end_ns":6,"outcome":"commit"} x`, "where the end should be"},
		{header + `{"id":2,"begin_ns":5,"end_ns":6,"outcome":"commit","reads":[{"t":"a","k":"0g","v":1}]}`, `reads: "0g" is not hex`},
		{header + `{"id":2,"begin_ns":5,"end_ns":6,"outcome":"commit","reads":[{"t":"a","v":1}]}`, "reads: an entry has no key"},
		{header + `{"id":2,"begin_ns":5,"end_ns":6,"outcome":"commit","reads":[{"k":"","v":-1}]}`, "-1 is not an unsigned integer"},
		{header + `{"id":2,"begin_ns":5,"end_ns":6,"outcome":"commit","reads":[{"k":"","v":1.5}]}`, "1.5 is not an unsigned integer"},
		{header + `{"id":2,"begin_ns":5,"end_ns":6,"outcome":"commit","reads":[{"k":"","v":01}]}`, "01 is not a JSON number"},
		{header + `{"id":2,"begin_ns":5,"end_ns":6,"outcome":"commit","reads":{}}`, "where an array should be"},
		{header + `{"id":2,"begin_ns":5e1,"end_ns":6,"outcome":"commit"}`, "begin_ns: 5e1 is not"},
		{header + `{"id":2,"begin_ns":9223372036854775808,"end_ns":6,"outcome":"commit"}`, "integer of 64 bits"},
		{header + `{"id":[],"begin_ns":5,"end_ns":6,"outcome":"commit"}`, "a number or a string"},
		{header + `{"id":2,"begin_ns":5,"end_ns":6,"outcome":"commit","x":tru}`, "where a value should be"},
		{header + `{"id":2,"begin_ns":5,"end_ns":6,"outcome":"commit","type":"a`, "the end of a string"},
		{header + `{"id":2,"begin_ns":5,"end_ns":6,"outcome":"commit","writes":[{"k":"","del":1}]}`, "true or false"},
	} {
		_, err := ReadJSONL(strings.NewReader(c.text))
		var line *LineError
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.As(err, &line) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}

// No text makes the reader or the checker panic, what is read is JSON, and the verdict does not change
// when the history is checked again.
func FuzzReadJSONL(f *testing.F) {
	for seed := range uint64(4) {
		var b strings.Builder
		if err := writeJSONL(&b, generate(load{attempts: 6, sessions: 3, accounts: 2, orders: 2, span: 2, abort: 100, unknown: 300}, seed)); err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(b.String()))
	}
	f.Add([]byte(header + `{"id":"\u0041","session":null,"begin_ns":-1,"end_ns":0,"outcome":"unknown","x":[1,{}],"writes":[{"t":"a","k":"00","v":1},{"t":"a","k":"00","prev":1,"v":2,"del":true}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := ReadJSONL(bytes.NewReader(text))
		if err != nil {
			return
		}
		for line := range bytes.Lines(text) {
			if line = bytes.TrimSpace(line); len(line) > 0 && !json.Valid(line) {
				t.Errorf("read %q, which is not JSON", line)
			}
		}
		first, second := Check(h, Options{Steps: 100_000}), Check(h, Options{Steps: 100_000})
		if !reflect.DeepEqual(first, second) {
			t.Errorf("two verdicts: %v and %v", first, second)
		}
		for i := range first.Violations {
			if first.Violations[i].Explain() == "" {
				t.Error("a violation without words")
			}
		}
	})
}

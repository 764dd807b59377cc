package serial

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"
)

// at makes a committed attempt, each in a session of its own.
func at(id string, begin, end int64, parts ...any) Attempt {
	a := Attempt{ID: id, Session: "s" + id, Type: "Txn", Begin: begin, End: end, Outcome: Commit}
	for _, p := range parts {
		switch p := p.(type) {
		case Outcome:
			a.Outcome = p
		case Read:
			a.Reads = append(a.Reads, p)
		case Write:
			a.Writes = append(a.Writes, p)
		case Scan:
			a.Scans = append(a.Scans, p)
		}
	}
	return a
}

func rd(key string, v uint64) Read        { return Read{"acc", key, v} }
func wr(key string, prev, v uint64) Write { return Write{"acc", key, prev, v, false} }
func rm(key string, prev, v uint64) Write { return Write{"acc", key, prev, v, true} }
func scan(from, to string, ks ...string) Scan { // keys at version 1
	s := Scan{Table: "acc", From: from, To: to}
	for _, k := range ks {
		s.Keys = append(s.Keys, KeyVersion{k, 1})
	}
	return s
}

// anomalies are the classic ones, and those that fjord's own faults would make. Key "a" is 61 in hex.
var anomalies = []struct {
	name  string
	txns  []Attempt
	kind  Kind
	words []string
}{
	{"write skew", []Attempt{
		at("1", 0, 10, rd("a", 1), rd("b", 1), wr("a", 1, 2)),
		at("2", 0, 10, rd("a", 1), rd("b", 1), wr("b", 1, 2)),
	}, WriteSkew, []string{
		"write skew (G2): a cycle of 2 transactions", "T1 is 1 (Txn, session s1, 0s to 10ns, outcome commit)",
		"T1 read acc/62 at version 1, which T2 replaced by version 2 (rw)",
		"T2 read acc/61 at version 1, which T1 replaced by version 2 (rw)",
	}},
	{"write skew of three", []Attempt{
		at("1", 0, 10, rd("a", 1), wr("b", 1, 2)),
		at("2", 0, 10, rd("b", 1), wr("c", 1, 2)),
		at("3", 0, 10, rd("c", 1), wr("a", 1, 2)),
	}, WriteSkew, []string{"a cycle of 3 transactions"}},
	{"phantom", []Attempt{
		at("1", 0, 10, scan("a", "f"), wr("b", 0, 1)),
		at("2", 0, 10, scan("a", "f"), wr("c", 0, 1)),
	}, WriteSkew, []string{
		"write skew (G2): phantom", "T1 found acc/63 absent in its scan of acc [61, 66), after which T2 inserted acc/63 as version 1 (rw)",
	}},
	{"phantom behind a deletion", []Attempt{
		at("1", 0, 10, scan("a", "f", "b"), rm("b", 1, 2)),
		at("2", 0, 10, scan("a", "f", "b"), wr("c", 0, 1)),
	}, WriteSkew, []string{"T1 found acc/63 absent in its scan", "T2 read acc/62 at version 1, which T1 deleted (version 2) (rw)"}},
	{"lost update", []Attempt{
		at("1", 0, 10, rd("a", 1), wr("a", 1, 2)),
		at("2", 0, 10, rd("a", 1), wr("a", 2, 3)),
	}, ReadSkew, []string{"lost update", "T2 is 1", "T1 read acc/61 at version 1, which T2 replaced by version 2 (rw)", "T2 replaced version 1 of acc/61 by 2, after which T1 replaced version 2 of acc/61 by 3 (ww)"}},
	{"lost acknowledged commit", []Attempt{
		at("1", 0, 10, wr("a", 1, 2)),
		at("2", 20, 30, wr("a", 1, 3)),
	}, LostUpdate, []string{"T1 replaced version 1 of acc/61 by 2", "T2 replaced version 1 of acc/61 by 3", "T1 ended 10ns before T2 began (real time): an acknowledged commit was lost"}},
	{"double insert", []Attempt{
		at("1", 0, 10, rd("a", 0), wr("a", 0, 1)),
		at("2", 0, 10, rd("a", 0), wr("a", 0, 2)),
	}, LostUpdate, []string{"T1 inserted acc/61 as version 1", "T2 inserted acc/61 as version 2"}},
	{"insert over what is there", []Attempt{
		at("1", 0, 10, wr("a", 7, 8)),
		at("2", 0, 10, wr("a", 0, 9)),
	}, BrokenChain, []string{"T2 inserted acc/61 as version 9, though that is not what was there"}},
	{"same version twice", []Attempt{
		at("1", 0, 10, wr("a", 1, 2)),
		at("2", 0, 10, wr("a", 1, 2)),
	}, DuplicateVersion, []string{"T1 and T2 both committed version 2 of acc/61"}},
	{"version falls", []Attempt{
		at("1", 0, 10, wr("a", 5, 4)),
	}, VersionOrder, []string{"T1 wrote acc/61 as version 4 over version 5"}},
	{"dirty read", []Attempt{
		at("1", 0, 10, Abort, wr("a", 1, 2)),
		at("2", 0, 10, rd("a", 2)),
	}, AbortedRead, []string{"aborted read (G1a)", "T1 read acc/61 at version 2, which only T2 wrote, and T2 aborted", "T2 is 1 (Txn, session s1, 0s to 10ns, outcome abort)"}},
	{"dirty read by one that aborts", []Attempt{
		at("1", 0, 10, Abort, wr("a", 1, 2)),
		at("2", 0, 10, Abort, rd("a", 2)),
	}, AbortedRead, nil},
	{"dirty overwrite", []Attempt{
		at("1", 0, 10, Abort, wr("a", 1, 2)),
		at("2", 0, 10, wr("a", 2, 3)),
	}, AbortedRead, []string{"T1 replaced version 2 of acc/61, which only T2 wrote"}},
	{"intermediate read", []Attempt{
		at("1", 0, 10, wr("a", 1, 2), wr("a", 2, 3)),
		at("2", 0, 10, rd("a", 2)),
	}, IntermediateRead, []string{"T1 read acc/61 at version 2, which T2 wrote and replaced again itself"}},
	{"version from nowhere", []Attempt{
		at("1", 0, 10, wr("a", 1, 2)),
		at("2", 0, 10, rd("a", 9)),
	}, PhantomVersion, []string{"T1 read acc/61 at version 9, but no recorded attempt wrote that, and the version from before the history was 1"}},
	{"two initial versions", []Attempt{
		at("1", 0, 10, rd("a", 1)),
		at("2", 0, 10, rd("a", 2)),
	}, PhantomVersion, []string{"version from before the history was 1"}},
	{"read of a deletion", []Attempt{
		at("1", 0, 10, rm("a", 1, 2)),
		at("2", 0, 10, rd("a", 2)),
	}, PhantomVersion, []string{"with that version T2 deleted the key"}},
	{"stale read", []Attempt{
		at("1", 20, 30, rd("a", 5)),
		at("2", 0, 10, wr("a", 5, 6)),
	}, RealTime, []string{
		"real-time violation: stale read, a cycle of 2 transactions",
		"T1 read acc/61 at version 5, which T2 replaced by version 6 (rw)", "T2 ended 10ns before T1 began (real time)",
	}},
	{"stale read by way of a third", []Attempt{
		at("1", 20, 30, rd("a", 5)),
		at("2", 0, 40, wr("a", 5, 6)),
		at("3", 5, 15, rd("a", 6)),
	}, RealTime, []string{"stale read, a cycle of 3", "T3 read acc/61 at version 6, which T2 wrote (wr)", "T3 ended 5ns before T1 began (real time)"}},
	{"stale absence", []Attempt{
		at("1", 20, 30, rd("a", 0)),
		at("2", 0, 10, wr("a", 0, 6)),
	}, RealTime, []string{"stale read", "T1 found acc/61 absent, after which T2 inserted acc/61 as version 6 (rw)"}},
	{"stale scan", []Attempt{
		at("1", 20, 30, scan("a", "")),
		at("2", 0, 10, wr("a", 0, 6)),
	}, RealTime, []string{"T1 found acc/61 absent in its scan of acc [61, end), after which T2 inserted acc/61 as version 6 (rw)"}},
	{"scan that ends at the tick of an insert", []Attempt{
		at("1", 0, 10, scan("a", ""), Read{"other", "x", 2}),
		at("2", 10, 20, wr("a", 0, 6), Write{"other", "x", 1, 2, false}),
	}, ReadSkew, []string{"T1 found acc/61 absent in its scan of acc [61, end)"}},
	{"scan that begins at the tick of a deletion", []Attempt{
		at("1", 10, 20, scan("a", "b"), Read{"other", "x", 1}),
		at("2", 0, 10, rm("a", 5, 6), Write{"other", "x", 1, 2, false}),
	}, ReadSkew, []string{"T2 deleted acc/61 (version 6, replacing 5), after which T1 found it absent in its scan of acc [61, 62) (wr)"}},
	{"absence between two that were too early and too late", []Attempt{
		at("1", 0, 10, wr("a", 0, 1)),
		at("2", 20, 30, rd("a", 0)),
		at("3", 40, 50, rm("a", 1, 2)),
	}, RealTime, []string{"T1 found acc/61 absent (of its 2 absences, the others fit no better)"}},
	{"read from the future", []Attempt{
		at("1", 0, 10, rd("a", 6)),
		at("2", 20, 30, wr("a", 5, 6)),
	}, RealTime, []string{"read from the future", "T2 read acc/61 at version 6, which T1 wrote (wr)", "T2 ended 10ns before T1 began (real time)"}},
	{"writes against the clock", []Attempt{
		at("1", 0, 10, wr("a", 2, 3)),
		at("2", 20, 30, wr("a", 1, 2)),
	}, RealTime, []string{"writes against the clock"}},
	{"read skew", []Attempt{
		at("1", 0, 10, rd("a", 1), rd("b", 2)),
		at("2", 0, 10, wr("a", 1, 2), wr("b", 1, 2)),
	}, ReadSkew, []string{
		"read skew (G-single): a cycle of 2 transactions",
		"T1 read acc/61 at version 1, which T2 replaced by version 2 (rw)", "T1 read acc/62 at version 2, which T2 wrote (wr)",
	}},
	{"fractured scan", []Attempt{
		at("1", 0, 10, scan("a", "c", "b")),
		at("2", 0, 10, wr("a", 0, 1), wr("b", 0, 1)),
	}, ReadSkew, []string{"T1 found acc/61 absent in its scan"}},
	{"write cycle", []Attempt{
		at("1", 0, 10, wr("a", 1, 2), wr("b", 2, 3)),
		at("2", 0, 10, wr("a", 2, 3), wr("b", 1, 2)),
	}, WriteCycle, []string{"write cycle (G0)", "(ww)"}},
	{"circular flow", []Attempt{
		at("1", 0, 10, wr("a", 1, 2), rd("b", 2)),
		at("2", 0, 10, wr("b", 1, 2), rd("a", 2)),
	}, CircularFlow, []string{"circular information flow (G1c)", "(wr)"}},
	{"half-visible unknown", []Attempt{
		at("1", 0, 10, Unknown, wr("a", 1, 2), wr("b", 1, 2)),
		at("2", 20, 30, rd("a", 2)),
		at("3", 20, 30, wr("b", 1, 3)),
	}, HalfVisible, []string{
		"half-visible unknown", "outcome unknown, taken as committed because T3 read its version 2 of acc/61",
		"T1 replaced version 1 of acc/62 by 2", "T2 replaced version 1 of acc/62 by 3",
	}},
	{"half-visible unknown, to one reader", []Attempt{
		at("1", 0, 10, Unknown, wr("a", 1, 2), wr("b", 1, 2)),
		at("2", 20, 30, rd("a", 2), rd("b", 1)),
	}, ReadSkew, []string{"T2 is 1 (Txn, session s1, 0s to 10ns, outcome unknown, taken as committed because T1 read its version 2 of acc/61)"}},
	{"half-visible unknown, to one reader after the other", []Attempt{
		at("1", 0, 10, Unknown, wr("a", 1, 2), wr("b", 1, 2)),
		at("2", 20, 30, rd("a", 2)),
		at("3", 40, 50, rd("b", 1)),
	}, RealTime, []string{"stale read, a cycle of 3"}},
	{"unknown deletion, half done", []Attempt{
		at("1", 0, 10, Unknown, rm("a", 1, 2), wr("b", 1, 2)),
		at("2", 20, 30, rd("a", 1)),
		at("3", 40, 50, rd("a", 0)),
		at("4", 60, 70, rd("b", 1)),
	}, RealTime, []string{"taken as committed because T3 found acc/61 absent, and nobody else can have deleted it"}},
	{"absent though loaded", []Attempt{
		at("1", 0, 10, rd("a", 1)),
		at("2", 0, 10, rd("a", 0)),
	}, ImpossibleAbsence, []string{"T1 found acc/61 absent, which it was never: it had version 1 before the history"}},
	{"absent and yet replaced", []Attempt{
		at("1", 0, 10, rd("a", 0), wr("a", 1, 2)),
	}, ImpossibleAbsence, []string{"T1 found acc/61 absent, and yet it replaced version 1 of acc/61 by 2"}},
	{"overlap in a session", []Attempt{
		{ID: "1", Session: "s", Begin: 0, End: 10, Outcome: Commit},
		{ID: "2", Session: "s", Begin: 9, End: 20, Outcome: Abort},
	}, Recording, []string{"T2 began 1ns before T1 of the same session ended"}},
	{"ends before it begins", []Attempt{at("1", 10, 0)}, Recording, []string{"T1 began at 10 ns, after it ended at 0 ns"}},
	{"no outcome", []Attempt{{ID: "1"}}, Recording, []string{"T1 has no outcome"}},
	{"scan lists what is outside", []Attempt{at("1", 0, 10, scan("b", "c", "c"))}, Recording, []string{"T1 scanned acc [62, 63) and lists key 63"}},
	{"own writes do not chain", []Attempt{at("1", 0, 10, wr("a", 1, 2), wr("a", 1, 3))}, Recording, []string{"its own writes do not chain"}},
}

// Every anomaly is found for what it is, and told in words.
func TestAnomalies(t *testing.T) {
	for _, c := range anomalies {
		t.Run(c.name, func(t *testing.T) {
			h := &History{Attempts: slices.Clone(c.txns)}
			res := Check(h, Options{})
			wantWords(t, res, c.kind, c.words...)
			if bruteForce(h) {
				t.Error("the history is right after all")
			}
			if testing.Verbose() {
				t.Log("\n" + res.Violations[0].Explain())
			}
		})
	}
}

// Every anomaly is found in the midst of a long history that is right but for it.
func TestAnomaliesInACrowd(t *testing.T) {
	crowd := generate(load{attempts: 2000, sessions: 16, accounts: 20, orders: 10, span: 5, abort: 100, unknown: 5}, 9)
	for i, c := range anomalies {
		h := &History{Attempts: slices.Clone(crowd.Attempts)}
		from := crowd.Attempts[len(crowd.Attempts)*(i+1)/(len(anomalies)+1)].Begin
		for _, a := range c.txns {
			a.ID, a.Session = "planted "+a.ID, "planted "+a.Session
			a.Begin += from
			a.End += from
			h.Attempts = append(h.Attempts, a)
		}
		rand.New(rand.NewPCG(1, 1)).Shuffle(len(h.Attempts), func(i, j int) { h.Attempts[i], h.Attempts[j] = h.Attempts[j], h.Attempts[i] })
		res := Check(h, Options{})
		if res.OK || res.Violations[0].Kind != c.kind && !slices.ContainsFunc(res.Violations, func(v Violation) bool { return v.Kind == c.kind }) {
			t.Errorf("%s: not found in the crowd: %v", c.name, res.String())
		}
		for _, v := range res.Violations {
			if !slices.ContainsFunc(v.Attempts, func(a *Attempt) bool { return len(a.ID) > 7 && a.ID[:7] == "planted" }) {
				t.Errorf("%s: blames the innocent:\n%s", c.name, v.Explain())
			}
		}
	}
}

// What looks odd and is right.
func TestRightAfterAll(t *testing.T) {
	for _, c := range []struct {
		name string
		txns []Attempt
	}{
		{"nothing", nil},
		{"an aborted attempt's version is issued again", []Attempt{
			at("1", 0, 10, Abort, wr("a", 1, 2)), at("2", 20, 30, wr("a", 1, 2)), at("3", 40, 50, rd("a", 2)),
		}},
		{"an aborted attempt saw two moments", []Attempt{
			at("1", 0, 10, wr("a", 1, 2), wr("b", 1, 2)), at("2", 0, 10, Abort, rd("a", 1), rd("b", 2)),
		}},
		{"an unknown attempt that never happened", []Attempt{
			at("1", 0, 10, Unknown, rd("x", 99), wr("a", 1, 2)), at("2", 20, 30, rd("a", 1), wr("a", 1, 2)),
		}},
		{"an unknown attempt takes effect after its end", []Attempt{
			at("1", 0, 10, Unknown, wr("a", 1, 2)), at("2", 20, 30, rd("a", 1)), at("3", 40, 50, rd("a", 2)),
		}},
		{"an unknown deletion shows by absence alone", []Attempt{
			at("1", 0, 10, Unknown, rm("a", 1, 2)), at("2", 20, 30, rd("a", 1)), at("3", 40, 50, rd("a", 0)),
		}},
		{"an unknown deletion shows by an insert", []Attempt{
			at("1", 0, 10, Unknown, rm("a", 1, 2)), at("2", 20, 30, wr("a", 0, 3)), at("3", 5, 8, rd("a", 1)),
		}},
		{"one of two unknown deletions", []Attempt{
			at("1", 0, 10, Unknown, rm("a", 1, 2), wr("b", 1, 2)), at("2", 0, 10, Unknown, rm("a", 1, 2), wr("c", 1, 2)),
			at("3", 20, 30, rd("a", 0), rd("b", 1)), at("4", 40, 50, rd("a", 0), rd("b", 1), rd("c", 2)),
		}},
		{"an unknown replaces, an unknown deletes", []Attempt{
			at("1", 0, 10, Unknown, wr("a", 1, 2)), at("2", 20, 30, Unknown, rm("a", 2, 3)), at("3", 40, 50, rd("a", 0)),
			at("4", 0, 5, rd("a", 1)),
		}},
		{"one of two unknown writers, while an aborted attempt saw what was before", []Attempt{
			at("1", 0, 10, Unknown, wr("a", 1, 3)), at("2", 0, 10, Unknown, wr("a", 1, 3)),
			at("3", 0, 10, Abort, rd("a", 1)), at("4", 0, 10, wr("a", 3, 5)),
		}},
		{"an unknown deletion of one key decides which absence of another was seen", []Attempt{
			at("insert", 0, 10, wr("k", 0, 1), wr("link", 0, 1)), at("delete", 0, 10, rm("k", 1, 2), rd("m link", 1)),
			at("look", 0, 10, rd("k", 0), rd("link", 1), rd("m", 0)),
			at("m", 0, 10, wr("m", 0, 1), wr("m link", 0, 1)), at("unknown", 0, 10, Unknown, rm("m", 1, 2)),
		}},
		{"end and begin at one tick", []Attempt{
			at("1", 0, 10, wr("a", 1, 2)), at("2", 10, 20, rd("a", 1)),
		}},
		{"absent again", []Attempt{
			at("1", 0, 10, wr("a", 0, 1)), at("2", 11, 20, rm("a", 1, 2)), at("3", 21, 30, rd("a", 0)), at("4", 31, 40, wr("a", 0, 3)), at("5", 41, 50, rd("a", 3)),
		}},
		{"inserted and deleted at once", []Attempt{
			at("1", 0, 10, wr("a", 0, 1), rm("a", 1, 2)), at("2", 20, 30, rd("a", 0), wr("a", 0, 3)),
		}},
	} {
		h := &History{Attempts: c.txns}
		if res := Check(h, Options{}); !res.OK || res.Undecided {
			t.Errorf("%s: %v", c.name, res.String())
			for i := range res.Violations {
				t.Log(res.Violations[i].Explain())
			}
		}
		if !bruteForce(h) {
			t.Errorf("%s: brute force says no", c.name)
		}
	}
}

// A violation that spans a whole long history makes one giant component; it is found in time all the same, and
// so is one that needs three.
func TestLongCycles(t *testing.T) {
	h := generate(load{attempts: 50_000, sessions: 64, accounts: 8}, 4)
	last := h.Attempts[len(h.Attempts)-1].End
	start := time.Now()
	stale := &History{Attempts: append(slices.Clone(h.Attempts),
		Attempt{ID: "x", Session: "x", Begin: last + 1, End: last + 2, Outcome: Commit, Reads: []Read{{"accounts", "\x00\x00\x00\x00\x00\x00\x00\x00", 7}}})}
	wantWords(t, Check(stale, Options{}), RealTime, "stale read, a cycle of 2 transactions")
	// The same, but without end: only what it read and wrote can convict it.
	skew := &History{Attempts: append(slices.Clone(h.Attempts),
		Attempt{ID: "x", Session: "x", Begin: 0, End: last, Outcome: Commit, Reads: []Read{{"accounts", "\x00\x00\x00\x00\x00\x00\x00\x00", 7}, {"new", "y", 1}}},
		Attempt{ID: "y", Session: "y", Begin: last + 1, End: last + 2, Outcome: Commit, Writes: []Write{{"new", "y", 0, 1, false}}})}
	wantWords(t, Check(skew, Options{}), RealTime, "a cycle of")
	t.Logf("%v", time.Since(start))
}

// An attempt as long as the history may have found its key absent in any of thousands of absences.
func TestManyAbsences(t *testing.T) {
	const rounds = 20_000
	h := &History{}
	v := uint64(0)
	for i := range int64(rounds) {
		prev := v * uint64(i%2)
		v++
		h.Attempts = append(h.Attempts, at(strconv.Itoa(int(i)), 10*i, 10*i+15, Write{"acc", "a", prev, v, i%2 == 1}, Write{"acc", "b", v - 1, v, false}))
	}
	for i := range int64(200) {
		h.Attempts = append(h.Attempts, at("long"+strconv.Itoa(int(i)), 0, 10*rounds, rd("a", 0), rd("b", uint64(100*i))))
	}
	if res := Check(h, Options{}); !res.OK || res.Choices != 200 {
		t.Fatal(res.String())
	}
	h.Attempts[rounds+7].Reads[1].Version++ // b was so while a was there
	if res := Check(h, Options{}); res.OK || res.Total != 1 {
		t.Fatal(res.String())
	}
}

package serial

// demand says that a counted attempt could not have seen what it saw unless somebody wrote it.
type demand struct {
	by, key int32
	ver     uint64
	how     seenHow
}

type seenHow uint8

const (
	seenRead    seenHow = iota // the version was read
	seenReplace                // the version was replaced
)

// reason is why an attempt of unknown outcome is taken as committed.
type reason struct {
	kind    reasonKind
	by, key int32
	ver     uint64
}

type reasonKind uint8

const (
	whyTried    reasonKind = iota // one of several possibilities
	whyRead                       // by read its version
	whyReplaced                   // by replaced its version
	whyDeleted                    // by found the key absent, which only this attempt can have deleted
)

func (t *teller) because(why reason) string {
	key := t.r.ix.name(why.key)
	switch why.kind {
	case whyRead:
		return t.name(why.by) + " read its " + versionOf(key, why.ver)
	case whyReplaced:
		return t.name(why.by) + " replaced its " + versionOf(key, why.ver)
	case whyDeleted:
		return t.name(why.by) + " found " + key + " absent, and nobody else can have deleted it"
	case whyTried:
	}
	return "somebody must have written what was seen; this is the first possibility, and the others are no better"
}

// settle finds the unknown attempts that must have committed, since a counted attempt saw what they
// wrote, and makes the chains of all counted writes.
func (r *run) settle() {
	for len(r.work) > 0 {
		a := r.work[len(r.work)-1]
		r.work = r.work[:len(r.work)-1]
		r.eachRef(a, func(key int32, ver uint64, _ bool) { r.demand(demand{a, key, ver, seenRead}) })
		for w := r.ix.writeOff[a]; w < r.ix.writeOff[a+1]; w++ {
			r.demand(demand{a, r.ix.writes[w].key, r.ix.writes[w].prev, seenReplace})
		}
	}
	r.makeChains()
}

func (r *run) demand(d demand) {
	if d.ver == 0 || !r.ix.maybe[d.key] {
		return
	}
	if r.ix.inMiddle(d.by, d.key, d.ver) == d.by {
		return // its own
	}
	options := r.writers(d)
	switch len(options) {
	case 0:
	case 1:
		why := reason{whyRead, d.by, d.key, d.ver}
		if d.how == seenReplace {
			why.kind = whyReplaced
		}
		r.take(options[0], why)
	default:
		r.undone = append(r.undone, d)
	}
}

// writers are the unknown attempts that may have written what d saw; none if a counted attempt did.
func (r *run) writers(d demand) []int32 {
	var out []int32
	for _, w := range r.ix.versions(d.key, d.ver) {
		a := r.ix.writes[w].att
		if r.counted[a] {
			return nil
		}
		if r.ix.h.Attempts[a].Outcome == Unknown && !r.ix.writes[w].del {
			out = append(out, a)
		}
	}
	return out
}

// take counts an unknown attempt as committed.
func (r *run) take(a int32, why reason) {
	if r.counted[a] {
		return
	}
	r.counted[a] = true
	r.why[a] = why
	r.work = append(r.work, a)
}

// checkDemands reports versions seen that any of several unknown attempts may have written, and none
// is known to have. Until that is known, the chain of the key says nothing.
func (r *run) checkDemands() {
	r.open = map[int32]bool{}
	for _, d := range r.undone {
		if options := r.writers(d); len(options) > 0 {
			r.open[d.key] = true
			r.broken[d.key] = true
			r.report(options, func() Violation {
				t := r.tell(d.by)
				t.say("%s saw %s, which any of %d attempts of unknown outcome may have written, but none fits",
					t.name(d.by), versionOf(r.ix.name(d.key), d.ver), len(options))
				return t.violation(HalfVisible, "")
			})
		}
	}
}

// needDelete deals with an absence that only an unknown attempt can explain: the only one there is must
// have committed; of several, one must have.
func (r *run) needDelete(options []int32, by, key int32, tell func() Violation) {
	if len(options) == 1 {
		r.take(options[0], reason{whyDeleted, by, key, 0})
		r.again = true
		return
	}
	r.report(options, tell)
}

package main

// mutation is a guard of the engine, and how it is taken out.
type mutation struct {
	name, guard string
	edits       []edit
}

// edit replaces a text that stands exactly once in a file.
type edit struct{ file, old, new string }

// mutations are the guards. A text that does not stand in its file any more is an error:
// whoever changes a guard looks at its mutation.
var mutations = []mutation{
	{"abort-owner", "abort frees only locks that were taken", []edit{
		{"txn/cell.go", "	if !again {\n		return 0, errLocked\n", "	if !again {\n		tx.unhold(c)\n		return 0, errLocked\n"}}},
	{"validate-lock", "validation fails on a locked cell", []edit{
		{"txn/commit.go", "		case layout.Lock(seen) != 0:\n", "		case false && layout.Lock(seen) != 0:\n"}}},
	{"validate-version", "validation compares versions", []edit{
		{"txn/commit.go", "		case ver != c.ver:\n			err = errVersion\n", "		case false && ver != c.ver:\n			err = errVersion\n"}}},
	{"validate-header", "validation compares versions of bucket headers", []edit{
		{"txn/commit.go", "		case ver != c.ver && c.kind == layout.KindBucket:\n			err = errInsert\n		case ver != c.ver:\n",
			"		case ver != c.ver && c.kind != layout.KindBucket:\n"}}},
	{"pending-reader", "a reader takes no pending image", []edit{
		{"txn/lookup.go", "; st == layout.Torn || ver.IsPending() {\n", "; st == layout.Torn {\n"},
		{"txn/lookup.go", "	c.ver = ver\n	return st, 0, nil\n", "	c.ver = ver.WithoutPending()\n	return st, 0, nil\n"}}},
	{"pending-locker", "a locker gives back the lock of a pending cell", []edit{
		{"txn/cell.go", "	if ver.IsPending() {\n		wait, err = tx.postpone(c)\n", "	if ver = ver.WithoutPending(); false {\n		wait, err = tx.postpone(c)\n"}}},
	{"pending-write", "images at the primary are pending until the unlock", []edit{
		{"txn/commit.go", "c.addr, c.newVer|layout.Pending, uint64(tx.token), layout.KindRecord,", "c.addr, c.newVer, uint64(tx.token), layout.KindRecord,"}}},
	{"sum-check", "a reader checks the sum", []edit{
		{"layout/cell.go", "		return v, lineSum((*[CellAlign]byte)(h), addr) == sum\n", "		return v, true\n"},
		{"layout/cell.go", "	return v, cellSum(addr, v, binary.LittleEndian.Uint64(h[OffWriter:]), lens, b[HeaderSize:n]) == sum\n", "	return v, sum != 1\n"}}},
	{"log-first", "the log entry goes before the cells", []edit{
		{"txn/commit.go", "	tx.postLogs()\n	tx.logged = true\n	if len(tx.reads) > 0 {\n", "	if len(tx.reads) == 0 {\n		tx.postCells()\n	}\n	tx.postLogs()\n	tx.logged = true\n	if len(tx.reads) > 0 {\n"},
		{"txn/commit.go", "	tx.postCells()\n	tx.s.RingOn()\n", "	if len(tx.reads) > 0 {\n		tx.postCells()\n	}\n	tx.s.RingOn()\n"}}},
	{"log-at-all", "a log entry is written", []edit{
		{"txn/commit.go", "	tx.postLogs()\n	tx.logged = true\n", "	tx.logged = true\n"}}},
	{"await-acks", "the answer waits for all acks", []edit{
		{"txn/commit.go", "	tx.s.RingOn()\n	if err := tx.s.Wait(); err != nil {\n", "	tx.s.RingOn()\n	if err := error(nil); err != nil {\n"}}},
	{"header-in-reads", "an absence puts its bucket's header into the read set", []edit{
		{"txn/lookup.go", "		c.ver, c.read = a.search.first, true\n", "		c.ver = a.search.first\n"}}},
	{"header-first", "an absence rests on the header version that was read first", []edit{
		{"txn/lookup.go", "	s.first = layout.CellVersion(s.words.B())\n", "	s.first = layout.CellVersion(s.bucket.B())\n"}}},
	{"look-again", "the key is looked for again behind the header's lock", []edit{
		{"txn/lookup.go", "		if !tx.isKey(a, img) {\n", "		if !tx.isKey(a, img) || behind && a.mode == modeInsert {\n"}}},
	{"late-lock", "a key read before has its version still when it is locked", []edit{
		{"txn/cell.go", "	if c.read && ver != c.ver {\n		return st, 0, errVersion\n", "	if false && c.read && ver != c.ver {\n		return st, 0, errVersion\n"}}},
	{"abort-mark", "an aborted log entry is marked before locks go", []edit{
		{"txn/commit.go", "	if tx.logged {\n		// Locks may go only", "	if false && tx.logged {\n		// Locks may go only"}}},
	{"single-read-lock", "a lone read of a locked cell is validated", []edit{
		{"txn/commit.go", " && c.kind == layout.KindRecord && layout.Lock(c.image().B()) == 0 && !tx.holds() {", " && c.kind == layout.KindRecord && !tx.holds() {"}}},
	{"single-absence", "a lone absence is validated", []edit{
		{"txn/commit.go", " && c.kind == layout.KindRecord && layout.Lock(c.image().B()) == 0 && !tx.holds() {", " && layout.Lock(c.image().B()) == 0 && !tx.holds() {"},
		{"txn/commit.go", "	if c := tx.reads[0]; len(tx.reads) == 1", "	if c := tx.reads[0]; len(tx.reads) == 1 && c.kind == layout.KindBucket {\n		return nil\n	} else if len(tx.reads) == 1"}}},
	{"old-qp", "the old QP is destroyed before releases are made good", []edit{
		{"coord/session.go", "		if err := s.c.dir.Disconnect(ctx, k.node, k.remote); err != nil {\n			return fmt.Errorf", "		if err := error(nil); err != nil {\n			return fmt.Errorf"}}},
	{"redeem-owner", "a release is made good only where the lock still is its own", []edit{
		{"coord/session.go", "	mine := layout.Lock(buf.B()) == uint64(t)\n", "	mine := true || layout.Lock(buf.B()) == uint64(t)\n"}}},
	{"redeem-half", "an unlock cut in half is made whole", []edit{
		{"coord/session.go", "	half := v != 0 && ", "	half := false && v != 0 && "}}},
	{"stray-lock", "a lock taken at a stale address goes back", []edit{
		{"txn/lookup.go", "	if c.locked {\n		tx.unhold(c)\n	}\n	a.stale = true\n", "	a.stale = true\n"}}},
	{"group-version", "all cells of a structural change get one version, above all of theirs", []edit{
		{"txn/commit.go", "		c.newVer = tx.group + 1\n", "		c.newVer = c.ver&layout.CounterMask + 1\n"}}},
	{"fence", "a suspect is fenced before its logs are read", []edit{
		{"coord/claim.go", "		if err := n.Fence(suspect); err != nil {\n", "		if err := error(nil); n == nil || err != nil {\n"}}},
	{"recover-applied", "an entry is committed only if applied at every copy", []edit{
		{"coord/recover.go", "	return applied, false\n", "	return applied || held, false\n"}}},
	{"recover-backups", "applied looks at every copy", []edit{
		{"coord/recover.go", "		for j := range at {\n			applied", "		for j := range at[:1] {\n			applied"}}},
	{"recover-whole", "applied looks at the sum", []edit{
		{"coord/look.go", " && k.writer == uint64(t) && k.whole\n", " && k.writer == uint64(t)\n"}}},
	{"recover-released", "an entry whose locks began to go is committed", []edit{
		{"coord/recover.go", "	if released {\n		return true, ", "	if false && released {\n		return true, "}}},
	{"recover-mark", "an entry marked aborted is aborted", []edit{
		{"coord/recover.go", "	case e.marked(layout.LogAborted):\n		return false, false\n", "	case false && e.marked(layout.LogAborted):\n		return false, false\n"}}},
	{"recover-held", "recovery undoes only cells that the dead still holds", []edit{
		{"coord/recover.go", "		if !e.holds(p.lock) {\n			continue\n		}\n		if c.old == nil {\n", "		if p == nil {\n			continue\n		}\n		if c.old == nil {\n"}}},
	{"recover-half", "recovery clears pending where an unlock was cut in half", []edit{
		{"coord/recover.go", "		if !mine && !e.half(c, p) {\n", "		if !mine {\n"},
		{"coord/recover.go", "		half = half || e.half(&e.cells[i], p)\n", "		half = half || false && e.half(&e.cells[i], p)\n"}}},
	{"recover-restore", "recovery puts old images back at backups too", []edit{
		{"coord/recover.go", "	for replica := 1; replica < r.c.Replicas(c.Addr.Shard()); replica++ {\n		put(replica)\n	}\n", ""}}},
	{"recover-covered", "recovery clears what a new image has left behind the old one's end", []edit{
		{"coord/recover.go", "	n := max(len(c.old), c.covered)\n", "	n := len(c.old)\n"}}},
	{"recover-sweep", "locks that were never logged are swept", []edit{
		{"coord/recover.go", "	if err := c.heart.sweep(ctx, r); err != nil {\n", "	if err := error(nil); err != nil {\n"}}},
	{"orphan-settled", "only locks of coordinators that are settled are freed", []edit{
		{"txn/recovery.go", "	if holder == 0 || !tx.s.Coordinator().IsRecovered(holder.Coordinator()) {\n", "	if holder == 0 || holder.Coordinator() == tx.token.Coordinator() {\n"}}},
	{"claim-owner", "a claim is refused as long as who has it lives", []edit{
		{"coord/claim.go", "	if other := c.members[m.claimed]; other != nil && !other.left && !c.fenced[m.claimed] {\n", "	if other := c.members[m.claimed]; false && other != nil {\n"}}},
}

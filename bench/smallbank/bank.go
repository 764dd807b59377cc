package main

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"fjord/bench"
	"fjord/txn"
)

const (
	defaultAccounts = 100_000
	defaultHot      = 4_000
	defaultHotPct   = 90
	maxAccounts     = 100_000_000

	// batch is how many accounts one transaction loads or checks at most.
	batch = 32

	// Each account opens with from minOpening to maxOpening cents in either table.
	minOpening = 100_00
	maxOpening = 500_00
)

// bank is the benchmark.
type bank struct {
	accounts, hotAccounts int
	hotPercent            float64
	only                  string // the transaction that runs alone; "" is the mix

	tables  map[*txn.DB]tables
	opening atomic.Int64 // sum of all balances after loading
	clients []*client
}

// tables are the handles of one DB.
type tables struct{ savings, checking *txn.Table }

// Name returns "smallbank".
func (*bank) Name() string { return "smallbank" }

// Flags declares the shape of the accounts, and which transactions run.
func (k *bank) Flags(f *bench.Flags) {
	f.Int(&k.accounts, "accounts", defaultAccounts, 2, maxAccounts, "accounts")
	f.Int(&k.hotAccounts, "hot-accounts", defaultHot, 0, maxAccounts, "of these, hot ones; not more than --accounts")
	f.Float(&k.hotPercent, "hot-percent", defaultHotPct, 0, 100, "share of the accesses that goes to hot accounts")
	f.String(&k.only, "only", "NAME", "", "run this transaction alone, not the mix: "+strings.Join(kindNames[:], ", "), func(text string) string {
		if text == "" || slices.Contains(kindNames[:], text) {
			return ""
		}
		return "one of " + strings.Join(kindNames[:], ", ")
	})
	f.Check(func() {
		switch {
		case k.hotAccounts <= k.accounts:
		case f.Given("hot-accounts"):
			f.Badf("--hot-accounts %d: right is at most --accounts %d", k.hotAccounts, k.accounts)
		default:
			k.hotAccounts = k.accounts
		}
		if k.hotAccounts == 0 && f.Given("hot-percent") && k.hotPercent > 0 {
			f.Badf("--hot-percent %v with --hot-accounts 0: right is at least one hot account, or --hot-percent 0", k.hotPercent)
		}
	})
}

// Rollbacks returns the one reason for which a transaction gives up.
func (*bank) Rollbacks() []*bench.Rollback { return []*bench.Rollback{errInsufficient} }

// Types returns the names of the transactions.
func (*bank) Types() []string { return kindNames[:] }

// Options makes room for the accounts, and for all their addresses in the cache.
func (k *bank) Options(o *txn.Options) {
	records := uint64(k.accounts) * 2
	o.NodeMemory += records * bytesPerRecord
	o.AddressCache = max(minCache, int(records)*cachePerRecord)
}

const (
	// bytesPerRecord is more than a record of this size takes in a table that is
	// filled to its capacity, buckets and overflow included.
	bytesPerRecord = 256
	// The cache of addresses is twice what is needed, so that hardly a set of it
	// overflows.
	minCache       = 1 << 20
	cachePerRecord = 2
)

// Load creates both tables and opens the accounts. Every compute node looks at all of
// them once, so that it has their addresses.
func (k *bank) Load(l *bench.Loader) error {
	schema := func(name string) txn.Schema {
		return txn.Schema{Name: name, KeySize: keySize, ValueSize: rowSize, Capacity: k.accounts}
	}
	k.tables = map[*txn.DB]tables{}
	err := k.handles(l.DB, func(name string) (*txn.Table, error) { return l.DB.CreateTable(l.Ctx, schema(name)) })
	if err != nil {
		return err
	}
	for _, db := range l.Others {
		if err := k.handles(db, func(name string) (*txn.Table, error) { return db.Table(l.Ctx, name) }); err != nil {
			return err
		}
	}
	to := k.tables[l.DB]
	err = l.Each(uint64(k.accounts), loadBatch(k.accounts, l.Loaders), func(ctx context.Context, lo, hi uint64) error {
		var sum int64
		err := l.DB.Update(ctx, func(tx *txn.Tx) (err error) {
			sum, err = to.open(tx, l.Seed, lo, hi)
			return err
		})
		k.opening.Add(sum)
		return err
	})
	if err != nil {
		return err
	}
	return l.Warm(uint64(k.accounts), batch, func(ctx context.Context, db *txn.DB, lo, hi uint64) error {
		return db.View(ctx, func(tx *txn.Tx) error {
			_, err := k.tables[db].sum(tx, int(lo), int(hi))
			return err
		})
	})
}

// handles gets the tables of a DB.
func (k *bank) handles(db *txn.DB, get func(name string) (*txn.Table, error)) (err error) {
	var t tables
	if t.savings, err = get("savings"); err == nil {
		t.checking, err = get("checking")
	}
	k.tables[db] = t
	return err
}

// loadBatch returns how many accounts one transaction opens. With b inserts in each
// of n transactions at once, a pair of them meets in one of m buckets about
// n²b²/2m times; this keeps a transaction's share of that below one.
func loadBatch(accounts, loaders int) uint64 {
	const accountsPerBucket = 8
	b := math.Sqrt(float64(accounts) / accountsPerBucket / float64(2*loaders))
	return uint64(min(max(b, 1), batch))
}

// open inserts accounts lo to hi-1 and returns the sum of their balances.
func (t tables) open(tx *txn.Tx, seed, lo, hi uint64) (int64, error) {
	var (
		keys [batch][keySize]byte
		refs []txn.Ref
		sum  int64
	)
	for a := lo; a < hi; a++ {
		key := keys[a-lo][:]
		putKey(key, a)
		refs = append(refs, txn.ForInsert(t.savings, key), txn.ForInsert(t.checking, key))
	}
	if err := tx.Fetch(refs...); err != nil {
		return 0, err
	}
	for a := lo; a < hi; a++ {
		for i, t := range []*txn.Table{t.savings, t.checking} {
			var value [rowSize]byte
			cents := openingBalance(seed, a, i)
			row{cents: cents}.put(value[:])
			if err := tx.Insert(t, keys[a-lo][:], value[:]); err != nil {
				return 0, err
			}
			sum += cents
		}
	}
	return sum, nil
}

// openingBalance depends on nothing but its arguments, so that a load is the same
// whoever does which part of it.
func openingBalance(seed, account uint64, table int) int64 {
	// The finalizer of SplitMix64.
	x := seed + 0x9e3779b97f4a7c15*(2*account+uint64(table)+1)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return minOpening + int64(x%(maxOpening-minOpening+1))
}

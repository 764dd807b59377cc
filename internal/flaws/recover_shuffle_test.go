package flaws_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"fjord/coord"
	"fjord/internal/script"
	"fjord/lock"
	"fjord/txn"
)

// TestShuffledDeaths runs transfers of money by several coordinators, with every step of
// every request in an order drawn from the seed, requests torn and reordered, and QPs
// failing. At a random moment one coordinator dies, and with it what it has posted; in some
// runs another, which is recovering it, dies as well. Afterwards money is conserved,
// nothing is left locked, pending or unequal, and everybody who asks is told the same.
//
//	go test ./internal/flaws -run ShuffledDeaths -shuffle.seed N
func TestShuffledDeaths(t *testing.T) {
	if *seedFlag != 0 {
		shuffledDeath(t, *seedFlag)
		return
	}
	count := *countFlag
	if count == 0 {
		if count = 120; testing.Short() || raceOn {
			count = 12
		}
	}
	sum := deathTally{}
	for i := range uint64(count) {
		ok := t.Run(fmt.Sprint(*firstFlag+i), func(t *testing.T) {
			d := shuffledDeath(t, *firstFlag+i)
			sum.deaths += d.deaths
			sum.unfinished += d.unfinished
			sum.committed += d.committed
		})
		if !ok {
			t.Fatalf("run again: go test ./internal/flaws -run ShuffledDeaths -shuffle.seed %d -v", *firstFlag+i)
		}
	}
	t.Logf("%d seeds: %+v", count, sum)
	if count >= 100 && (sum.unfinished == 0 || sum.committed == 0 || sum.committed == sum.unfinished || sum.deaths <= count) {
		t.Error("something never happened")
	}
}

// deathTally counts who died, and in the middle of how many transactions.
type deathTally struct{ deaths, unfinished, committed int }

func shuffledDeath(t *testing.T, seed uint64) (sum deathTally) {
	rng := rand.New(rand.NewPCG(seed, 99))
	pick := func(n ...int) int { return n[rng.IntN(len(n))] }
	s := shape{seed: seed, coords: 4, retries: 8, nodes: pick(1, 2, 3), value: pick(16, 100)}
	s.replicas = 1 + rng.IntN(s.nodes)
	s.noInline = rng.IntN(4) == 0
	s.sync = rng.IntN(4) == 0
	if rng.IntN(3) == 0 {
		s.lock = lock.Backoff{Min: 100, Max: 1000, Tries: 3}
	}
	e := open(t, s)
	const accounts, money = 4, 1000
	for k := 1; k <= accounts; k++ {
		e.put(3, k, money)
	}
	chaos := script.Chaos{Steps: 400_000, Tear: 0.3 * rng.Float64(), Overtake: 0.5 * rng.Float64()}
	if rng.IntN(2) == 0 {
		chaos.Fail = 0.001 * rng.Float64() // a sweep reads much, in many steps
	}
	over := 0
	deadly := [4]bool{}
	for c := range 3 {
		for n := range 2 {
			r := rand.New(rand.NewPCG(seed, uint64(10*c+n)))
			e.Start(fmt.Sprintf("C%d.%d", c, n), func() {
				defer func() { over++ }()
				for range 8 {
					e.transfer(c, r, accounts)
				}
			})
		}
	}
	bury := func(c int) {
		deadly[c] = true
		sum.deaths++
		e.kill(c)
		e.Bury(func(task string) bool { return strings.HasPrefix(task, fmt.Sprintf("C%d.", c)) })
	}
	rt := e.Runtime()
	recoverIt := func(c int, id uint16) {
		var last error
		for range 1000 {
			r, err := e.db[c].Recover(ctx, id)
			if err == nil {
				for _, o := range r.Outcomes {
					if sum.unfinished++; o.Committed {
						sum.committed++
					}
				}
				return
			}
			if errors.Is(err, coord.ErrNoMember) {
				return
			}
			last = err
			rt.Sleep(10_000)
		}
		t.Errorf("coordinator %d is never recovered: %v", id, last)
	}
	first, second := e.db[0].Coordinator(), e.db[1].Coordinator()
	when, then := 1+rng.IntN(40), rng.IntN(100)
	both := rng.IntN(2) == 0
	e.Start("undertaker", func() {
		for range when {
			rt.Yield()
		}
		bury(0)
		if !both {
			recoverIt(2, first)
			return
		}
		e.Start("C1.R", func() { _, _ = e.db[1].Recover(ctx, first) })
		for range then {
			rt.Yield()
		}
		bury(1)
		recoverIt(2, second)
		recoverIt(2, first)
	})
	e.Shuffle(chaos)
	var dead []int
	for c, d := range deadly {
		if d {
			dead = append(dead, c)
		}
	}
	e.check(dead...)
	total := 0
	e.must(e.db[3].View(ctx, func(tx *txn.Tx) error {
		total = 0
		for k := 1; k <= accounts; k++ {
			n, err := e.read(tx, 3, k)
			if err != nil {
				return err
			}
			total += n
		}
		return nil
	}))
	if total != accounts*money {
		t.Errorf("money: %d, want %d", total, accounts*money)
	}
	e.close()
	return sum
}

// transfer moves money between two accounts, by coordinator c. What has an unknown
// outcome is resolved.
func (e *env) transfer(c int, r *rand.Rand, accounts int) {
	from, to := 1+r.IntN(accounts), 1+r.IntN(accounts)
	if from == to {
		return
	}
	err := e.db[c].Update(ctx, func(tx *txn.Tx) error {
		a, err := e.read(tx, c, from)
		if err != nil {
			return err
		}
		b, err := e.read(tx, c, to)
		if err != nil {
			return err
		}
		return e.puts(c, from, a-5, to, b+5)(tx)
	})
	var u *txn.UnknownError
	for tries := 0; errors.As(err, &u) && tries < 1000; tries++ {
		if _, e := e.db[c].Resolve(ctx, u.ID); e == nil {
			return
		}
		e.Runtime().Sleep(1000)
	}
	if err != nil && !errors.Is(err, txn.ErrConflict) && !errors.Is(err, txn.ErrUnavailable) {
		e.t.Errorf("coordinator %d: %v", c, err)
	}
}

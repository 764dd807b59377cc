package coord

import (
	"math/rand/v2"
	"testing"

	"fjord/layout"
)

// chainModel is a hash table reduced to what PlanTable provides for: which slots
// of which bucket are taken.
type chainModel struct {
	chains [][]uint64 // of a head: the used slots of each of its buckets, 0 where an overflow bucket was given back
	slots  int
	heads  int   // in a shard
	spare  []int // overflow buckets left in a shard
	least  int
}

type place struct{ head, bucket, slot int }

func newChainModel(m *layout.TableMeta, shards int) *chainModel {
	c := &chainModel{slots: int(m.Slots), heads: int(m.Buckets), least: int(m.OverflowBuckets)}
	c.chains = make([][]uint64, c.heads*shards)
	for i := range c.chains {
		c.chains[i] = []uint64{0}
	}
	for range shards {
		c.spare = append(c.spare, int(m.OverflowBuckets))
	}
	return c
}

// insert takes the first free slot of a chain, as the engine does; false: there
// is no overflow bucket left.
func (c *chainModel) insert(head int) (place, bool) {
	full := uint64(1)<<c.slots - 1
	gone := -1
	for i, used := range c.chains[head] {
		if i > 0 && used == 0 {
			gone = i
			continue
		}
		if used != full {
			for s := range c.slots {
				if used&(1<<s) == 0 {
					c.chains[head][i] |= 1 << s
					return place{head, i, s}, true
				}
			}
		}
	}
	left := &c.spare[head/c.heads]
	if *left == 0 {
		return place{}, false
	}
	*left--
	c.least = min(c.least, *left)
	if gone < 0 {
		gone = len(c.chains[head])
		c.chains[head] = append(c.chains[head], 0)
	}
	c.chains[head][gone] = 1
	return place{head, gone, 0}, true
}

// remove frees a slot, and an overflow bucket with its last record.
func (c *chainModel) remove(p place) {
	b := &c.chains[p.head][p.bucket]
	*b &^= 1 << p.slot
	if p.bucket > 0 && *b == 0 {
		c.spare[p.head/c.heads]++
	}
}

// A table planned for a capacity holds as many records, and goes on doing so when
// they come and go for long: in the long run more chains have an overflow bucket
// than after filling, since one lives until its last record goes.
func TestPlanTableForChurn(t *testing.T) {
	for _, c := range []struct{ value, perShard, shards int }{
		{16, 30, 3}, {16, 300, 3}, {16, 1000, 3}, {16, 2000, 3}, {16, 3000, 5}, {16, 5000, 3}, {16, 2000, 16},
		{500, 1000, 3}, {700, 1000, 3}, {900, 1000, 3}, {1200, 1000, 3}, {2000, 1000, 3},
	} {
		capacity := c.perShard * c.shards
		m := PlanTable(8, c.value, uint64(capacity), c.shards)
		table := newChainModel(&m, c.shards)
		rnd := rand.New(rand.NewPCG(7, uint64(capacity)))
		live := make([]place, 0, capacity)
		steps := 30*capacity + 100_000
		if raceEnabled {
			steps /= 10
		}
		for i := range steps {
			if len(live) == capacity {
				j := rnd.IntN(capacity)
				table.remove(live[j])
				live[j] = live[capacity-1]
				live = live[:capacity-1]
			}
			p, ok := table.insert(rnd.IntN(len(table.chains)))
			if !ok {
				t.Errorf("value %d, %d records in %d shards: full after %d inserts with %d of %d overflow buckets left elsewhere",
					c.value, capacity, c.shards, i, table.spare, m.OverflowBuckets)
				break
			}
			live = append(live, p)
		}
		if table.least < 4 {
			t.Errorf("value %d, %d records in %d shards (%d slots): only %d of %d overflow buckets were left at one moment",
				c.value, capacity, c.shards, m.Slots, table.least, m.OverflowBuckets)
		}
		t.Logf("value %4d, %d records, %2d shards, %d slots: %3d of %3d overflow buckets left at the worst moment", c.value, capacity, c.shards, m.Slots, table.least, m.OverflowBuckets)
	}
}

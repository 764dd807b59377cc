package coord

import "fjord/layout"

// CatalogID is the id of the catalog, the hash table that holds the others.
const CatalogID = 1

// catalogCapacity is how many tables a cluster has room for.
const catalogCapacity = 512

// CatalogMeta describes the catalog, the one table that is found without a
// catalog: it begins behind the reserved page of every extent.
func CatalogMeta(shards int) layout.TableMeta {
	m := PlanTable(layout.MaxTableName, layout.TableMetaSize(shards), catalogCapacity, shards)
	m.ID = CatalogID
	size := TableBytes(&m)
	for s := range shards {
		m.Extents = append(m.Extents, layout.Extent{Shard: uint16(s), Off: reservedPerExtent, Len: size})
	}
	return m
}

// tableLog is the size of the largest log entry of a transaction that creates or
// drops a table: it changes every shard's allocator and the table's entry in the
// catalog, and of that table's cells the headers of three buckets of a chain and the
// overflow cursor, where a bucket is chained or given back.
func tableLog(shards int) uint64 {
	images := shards*layout.ImageSize(0, layout.FreeListSize) + layout.ImageSize(layout.MaxTableName, layout.TableMetaSize(shards)) +
		3*layout.BucketHeaderImage + layout.ImageSize(0, layout.OverflowCursorSize)
	return uint64(layout.LogSize(shards+5, images))
}

// OutcomesID is the id of the table of outcomes.
const OutcomesID = 2

// Sizes of what the table of outcomes holds: under a token, what became of it.
const (
	OutcomeKey   = 8
	OutcomeValue = 8
)

// OutcomesMeta describes the table in which recovery keeps what it has decided about
// transactions of dead coordinators: it lies behind the catalog, so that no recovery
// has to make it. It holds what two recoveries may find at most: two log slots for
// each session.
func OutcomesMeta(shards, sessions int) layout.TableMeta {
	c := CatalogMeta(shards)
	m := PlanTable(OutcomeKey, OutcomeValue, uint64(max(2*logSlots*sessions, leastOutcomes)), shards)
	m.ID = OutcomesID
	size := TableBytes(&m)
	for s := range shards {
		m.Extents = append(m.Extents, layout.Extent{Shard: uint16(s), Off: align(c.Extents[s].Off+c.Extents[s].Len, 64), Len: size})
	}
	return m
}

// leastOutcomes is how many outcomes are kept at least.
const leastOutcomes = 64

// firstFree is the offset in an extent behind what is reserved.
func firstFree(shards, sessions int) uint64 {
	m := OutcomesMeta(shards, sessions)
	return align(m.Extents[0].Off+m.Extents[0].Len, 4096)
}

// Fill of hash tables: on average bucketFill of 8 slots are used when the table
// is at its capacity; with 5, one bucket in 15 overflows when it is filled. But
// an overflow bucket lives until its last record goes, so where records come and
// go for long, between 22 and 27 of 100 buckets have one. The spare ones, a third
// of the buckets and some, cover that, and the spread of keys over shards, with
// room for deviations that do not happen.
const (
	bucketFill    = 5
	bucketFillOf  = 8
	spareOverflow = 16
)

// PlanTable chooses buckets for a hash table of that capacity, spread evenly
// over the shards.
func PlanTable(keySize, valueSize int, capacity uint64, shards int) layout.TableMeta {
	g := layout.NewBucketGeometry(keySize, valueSize)
	perShard := (capacity + uint64(shards) - 1) / uint64(shards)
	buckets := max(1, (perShard*bucketFillOf+uint64(g.Slots)*bucketFill-1)/(uint64(g.Slots)*bucketFill))
	// Buckets of few slots overflow more often.
	spare := buckets/3 + spareOverflow
	if g.Slots < layout.MaxBucketSlots {
		spare = buckets/2 + 2*spareOverflow
	}
	return layout.TableMeta{
		KeySize: uint32(keySize), ValueSize: uint32(valueSize), Capacity: capacity,
		Kind: layout.TableHash, State: layout.TableLive,
		Slots: uint32(g.Slots), SlotSize: uint32(g.SlotSize), Buckets: buckets, OverflowBuckets: spare,
	}
}

// CursorSlot is the size of the slot of a table's overflow cursor, which begins
// each of its extents; the buckets follow, then the overflow buckets.
const CursorSlot = (layout.HeaderSize + layout.OverflowCursorSize + layout.CellAlign - 1) &^ (layout.CellAlign - 1)

// TableBytes is the length of each of a table's extents.
func TableBytes(m *layout.TableMeta) uint64 {
	g := layout.BucketGeometry{Slots: int(m.Slots), SlotSize: int(m.SlotSize)}
	return CursorSlot + (m.Buckets+m.OverflowBuckets)*uint64(g.BucketSize())
}

// Package coord connects transactions to memory nodes. It knows nodes, regions,
// connections and sessions, and nothing of keys and transactions: it posts what
// it is told to, in batches, and sees to it that no lock is lost when a queue pair
// fails.
//
//	cluster.go      memory nodes of this process and their Directory
//	memnode.go      a memory node: its region, its ends of connections
//	directory.go    how coordinators and memory nodes find each other
//	membership.go   what a directory knows of coordinators that may have died
//	claim.go        that, in this process
//	fence.go        who may be connected to a memory node
//	plan.go         what lies where in a region
//	coordinator.go  a compute node's part: device, registered memory, epochs
//	pool.go         sessions, who runs on them, nesting
//	standing.go     as whom a coordinator runs, and how it joins again
//	heart.go        heartbeats, suspicion, and releases that failed on idle sessions
//	recover.go      what became of a dead coordinator's transactions
//	readlog.go      its log entries
//	look.go         their cells
//	session.go      a transaction's connections: staging, doorbells, releases, repair
//	buf.go          registered buffers
//	cache.go        addresses of records
//	catalog.go      the shape of tables, the catalog's own included
//
// # Order of calls
//
//	cluster ── NewCluster(config, newDevice)
//	co ─────── Join(ctx, cluster, device, config)
//	s ──────── co.Acquire(ctx) … s.Release()
//
//	s.Reset()                          all buffers are free again, old failures are others'
//	s.NextLog()                        before the first lock
//	s.Read, s.Write, s.CAS …           stage requests
//	s.Ring(); err := s.Wait()          one doorbell per QP; one round trip
//	s.TakeLog(ctx)                     before the log entry
//	s.Unlock, s.Unhold; s.RingQuiet()  releases, which nobody waits for
//	s.Repair(ctx)                      after an error: rebuild QPs, make releases good
//
// # Who owns which memory when
//
// A coordinator registers its memory once, at Join. Buffers of Session.Alloc are
// the session's until its next Reset; a request's buffers must stay untouched until
// the Wait behind its Ring, those of releases until Reset. A Session belongs to
// the worker that acquired it; everything else may be used by any.
package coord

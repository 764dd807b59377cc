// Package script runs coordinators over a fabric whose requests do what a test
// says: stop before or after they execute, execute line by line, lose their
// answer, fail their QP, vanish with their coordinator. It wraps the devices of
// any provider, so the engine above is the real one.
//
//	w := script.New(t, seed)
//	cluster, _ := coord.NewCluster(cfg, w.NewDevice)
//	w.Layout, _ = cluster.Layout(ctx)
//	db, _ := txn.Open(ctx, txn.Options{Cluster: cluster})
//
// # One worker at a time
//
// A World is also the verbs.Runtime of its devices: time is virtual, random
// numbers come from the seed, and of all goroutines that run transactions one runs
// at any moment, until it waits. So a test is the same in every run.
//
// The test's own goroutine may run transactions too, as long as they need not
// be stopped. Those that do are tasks:
//
//	h := w.Hold("T1's log", func(op *script.Op) bool { return op.By == "T1" && op.InLog() })
//	t1 := w.Start("T1", func() { err = db.Update(ctx, ...) })
//	t1.Run()     // until it ends, or waits for a request that is held
//	...          // others run meanwhile
//	h.Release()
//	t1.Finish()  // or the test fails and says where everybody stands
//
// Shuffle is for tasks without a script: each next step, of a task or of a
// request, is drawn from the seed, and so are failures.
//
// # What a fabric may do
//
// Requests of a QP execute in the order of posting, but Shuffle lets a WRITE or
// atomic overtake READs and atomics before it, as the IB table allows; nothing is
// ordered across QPs. A request of several words may execute in pieces: words of
// a 64-byte line in ascending order, lines in any. When a QP fails, the request
// that fails, and those behind it, may execute none the less, until the
// responder's QP is destroyed.
//
// SEND and RECV are refused: the engine has no use for them.
package script

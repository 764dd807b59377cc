// Package verbs is fjord's view of RDMA: devices, protection domains, memory
// regions, reliable-connected queue pairs and completion queues, named as in
// libibverbs so that a reader of ibv_post_send finds his way.
//
// # Order of calls
//
//	dev   ── AllocPD ──► pd ── RegisterMR(MapMemory(..)) ──► mr
//	  │                   └─── CreateQP(attr{SendCQ, RecvCQ}) ──► qp
//	  └── CreateCQ ──► cq
//
//	qp: RESET ─Modify─► INIT ─Modify─► RTR ─Modify─► RTS     (BringUp does all three)
//	RTS: PostSend(wrs) … CQ.Poll(wcs) …                      ERR ─Modify─► RESET
//
// # Who owns which memory when
//
// The buffers that a work request names belong to the provider from PostSend
// or PostRecv until its completion is polled (until PostSend returns when
// FlagInline is set). The SendWR and SGE values themselves may be reused as
// soon as PostSend returns. WC values belong to the caller.
//
// # Ordering
//
// Requests of one QP execute at the responder in posting order, with the
// exceptions of the InfiniBand table: a WRITE, SEND or atomic posted after a
// READ or atomic is not ordered behind it unless it carries FlagFence. Nothing
// is ordered across QPs. Nothing larger than an aligned 8-byte word is read or
// written atomically; the words of one 64-byte line are accessed in ascending
// order, the lines of one request in any order.
//
// # Selective signalling
//
// A request without FlagSignaled produces no completion when it succeeds, and
// gives its queue slot back only when a later signaled one on the same QP has
// been polled. A request that fails always produces a completion.
//
// # Time
//
// No code but a provider reads a clock. Now, Sleep, random numbers, workers and
// parking come from the device's Runtime, so that a simulator can run the very
// same code in virtual time; waits go through a Waiter.
package verbs

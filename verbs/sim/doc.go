// Package sim is a network of hosts in virtual time: a provider of package verbs
// that runs the same way, byte for byte, whenever it is given the same seed, on
// every machine. It is there to find what goes wrong in protocols above it, and to
// measure what hardware would do.
//
//	w, err := sim.New(sim.Options{Seed: seed, NIC: nic, Plan: plan})
//	defer w.Close()
//	node, err := w.AddHost("m0", sim.HostOptions{})
//	client, err := w.AddHost("c0", sim.HostOptions{})
//	dev, err := client.OpenDevice()            // a verbs.Device
//	err = w.RunOn(client, "load", func() {     // a worker of that host
//		... dev.AllocPD(), qp.PostSend(...), waiter.Poll(...) ...
//	})
//	fmt.Println(w.Now(), w.Hash(), node.Counters())
//
// # One at a time
//
// A World runs its workers as coroutines: of all of them one runs at any moment,
// until it waits (Sleep, Yield, Park) or ends, and time stands still meanwhile. What
// happens is a queue of events in the order of (time, sequence). Which of several
// ready workers is next, how long a message travels, in what order the lines of a
// WRITE land: all of it is drawn from the seed. A World, its devices and whatever is
// made of them belong to one goroutine at a time: the worker that runs, or whoever
// drives the world. A driver may call everything that a worker may: what waits
// (Sleep, Park) drives the world until the wait is over.
//
// A Host is a process on a machine; it is the verbs.Runtime of its workers, with a
// clock of its own if it is asked to have one. Workers that wait for what cannot
// come end Run with a DeadlockError, which says who waits and for what. World.Close
// unwinds all workers that are left, with their deferred functions, so that no
// goroutine remains.
//
// # The way of a request
//
// PostSend rings the doorbell. The requester's NIC takes requests in order, checks
// them, and sends them through its engine and wire; the payload of a request that
// is not inline is taken from memory only when it arrives at the peer, so whoever
// uses a buffer again too early sends the wrong bytes. The responder's NIC takes
// packets in the order of PSNs and executes requests as the InfiniBand table says:
// all that follows a WRITE or SEND comes behind it, a READ comes behind everything,
// but a WRITE, SEND or atomic may overtake READs and atomics unless it is fenced, and
// often does. An answer is sent when all before it are; a completion is there when
// the answer has come back. Nothing is ordered across QPs.
//
// The lines of a READ or WRITE, 64 bytes each, are accessed in any order at
// different times; now and then a line is cut in two, the part with the higher
// addresses later. So reads are torn, and a QP that is destroyed cuts WRITEs
// anywhere between two words. Aligned words are whole.
//
// RC's machinery is there too: PSNs, retransmission after a timeout (go back N) or a
// negative acknowledgement, retry counts, RNR waits, a window of 128 packets,
// duplicates that are answered but not executed again, except for READs: one that is
// sent again reads newer memory. A connection serves one life of the QPs at its
// ends. Whoever destroys, resets or moves to ERR the responder's QP can be sure that
// nothing lands through it any more; until then what a dead requester has sent
// still does.
//
// # What goes wrong
//
// A Plan lists faults: loss, duplication, reordering, delay, partition, pause, crash
// at a time or at the nth verb, and two that make what is allowed anyway happen more:
// READs that execute late (lag), lines that are far apart (spread). It is written in
// JSON, and refused with the field that is wrong. RandomPlan draws one. World.Heal
// ends it, for a phase in which everything must converge. A world without a plan
// loses nothing.
//
// # What it costs
//
// A NIC is a chain of stations, each a server with a time at which it is free: the
// processor that rings the doorbell, send engine, wire, the switch's queue,
// receive engine, PCIe, QP context and page caches, atomic unit, and a lock slot for
// each line of an address's low 12 bits. NICByName has the parameters of cx5, cx6 and
// cx7; ReadNIC reads changes from a file. Network has the switch: queues with ECN marks
// and DCQCN at the sender, and PFC, drops or credits when they are full. What a
// processor computes costs nothing but for HostOptions.TurnNS. Counters count as
// hw_counters do. All arithmetic is in integers: floating point differs between
// processors.
//
// Not modelled: the switch's queue for answers has no end; several ports or paths, the order of packets within one message but
// for its lines, memory on the card, and the bandwidth of host memory.
package sim

// Package mem is the embedded provider: memory nodes and compute nodes are
// devices of one process, joined by a Fabric. A request runs in the goroutine
// that posts it, straight on the target's memory, and has executed when PostSend
// returns; nothing is allocated on the way and no channel is crossed.
//
// What differs from hardware: a request to a peer that does not answer fails
// with StatusRetryExcErr at once instead of after the retries' time. A SEND that
// finds no receive posted stalls its QP, and goes on in the goroutine that posts
// the receive; its time limit is looked at when the sender's CQ is polled.
package mem

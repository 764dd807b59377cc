// Package mem is the embedded provider: memory nodes and compute nodes are
// devices of one process, joined by a Fabric. A request runs in the goroutine
// that posts it, straight on the target's memory, and has executed when PostSend
// returns; nothing is allocated on the way and no channel is crossed.
//
// What differs from hardware: a request to a peer that does not answer fails
// with StatusRetryExcErr at once instead of after the retries' time. A SEND that
// finds no receive posted stalls its QP, and goes on in the goroutine that posts
// the receive; when its retries are limited, a worker waits for its time to be up.
//
// What is the same: a connection serves one life of the two QPs, since on the wire
// their PSNs go on. Both ends must be reset to connect again.
package mem

package verbs

import "unsafe"

// Window is a remote region that lies in this process's own address space.
type Window struct {
	Base unsafe.Pointer
	VA   uint64 // virtual address of Base, as requests name it
	Size uint64 // bytes
}

// Windower is a QP that may lend its peer's memory to the caller, who then executes
// one-sided operations himself instead of posting them. It is an extra of providers
// whose requests have executed when PostSend returns (CapSyncPost) because the
// poster does the work in any case.
type Windower interface {
	QP
	// OpenWindow lends the region of rkey until CloseWindow. It refuses, with false,
	// whatever could not be posted just now and succeed: the QP has to be in RTS, the
	// peer to answer, and the region and both QPs to give every remote right. It may
	// also refuse for reasons of its own; then the request is to be posted.
	//
	// Meanwhile no other call of this QP's may be made by the same goroutine; those
	// that promise that nothing executes any more, of this QP, of its peer's or of the
	// region, wait. So it must be short, and nothing in it may wait.
	//
	// What is done takes its place among the requests of the QP, in order. It must be
	// what a NIC would do: whole words, each read or written once, in ascending order.
	OpenWindow(rkey uint32) (Window, bool)
	// CloseWindow ends the loan.
	CloseWindow()
}

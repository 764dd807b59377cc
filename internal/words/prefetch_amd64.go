package words

// Prefetch asks for the line at an address without waiting for it. There need be
// no memory.
func Prefetch(addr uintptr)

package verbs

import "fmt"

// HugePages says which pages a mapping asks for.
type HugePages uint8

// The page sizes. Transparent, the default, leaves it to the kernel and is
// never an error; the explicit ones need pages reserved by the administrator.
const (
	HugeTransparent HugePages = iota
	HugeNever
	Huge2M
	Huge1G
)

// String names the choice.
func (h HugePages) String() string {
	switch h {
	case HugeTransparent:
		return "transparent"
	case HugeNever:
		return "never"
	case Huge2M:
		return "2MiB"
	case Huge1G:
		return "1GiB"
	}
	return fmt.Sprintf("HugePages(%d)", uint8(h))
}

// Memory is page-aligned memory that can be registered. It lies outside the Go
// heap, but for programs built with -race, whose detector sees only the heap.
type Memory struct {
	buf   []byte
	unmap func() error
	// Fallback is non-nil when the huge pages asked for were not to be had and
	// ordinary ones are used: say so to the user.
	Fallback error
}

// MapMemory maps size zeroed bytes.
func MapMemory(size uint64, huge HugePages) (*Memory, error) {
	const most = 1 << 46
	if size == 0 || size > most {
		return nil, fmt.Errorf("%w: memory size is %d bytes, right is 1 to %d", ErrInvalid, size, uint64(most))
	}
	if huge > Huge1G {
		return nil, fmt.Errorf("%w: page size is %v, right is %v to %v", ErrInvalid, huge, HugeTransparent, Huge1G)
	}
	return mapMemory(size, huge)
}

// Bytes returns the memory.
func (m *Memory) Bytes() []byte { return m.buf }

// Free gives the memory back. Its regions must have been closed.
func (m *Memory) Free() error {
	if m.buf == nil {
		return nil
	}
	m.buf = nil
	if m.unmap == nil {
		return nil
	}
	return m.unmap()
}

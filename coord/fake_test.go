package coord

import (
	"context"
	"sync"
)

// fakeMember is a coordinator as the directory sees it, and nothing else.
type fakeMember struct {
	beats bool
	drain func(ctx context.Context) error

	mu        sync.Mutex
	recovered []uint16
}

func (m *fakeMember) Drain(ctx context.Context, _ uint64) error {
	if m.drain == nil {
		return nil
	}
	return m.drain(ctx)
}

func (m *fakeMember) Recovered(id uint16) {
	m.mu.Lock()
	m.recovered = append(m.recovered, id)
	m.mu.Unlock()
}

func (m *fakeMember) Beats() bool { return m.beats }

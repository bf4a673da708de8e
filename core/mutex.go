package core

import (
	"context"
	"sync"
)

// boundedMutex is a mutex whose lock also ends with a context. It is no channel, because most
// callers find it free. Unlike another mutex, it may be held during a request to the store: those
// who wait for it can leave. The zero value is unlocked.
type boundedMutex struct {
	mu       sync.Mutex
	locked   bool
	unlocked chan struct{} // closed when m is unlocked; nil: nobody waits
}

// lock reports false if ctx ended first. It locks a free mutex even if ctx has ended.
func (m *boundedMutex) lock(ctx context.Context) bool {
	for {
		unlocked := m.tryLock()
		if unlocked == nil {
			return true
		}
		select {
		case <-unlocked:
		case <-ctx.Done():
			return m.tryLock() == nil
		}
	}
}

// tryLock returns nil if it locked m, otherwise a channel to wait for.
func (m *boundedMutex) tryLock() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.locked {
		m.locked = true
		return nil
	}
	if m.unlocked == nil {
		m.unlocked = make(chan struct{})
	}
	return m.unlocked
}

func (m *boundedMutex) unlock() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.locked = false
	if m.unlocked != nil {
		close(m.unlocked)
		m.unlocked = nil
	}
}

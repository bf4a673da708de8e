package core

import (
	"context"
	"sync/atomic"
)

// boundedMutex is a mutex whose lock also ends with a context. Unlike another mutex, it may be held
// during a request to the store: those who wait for it can leave. The zero value is unlocked. A channel
// with room for one value would do, too: it takes 5 to 9 % of a lock in memory, an allocation, and a tenth
// of the memory of a held lease.
type boundedMutex struct {
	// nil: unlocked. Otherwise the channel that is closed when m is unlocked, or nobodyWaits: most
	// callers find m free, and need no channel.
	unlocked atomic.Pointer[chan struct{}]
}

// nobodyWaits points at no channel.
var nobodyWaits = new(chan struct{})

// lock reports false if ctx ended first. It locks a free mutex even if ctx has ended.
func (m *boundedMutex) lock(ctx context.Context) bool {
	for !m.tryLock() {
		unlocked := m.wait()
		if unlocked == nil {
			continue
		}
		select {
		case <-unlocked:
		case <-ctx.Done():
			return m.tryLock()
		}
	}
	return true
}

// tryLock reports whether it locked m.
func (m *boundedMutex) tryLock() bool { return m.unlocked.CompareAndSwap(nil, nobodyWaits) }

// wait returns the channel that is closed when m is unlocked. It returns nil if m has changed in the
// meantime: try again.
func (m *boundedMutex) wait() <-chan struct{} {
	unlocked := make(chan struct{})
	if m.unlocked.CompareAndSwap(nobodyWaits, &unlocked) {
		return unlocked
	}
	if others := m.unlocked.Load(); others != nil {
		return *others
	}
	return nil
}

func (m *boundedMutex) unlock() {
	if unlocked := m.unlocked.Swap(nil); *unlocked != nil {
		close(*unlocked)
	}
}

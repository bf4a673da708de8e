package send

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// pending is some requests of one caller that are under way.
type pending struct {
	left atomic.Int32  // requests that are not back
	done chan struct{} // something is sent when all are, and received once
}

// pendings are kept for others: most are over at once.
var pendings = sync.Pool{New: func() any { return &pending{done: make(chan struct{}, 1)} }}

func newPending(reqs []*Request) *pending {
	p := pendings.Get().(*pending)
	p.left.Store(int32(len(reqs)))
	for _, r := range reqs {
		r.part = p
	}
	return p
}

// lookAfter is when somebody looks whether ctx has ended. Most answers are here long
// before, and to be told of the end of a context costs more than to wait for the
// answer: each of those between it and its root registers the next.
const lookAfter = 10 * time.Millisecond

// lookTimers are timers to look by.
var lookTimers = sync.Pool{New: func() any { return time.NewTimer(time.Hour) }}

// wait waits until all are back, and reports false if ctx ends first, or has
// ended when they are late.
func (p *pending) wait(ctx context.Context) bool {
	timer := lookTimers.Get().(*time.Timer)
	timer.Reset(lookAfter)
	select {
	case <-p.done:
		timer.Stop()
		lookTimers.Put(timer)
		return true
	case <-timer.C:
		lookTimers.Put(timer)
	}
	select {
	case <-p.done:
		return true
	case <-ctx.Done():
		return false
	}
}

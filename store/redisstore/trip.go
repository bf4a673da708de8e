package redisstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// trip is the way of some requests of one caller to the server and back.
type trip struct {
	away atomic.Int32  // requests that are not back
	home chan struct{} // something is sent when all are, and received once
}

// trips are kept for others: most are over at once.
var trips = sync.Pool{New: func() any { return &trip{home: make(chan struct{}, 1)} }}

func newTrip(reqs []*request) *trip {
	t := trips.Get().(*trip)
	t.away.Store(int32(len(reqs)))
	for _, r := range reqs {
		r.trip = t
	}
	return t
}

// lookAfter is when somebody looks whether ctx has ended. Most answers are here long
// before, and to be told of the end of a context costs more than to wait for the
// answer: each of those between it and its root registers the next.
const lookAfter = 10 * time.Millisecond

// lookouts are timers to look by.
var lookouts = sync.Pool{New: func() any { return time.NewTimer(time.Hour) }}

// arrives waits until all are home, and reports false if ctx ends first, or has
// ended when they are late.
func (t *trip) arrives(ctx context.Context) bool {
	timer := lookouts.Get().(*time.Timer)
	timer.Reset(lookAfter)
	select {
	case <-t.home:
		timer.Stop()
		lookouts.Put(timer)
		return true
	case <-timer.C:
		lookouts.Put(timer)
	}
	select {
	case <-t.home:
		return true
	case <-ctx.Done():
		return false
	}
}

// landed notes that a request is back.
func (r *request) landed() {
	if r.trip.away.Add(-1) == 0 {
		r.trip.home <- struct{}{} // the last look at it: another may have it next
	}
}

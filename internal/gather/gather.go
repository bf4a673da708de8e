// Package gather has group commit: requests of concurrent callers leave together, as databases gather
// transactions into one write of their log. (D. DeWitt et al., Implementation Techniques for Main Memory
// Database Systems, 1984.) A round trip costs both sides far more than a lock does, and here many
// requests share one.
//
// No request waits for others to join it. A caller sends its own while few others are under way. The
// others gather, and leave together as soon as few enough batches are under way. So a batch is as large
// as the load makes it.
package gather

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// overdue is how long a round trip keeps other requests waiting. After that its connection
	// may hang, and another connection may not.
	overdue = 50 * time.Millisecond
	// mostRoundTrips is how many round trips there may be if they are overdue.
	mostRoundTrips = 32
	// mostTrips is how many batches may be under way at a time: see trips.
	mostTrips = 8
	// nearFor is for how long the fastest round trip counts.
	nearFor = time.Second
)

// Gather collects the requests for one server. Its fields are set before its first use. It is safe for
// concurrent use.
type Gather[T any] struct {
	// Send sends a batch, and returns when all of its requests have their answers. The slice is used
	// again afterwards.
	Send  func(batch []T)
	Go    func(func()) // starts a goroutine
	Most  int          // the largest batch
	Alone int32        // how many callers may send their own requests at a time
	// PerTrip is how long a round trip takes for which one more batch may be under way. It is more than
	// the server needs for a batch.
	PerTrip time.Duration

	alone atomic.Int32 // how many do

	mu        sync.Mutex
	waiting   []T
	underWay  atomic.Int32  // round trips of batches; it changes under mu
	ended     time.Time     // when one ended last
	near      time.Duration // how long the fastest one took, of those since nearSince
	nearSince time.Time
	late      *time.Timer // runs while requests wait and all round trips are under way
}

// trips returns how many batches may be under way at a time. One is best if the server is near:
// it is busy with that one meanwhile, and the next batch is the larger. If the server is far
// away, it is idle for most of a round trip, and requests would wait for nothing. So there may
// be one batch more for each PerTrip that the network takes. What shows that is the fastest round
// trip, because all of them take longer on busy machines. The caller holds mu.
func (g *Gather[T]) trips() int32 { return 1 + int32(min(g.near/g.PerTrip, mostTrips-1)) }

// Enter reports whether the caller should send its request by itself: no batch is under way, and
// fewer than Alone other requests are. If so, the caller must call Leave. Otherwise it costs both
// sides least in the next batch.
func (g *Gather[T]) Enter() bool {
	if g.underWay.Load() != 0 {
		return false
	}
	if g.alone.Add(1) <= g.Alone {
		return true
	}
	g.alone.Add(-1)
	return false
}

// Leave says that the caller's own request has its answer.
func (g *Gather[T]) Leave() { g.alone.Add(-1) }

// Add queues reqs, which are sent as soon as possible.
func (g *Gather[T]) Add(reqs ...T) {
	if len(reqs) == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, reqs...)
	if g.underWay.Load() < g.trips() {
		g.start()
	} else if g.late == nil {
		g.late = time.AfterFunc(overdue, g.extra)
	}
}

// start begins a round trip. The caller holds mu.
func (g *Gather[T]) start() {
	g.underWay.Add(1)
	g.Go(g.sendAll)
}

// extra starts a round trip beyond the usual number, because none has ended for a while.
func (g *Gather[T]) extra() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.late = nil
	if len(g.waiting) == 0 {
		return
	}
	if g.underWay.Load() < mostRoundTrips {
		g.start() // the timer is set again if requests are left
	} else {
		g.late = time.AfterFunc(overdue, g.extra)
	}
}

// sendAll sends batch after batch until no request waits.
func (g *Gather[T]) sendAll() {
	for batch := g.take(nil); len(batch) > 0; {
		began := time.Now()
		g.Send(batch)
		batch = g.next(batch, began)
	}
}

// next is take after a round trip. If there are more round trips than usual and others end in
// time, it ends this one. Otherwise the batches would stay small after an outage.
func (g *Gather[T]) next(last []T, began time.Time) []T {
	g.mu.Lock()
	before := g.ended
	g.ended = time.Now()
	took := g.ended.Sub(began)
	if g.ended.Sub(g.nearSince) > nearFor {
		g.near, g.nearSince = took, g.ended
	}
	g.near = min(g.near, took)
	spare := g.underWay.Load() > g.trips() && g.ended.Sub(before) < overdue
	if spare {
		g.underWay.Add(-1)
	}
	g.mu.Unlock()
	if spare {
		return nil
	}
	return g.take(last)
}

// take returns the next batch, or ends the round trip. It uses the slice of the last batch for
// the requests that come next.
//
// It first lets the callers go on that have just been answered, so that their next requests leave
// with this batch. Otherwise the callers would fall into two groups: each would wait while the
// other's batch is under way, and batches would be half as large.
func (g *Gather[T]) take(last []T) []T {
	runtime.Gosched()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.late != nil {
		g.late.Stop()
		g.late = nil
	}
	n := min(len(g.waiting), g.Most)
	if n == 0 {
		g.underWay.Add(-1)
		return nil
	}
	clear(last[:cap(last)])
	batch := g.waiting[:n]
	g.waiting = append(last[:0], g.waiting[n:]...)
	if len(g.waiting) > 0 {
		g.late = time.AfterFunc(overdue, g.extra)
	}
	return batch
}

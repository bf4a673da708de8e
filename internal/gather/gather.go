// Package gather has group commit: requests of concurrent callers leave together, as databases gather
// transactions into one write of their log. (D. DeWitt et al., Implementation Techniques for Main Memory
// Database Systems, 1984.) A round trip costs both sides far more than a lock does, and here many
// requests share one.
//
// No request waits for others to join it. While there are few, each caller sends its own: to hand a request
// to another goroutine and back costs more than small batches save. While there are many, they gather, and
// leave together as soon as few enough batches are under way. So a batch is as large as the load makes it.
// The batches under way are of about one size: if one had all but a few of the requests, the server and the
// callers would take turns, each idle while the other works.
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
	// fewFor is for how long there must be few requests before callers send their own again. If requests
	// left both ways in turn, that would be slower than either.
	fewFor = 10 * time.Millisecond
)

// Gather collects the requests for one server. Its fields are set before its first use. It is safe for
// concurrent use.
type Gather[T any] struct {
	// Send sends a batch, and returns when all of its requests have their answers. The slice is used
	// again afterwards.
	Send func(batch []T)
	Go   func(func()) // starts a goroutine
	Most int          // the largest batch
	// Alone is how many callers send their own requests at a time. If there are more requests, all of them
	// gather, until there have been few for a while.
	Alone int32
	// Trips is how many batches may be under way if the server is near. With two, it works on one while
	// the callers of the other go on. With one, the batches are larger, so fewer.
	Trips int32
	// PerTrip is how long a round trip takes for which one more batch may be under way. It is more than
	// the server needs for a batch.
	PerTrip time.Duration

	all  atomic.Int32 // requests that wait or are under way
	many atomic.Bool  // they gather

	mu        sync.Mutex
	waiting   []T
	out       int       // requests in batches that are under way
	underWay  int32     // round trips of batches
	ended     time.Time // when one ended last
	peak      int32     // the greatest all since peakSince
	peakSince time.Time
	near      time.Duration // how long the fastest one took, of those since nearSince
	nearSince time.Time
	late      *time.Timer // runs while requests wait and all round trips are under way
}

// trips returns how many batches may be under way at a time. If the server is far away, both sides are
// idle for most of a round trip, and requests would wait for nothing. So there may be one batch more for
// each PerTrip that the network takes. What shows that is the fastest round trip, because all of them
// take longer on busy machines. The caller holds mu.
func (g *Gather[T]) trips() int32 {
	return min(g.Trips+int32(min(g.near/g.PerTrip, mostTrips)), mostTrips)
}

// Enter reports whether the caller should send its request by itself. If so, the caller must call Leave.
// Otherwise the request costs both sides least in the next batch.
func (g *Gather[T]) Enter() bool {
	few := g.Alone
	if g.many.Load() {
		few = 1
	}
	if g.all.Add(1) <= few {
		return true
	}
	g.all.Add(-1)
	g.many.Store(true)
	return false
}

// Leave says that the caller's own request has its answer.
func (g *Gather[T]) Leave() { g.all.Add(-1) }

// Add queues reqs, which are sent as soon as possible.
func (g *Gather[T]) Add(reqs ...T) {
	if len(reqs) == 0 {
		return
	}
	n := g.all.Add(int32(len(reqs)))
	g.mu.Lock()
	defer g.mu.Unlock()
	g.peak = max(g.peak, n)
	g.waiting = append(g.waiting, reqs...)
	if g.underWay < g.trips() {
		g.start()
	} else if g.late == nil {
		g.late = time.AfterFunc(overdue, g.extra)
	}
}

// start begins a round trip. The caller holds mu.
func (g *Gather[T]) start() {
	g.underWay++
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
	if g.underWay < mostRoundTrips {
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
	g.out -= len(last)
	g.all.Add(int32(-len(last)))
	before := g.ended
	g.ended = time.Now()
	g.learn(g.ended.Sub(began))
	spare := g.underWay > g.trips() && g.ended.Sub(before) < overdue
	if spare {
		g.underWay--
	}
	g.mu.Unlock()
	if spare {
		return nil
	}
	return g.take(last)
}

// learn takes into account a round trip that has just ended and how long it took. The caller holds mu.
func (g *Gather[T]) learn(took time.Duration) {
	if took < g.near || g.ended.Sub(g.nearSince) > nearFor {
		g.near, g.nearSince = took, g.ended
	}
	if g.ended.Sub(g.peakSince) > fewFor {
		if g.peak <= g.Alone {
			g.many.Store(false)
		}
		g.peak, g.peakSince = 0, g.ended
	}
}

// take returns the next batch, or ends the round trip. It uses the slice of the last batch for
// the requests that come next.
//
// It first lets the callers go on that have just been answered, so that their next requests leave
// with this batch. Otherwise this round trip would end, and the first of them would begin another by
// itself.
func (g *Gather[T]) take(last []T) []T {
	runtime.Gosched()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.late != nil {
		g.late.Stop()
		g.late = nil
	}
	n := min(len(g.waiting), g.Most, g.share())
	if n == 0 {
		g.underWay--
		return nil
	}
	g.out += n
	clear(last[:cap(last)])
	batch := g.waiting[:n]
	g.waiting = append(last[:0], g.waiting[n:]...)
	switch {
	case len(g.waiting) == 0:
	case g.underWay < g.trips():
		g.start()
	default:
		g.late = time.AfterFunc(overdue, g.extra)
	}
	return batch
}

// share returns how many of the waiting requests the next batch may have. The batches that are under way
// to a server that is near are of about one size. If round trips are overdue, it may have all. The caller
// holds mu.
func (g *Gather[T]) share() int {
	if g.underWay > g.trips() {
		return len(g.waiting)
	}
	parts := int(g.Trips)
	return (len(g.waiting) + g.out + parts - 1) / parts
}

package send

import (
	"sync"
	"sync/atomic"
	"time"
)

// Group commit: requests of concurrent callers leave together, as databases gather transactions
// into one write of their log. (D. DeWitt et al., Implementation Techniques for Main Memory
// Database Systems, 1984.) A round trip costs both sides far more than a lock does, and here
// hundreds of requests share one.
//
// No request waits for others to join it. While few requests are under way, each caller sends
// its own. The others gather, and leave together as soon as few enough batches are under way.
// So a batch is as large as the load makes it.
const (
	// batchSize is the largest batch. The script of such a batch takes well below one or two
	// milliseconds of the server's time, and other clients wait for that time.
	batchSize = 128
	// overdue is how long a round trip keeps other requests waiting. After that its connection
	// may hang, and another connection may not.
	overdue = 50 * time.Millisecond
	// mostRoundTrips is how many round trips there may be if they are overdue.
	mostRoundTrips = 32
)

// batching says which requests leave together. It depends on what a batch costs.
type batching struct {
	few   int32 // up to so many requests under way, each caller sends its own
	trips int   // round trips of batches at a time
	full  int   // a batch of so many leaves although there are as many; 0: none does
}

// gather collects the requests for one server.
type gather struct {
	send func(batch []*Request)
	Go   func(func()) // starts a goroutine
	batching

	all atomic.Int32 // requests under way, sent by either way

	mu       sync.Mutex
	waiting  []*Request
	underWay int         // round trips
	ended    time.Time   // when a round trip ended last
	late     *time.Timer // runs while requests wait and all round trips are under way
}

// enter reports whether the caller should send its request by itself, because few others are
// under way. If so, the caller must call leave.
func (g *gather) enter() bool {
	if g.all.Add(1) <= g.few {
		return true
	}
	g.leave()
	return false
}

func (g *gather) leave() { g.all.Add(-1) }

// add queues reqs, which are sent as soon as possible.
func (g *gather) add(reqs ...*Request) {
	if len(reqs) == 0 {
		return
	}
	g.all.Add(int32(len(reqs)))
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, reqs...)
	if g.underWay < g.trips || g.full > 0 && len(g.waiting) >= g.full && g.underWay < mostRoundTrips {
		g.start()
	} else if g.late == nil {
		g.late = time.AfterFunc(overdue, g.extra)
	}
}

// start begins a round trip. The caller holds mu.
func (g *gather) start() {
	g.underWay++
	g.Go(g.sendAll)
}

// extra starts a round trip beyond the usual number, because none has ended for a while.
func (g *gather) extra() {
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
func (g *gather) sendAll() {
	for batch := g.take(nil); len(batch) > 0; batch = g.next(batch) {
		g.send(batch)
		g.all.Add(-int32(len(batch)))
		for _, r := range batch {
			r.finished()
		}
	}
}

// next is take after a round trip. If there are more round trips than usual and others end in
// time, it ends this one. Otherwise the batches would stay small after an outage.
func (g *gather) next(last []*Request) []*Request {
	g.mu.Lock()
	before := g.ended
	g.ended = time.Now()
	spare := g.underWay > g.trips && g.ended.Sub(before) < overdue
	if spare {
		g.underWay--
	}
	g.mu.Unlock()
	if spare {
		return nil
	}
	return g.take(last)
}

// take returns the next batch, or ends the round trip. It uses the slice of the last batch for
// the requests that come next.
func (g *gather) take(last []*Request) []*Request {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.late != nil {
		g.late.Stop()
		g.late = nil
	}
	n := min(len(g.waiting), batchSize)
	if n == 0 {
		g.underWay--
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

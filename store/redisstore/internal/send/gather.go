package send

import (
	"sync"
	"sync/atomic"
	"time"
)

// Group commit: requests of concurrent callers leave together, as databases gather
// transactions into one write of their log. (D. DeWitt et al., Implementation Techniques
// for Main Memory Database Systems, 1984.) A round trip costs both sides far more than a
// lock does, and here hundreds share one.
//
// Nobody waits for company. While few requests are under way each is sent by its caller.
// The others gather, and leave together as soon as less than [roundTrips] batches are
// under way. So a batch is as large as the load makes it.
const (
	// roundTrips is how many batches are under way at a time: while the server works
	// on one, this side writes and reads the other.
	roundTrips = 2
	// batchSize bounds a batch, so that its script stays well below a
	// millisecond or two of the server's time, which others wait for.
	batchSize = 128
	// overdue is when a round trip that has not ended no longer keeps others
	// waiting: its connection may hang, and another one not.
	overdue = 50 * time.Millisecond
	// mostRoundTrips bounds those that begin for that reason.
	mostRoundTrips = 32
)

// gather is where requests for one server gather.
type gather struct {
	send func(batch []*Request)
	run  func(func()) // starts a goroutine
	few  int32        // requests under way of which each is sent by its caller

	all atomic.Int32 // requests under way, however they are sent

	mu       sync.Mutex
	waiting  []*Request
	underWay int         // round trips
	ended    time.Time   // when a round trip last did
	late     *time.Timer // runs while requests wait and all round trips are under way
}

// enter says that the caller is to send its request by itself, as few others are under
// way. It then owes a leave.
func (g *gather) enter() bool {
	if g.all.Add(1) <= g.few {
		return true
	}
	g.leave()
	return false
}

func (g *gather) leave() { g.all.Add(-1) }

// add has reqs sent as soon as may be.
func (g *gather) add(reqs ...*Request) {
	if len(reqs) == 0 {
		return
	}
	g.all.Add(int32(len(reqs)))
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, reqs...)
	if g.underWay < roundTrips {
		g.start()
	} else if g.late == nil {
		g.late = time.AfterFunc(overdue, g.extra)
	}
}

// start needs mu.
func (g *gather) start() {
	g.underWay++
	g.run(g.sendAll)
}

// extra starts a round trip beyond the usual number, because none has ended for
// a while.
func (g *gather) extra() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.late = nil
	if len(g.waiting) == 0 {
		return
	}
	if g.underWay < mostRoundTrips {
		g.start() // which sets the timer again, if need be
	} else {
		g.late = time.AfterFunc(overdue, g.extra)
	}
}

// sendAll sends batch after batch until nobody waits.
func (g *gather) sendAll() {
	for batch := g.take(nil); len(batch) > 0; batch = g.next(batch) {
		g.send(batch)
		g.all.Add(-int32(len(batch)))
		for _, r := range batch {
			r.finished()
		}
	}
}

// next is take after a round trip. One too many ends as long as others
// end, too: otherwise the batches would stay small after an outage.
func (g *gather) next(last []*Request) []*Request {
	g.mu.Lock()
	before := g.ended
	g.ended = time.Now()
	spare := g.underWay > roundTrips && g.ended.Sub(before) < overdue
	if spare {
		g.underWay--
	}
	g.mu.Unlock()
	if spare {
		return nil
	}
	return g.take(last)
}

// take returns the next batch, or ends the round trip. Where those of the last one
// stood is room for those who come next.
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

package send

import (
	"context"
	"sync"
	"time"

	"github.com/keyturn/keyturn/store/redisstore/internal/script"
)

// Group commit: requests of concurrent callers leave in one script call, as
// databases gather transactions into one write of their log. (D. DeWitt et al.,
// Implementation Techniques for Main Memory Database Systems, 1984.) A round
// trip costs both sides far more than a lock does, and here hundreds share one.
//
// Nobody waits for company. A request that finds less than [roundTrips] under way leaves
// at once; the others gather meanwhile, and leave together when the first has ended. So a
// batch is as large as the load makes it.
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

// gather is where requests gather.
type gather struct {
	send func(batch []*Request)
	run  func(func()) // starts a goroutine

	mu       sync.Mutex
	waiting  []*Request
	underWay int         // round trips
	ended    time.Time   // when a round trip last did
	late     *time.Timer // runs while requests wait and all round trips are under way
}

// add has reqs sent as soon as may be.
func (g *gather) add(reqs ...*Request) {
	if len(reqs) == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, reqs...)
	if g.underWay < roundTrips {
		g.start()
	} else if g.late == nil {
		g.late = time.AfterFunc(overdue, g.extra)
	}
}

// takeIdle has the caller make a round trip by itself if nobody else is under way or
// waits; it then owes a free.
func (g *gather) takeIdle() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.underWay > 0 || len(g.waiting) > 0 {
		return false
	}
	g.underWay++
	return true
}

func (g *gather) free() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = time.Now()
	g.underWay--
	if len(g.waiting) > 0 && g.underWay < roundTrips {
		g.start()
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

// sendBatch runs a batch in one round trip. Then each request has a reply or an
// error of its own.
func (s *Sender) sendBatch(batch []*Request) {
	// Nobody's context: the callers are many, and each may leave for itself. What
	// bounds a round trip is the client's timeouts.
	ctx := context.Background()
	if len(batch) == 1 && !batch[0].IsPlain() {
		s.sendOnce(ctx, batch)
		return
	}
	s.inline.heard("", s.sendTogether(ctx, s.Client, batch))
}

func (s *Sender) sendTogether(ctx context.Context, client script.Processor, batch []*Request) error {
	calls := batch[0].Call.Alone()
	if len(batch) > 1 {
		calls = make([]*script.Call, len(batch))
		for i, r := range batch {
			calls[i] = &r.Call
		}
	}
	return script.RunTogether(ctx, client, s.Names, calls)
}

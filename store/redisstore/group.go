package redisstore

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
// Nobody waits for company. A request that finds a free flight leaves at once;
// the others gather while the flights are under way, and leave together when
// the first is back. So a group is as large as the load makes it.
const (
	// flights is how many groups are under way at a time: while the server works
	// on one, this side writes and reads the other.
	flights = 2
	// groupSize bounds a group, so that its script stays well below a
	// millisecond or two of the server's time, which others wait for.
	groupSize = 128
	// overdue is when a flight that has not come back no longer keeps others on
	// the ground: its connection may hang, and another one not.
	overdue = 50 * time.Millisecond
	// mostFlights bounds those that leave for that reason.
	mostFlights = 32
)

// departures is where requests gather.
type departures struct {
	send func(group []*request)
	run  func(func()) // starts a goroutine

	mu      sync.Mutex
	waiting []*request
	inAir   int
	landing time.Time   // when a flight was last back
	late    *time.Timer // runs while requests wait and all flights are out
}

// leave has r sent as soon as may be.
func (d *departures) leave(reqs ...*request) {
	if len(reqs) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = append(d.waiting, reqs...)
	if d.inAir < flights {
		d.start()
	} else if d.late == nil {
		d.late = time.AfterFunc(overdue, d.extra)
	}
}

// alone has the caller fly for itself if nobody else is under way or waits; it
// then owes a back.
func (d *departures) alone() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inAir > 0 || len(d.waiting) > 0 {
		return false
	}
	d.inAir++
	return true
}

func (d *departures) back() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.landing = time.Now()
	d.inAir--
	if len(d.waiting) > 0 && d.inAir < flights {
		d.start()
	}
}

// start needs mu.
func (d *departures) start() {
	d.inAir++
	d.run(d.fly)
}

// extra starts a flight beyond the usual number, because none has come back for
// a while.
func (d *departures) extra() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.late = nil
	if len(d.waiting) == 0 {
		return
	}
	if d.inAir < mostFlights {
		d.start() // which sets the timer again, if need be
	} else {
		d.late = time.AfterFunc(overdue, d.extra)
	}
}

// fly sends group after group until nobody waits.
func (d *departures) fly() {
	for group := d.board(nil); len(group) > 0; group = d.next(group) {
		d.send(group)
		for _, r := range group {
			r.landed()
		}
	}
}

// next is board for a flight that is back. One too many ends as long as others
// come back, too: else the groups would stay small after an outage.
func (d *departures) next(last []*request) []*request {
	d.mu.Lock()
	before := d.landing
	d.landing = time.Now()
	spare := d.inAir > flights && d.landing.Sub(before) < overdue
	if spare {
		d.inAir--
	}
	d.mu.Unlock()
	if spare {
		return nil
	}
	return d.board(last)
}

// board takes the next group, or ends the flight. Where those of the last one stood
// is room for those who come next.
func (d *departures) board(last []*request) []*request {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.late != nil {
		d.late.Stop()
		d.late = nil
	}
	n := min(len(d.waiting), groupSize)
	if n == 0 {
		d.inAir--
		return nil
	}
	clear(last[:cap(last)])
	group := d.waiting[:n]
	d.waiting = append(last[:0], d.waiting[n:]...)
	if len(d.waiting) > 0 {
		d.late = time.AfterFunc(overdue, d.extra)
	}
	return group
}

// sendGroup runs a group in one round trip. Then each request has a reply or an
// error of its own.
func (s *Store) sendGroup(group []*request) {
	// Nobody's context: the callers are many, and each may leave for itself. What
	// bounds a flight is the client's timeouts.
	ctx := context.Background()
	if len(group) == 1 && !group[0].IsPlain() {
		s.sendOnce(ctx, group)
		return
	}
	s.direct.heard("", s.sendTogether(ctx, s.client, group))
}

func (s *Store) sendTogether(ctx context.Context, client script.Processor, group []*request) error {
	calls := group[0].Alone()
	if len(group) > 1 {
		calls = make([]*script.Call, len(group))
		for i, r := range group {
			calls[i] = &r.Call
		}
	}
	return script.RunTogether(ctx, client, s.keys, calls)
}

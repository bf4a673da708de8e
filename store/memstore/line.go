package memstore

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/phasefair"
)

// waiting has the waiters for a key. Nobody calls the store while the leases of dead holders
// run out. So there is one timer, for the end of the first lease that ends, whatever the number
// of waiters. The zero value has no waiters.
type waiting struct {
	line    queue // requests for exclusive leases and permits, which enter one after the other
	readers queue // shared requests, which enter together
	arrived uint64
	timer   *time.Timer // nil: nobody waits
}

// waiter is a request that waits for one of its claims.
type waiter struct {
	req   inquiry
	claim driver.Claim
	once  bool        // a record serves as well as the lease
	done  chan answer // buffered: an answer needs no reader
	since time.Time

	entry      *entry // nil: it no longer waits
	nr         uint64 // its number in order of arrival at the key
	prev, next *waiter
}

// queue is a list of waiters in order of arrival. A waiter may leave at any place.
type queue struct {
	front, back *waiter
	n           int
}

func (q *queue) push(w *waiter) {
	w.prev = q.back
	if q.back == nil {
		q.front = w
	} else {
		q.back.next = w
	}
	q.back = w
	q.n++
}

func (q *queue) remove(w *waiter) {
	if w.prev == nil {
		q.front = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.back = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
	q.n--
}

func (q *waiting) isAwaited() bool { return q.line.n+q.readers.n > 0 }

func (q *waiting) queue(c driver.Claim) *queue {
	if c.Mode == driver.ModeShared {
		return &q.readers
	}
	return &q.line
}

// enqueue makes w wait for c, which is its claim on the key of e.
func (s *shard) enqueue(e *entry, w *waiter, c driver.Claim, now time.Time) {
	e.arrived++
	w.entry, w.claim, w.nr, w.since = e, c, e.arrived, now
	e.queue(c).push(w)
	if e.timer == nil {
		key := e.key // by then the entry may be another key's
		e.timer = time.AfterFunc(e.soonest.Sub(now), func() { s.expired(key) })
	}
}

// expired is called when a lease on key may be over; it need not be, because a renewal leaves
// the timer as it is. It locks.
func (s *shard) expired(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live(key, time.Now())
}

// wind sets the timer to the end of the first lease that ends.
func (e *entry) wind(now time.Time) {
	if e.timer != nil {
		e.timer.Reset(e.soonest.Sub(now))
	}
}

// serve gives the key to those whose turn it is, if it is anybody's turn. It reports whether
// the entry is still in use.
func (s *shard) serve(e *entry, now time.Time) bool {
	s.reap(e, now)
	if e.isAwaited() {
		s.admitNext(e, now)
		e.wind(now)
	}
	if len(e.holders) == 0 {
		s.close(e)
		return false
	}
	return true
}

// admitNext lets in all whose turn it is.
func (s *shard) admitNext(e *entry, now time.Time) {
	for e.isAwaited() {
		if w := e.line.front; w != nil && e.has(w) {
			s.admit(w, now)
			continue
		}
		turn, phase := e.place().Next()
		switch turn {
		case phasefair.Nobody:
			return
		case phasefair.Reader:
			e.phase = phase
			s.admit(e.readers.front, now)
		case phasefair.Other:
			e.phase = phase
			s.admit(e.line.front, now)
		}
	}
}

// place is w in the order of arrival.
func (w *waiter) place() phasefair.Waiter { return phasefair.Waiter{Claim: w.claim, Arrived: w.nr} }

// has reports whether the owner of w, which asked more than once, has by now what w waits for.
func (e *entry) has(w *waiter) bool {
	return e.phase.Mode == w.claim.Mode && e.find(w.req.Owner) != nil
}

func (s *shard) admit(w *waiter, now time.Time) {
	e := w.entry
	s.remove(w)
	if e.has(w) {
		h := e.find(w.req.Owner)
		e.extend(h, w.req.TTL, now)
		w.done <- answer{grant: granted(w.req, h, now, e.isAwaited())}
		return
	}
	w.done <- s.grant(e, w.req, w.claim, now)
}

// tell gives the record to all in line that accept one.
func (s *shard) tell(e *entry, rec *driver.Record) {
	for w := e.line.front; w != nil; {
		next := w.next
		if w.once {
			s.remove(w)
			w.done <- answer{rec: rec}
		}
		w = next
	}
}

// remove takes w out of its queue. The one behind it may be next: see serve.
func (s *shard) remove(w *waiter) {
	e := w.entry
	e.queue(w.claim).remove(w)
	w.entry = nil
	if !e.isAwaited() {
		e.timer.Stop()
		e.timer = nil
	}
}

// leave takes w out of its queue, unless it has been answered, and returns the error that says
// who holds the key. It locks.
func (s *shard) leave(w *waiter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, now := w.entry, time.Now()
	if e == nil {
		return nil
	}
	s.remove(w)
	held := e.held(now)
	s.serve(e, now)
	return held
}

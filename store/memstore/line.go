package memstore

import (
	"container/list"
	"time"

	"github.com/keyturn/keyturn/core"
)

// line is who waits for a key, in order of arrival; never empty. While a dead
// holder's lease runs out nobody calls, so the line has one timer, for the end
// of the lease that is in the way, whatever its length.
type line struct {
	waiters list.List // of *waiter
	timer   *time.Timer
}

// waiter is a request in line.
type waiter struct {
	req   core.Request
	once  bool // a record will do as well as the lease
	line  *line
	place *list.Element // nil: out of the line
	done  chan answer   // takes one answer without a reader
}

func (s *shard) enqueue(req core.Request, once bool, retry time.Duration) *waiter {
	key := req.Claims[0].Key
	l := s.lines[key]
	if l == nil {
		l = &line{}
		l.timer = time.AfterFunc(retry, func() { s.expired(key, l) })
		s.lines[key] = l
	}
	w := &waiter{req: req, once: once, line: l, done: make(chan answer, 1)}
	w.place = l.waiters.PushBack(w)
	return w
}

// expired is called when the lease on key may be over: a renewal leaves the
// timer as it is, since most renewals have nobody waiting.
func (s *shard) expired(key string, l *line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lines[key] == l {
		s.serve(key, time.Now())
	}
}

// serve gives key to the first in line if nobody has it, and winds the timer
// for those who go on waiting.
func (s *shard) serve(key string, now time.Time) {
	l := s.lines[key]
	if l == nil {
		return
	}
	if !s.leases[key].inForce(now) {
		w := l.waiters.Front().Value.(*waiter)
		s.remove(w)
		w.done <- s.grant(w.req, s.nextToken(now), now)
	}
	if s.lines[key] == l {
		l.timer.Reset(s.leases[key].expires.Sub(now))
	}
}

// tell answers all in line who are content with the record.
func (s *shard) tell(key string, rec *core.Record) {
	l := s.lines[key]
	if l == nil {
		return
	}
	for e := l.waiters.Front(); e != nil; {
		w := e.Value.(*waiter)
		e = e.Next()
		if w.once {
			s.remove(w)
			w.done <- answer{rec: rec}
		}
	}
}

// remove takes w out of its line, and the line away if w was the last.
func (s *shard) remove(w *waiter) {
	w.line.waiters.Remove(w.place)
	w.place = nil
	if w.line.waiters.Len() == 0 {
		w.line.timer.Stop()
		delete(s.lines, w.req.Claims[0].Key)
	}
}

// leave takes w out of its line, unless it has been answered, and says who
// holds the key.
func (s *shard) leave(w *waiter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.place == nil {
		return nil
	}
	s.remove(w)
	key := w.req.Claims[0].Key
	l := s.leases[key]
	return &core.HeldError{Key: key, Holder: l.owner, Trace: l.trace, RetryAfter: max(0, time.Until(l.expires))}
}

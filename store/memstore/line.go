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

func (m *memory) enqueue(req core.Request, once bool, retry time.Duration) *waiter {
	key := req.Claims[0].Key
	l := m.lines[key]
	if l == nil {
		l = &line{}
		l.timer = time.AfterFunc(retry, func() { m.expired(key, l) })
		m.lines[key] = l
	}
	w := &waiter{req: req, once: once, line: l, done: make(chan answer, 1)}
	w.place = l.waiters.PushBack(w)
	return w
}

// expired is called when the lease on key may be over: a renewal leaves the
// timer as it is, since most renewals have nobody waiting.
func (m *memory) expired(key string, l *line) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lines[key] == l {
		m.serve(key, time.Now())
	}
}

// serve gives key to the first in line if nobody has it, and winds the timer
// for those who go on waiting.
func (m *memory) serve(key string, now time.Time) {
	l := m.lines[key]
	if l == nil {
		return
	}
	if !m.leases[key].inForce(now) {
		w := l.waiters.Front().Value.(*waiter)
		m.remove(w)
		w.done <- m.grant(w.req, m.nextToken(now), now)
	}
	if m.lines[key] == l {
		l.timer.Reset(m.leases[key].expires.Sub(now))
	}
}

// tell answers all in line who are content with the record.
func (m *memory) tell(key string, rec *core.Record) {
	l := m.lines[key]
	if l == nil {
		return
	}
	for e := l.waiters.Front(); e != nil; {
		w := e.Value.(*waiter)
		e = e.Next()
		if w.once {
			m.remove(w)
			w.done <- answer{rec: rec}
		}
	}
}

// remove takes w out of its line, and the line away if w was the last.
func (m *memory) remove(w *waiter) {
	w.line.waiters.Remove(w.place)
	w.place = nil
	if w.line.waiters.Len() == 0 {
		w.line.timer.Stop()
		delete(m.lines, w.req.Claims[0].Key)
	}
}

// leave takes w out of its line, unless it has been answered, and says who
// holds the key.
func (m *memory) leave(w *waiter) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.place == nil {
		return nil
	}
	m.remove(w)
	key := w.req.Claims[0].Key
	l := m.leases[key]
	return &core.HeldError{Key: key, Holder: l.owner, RetryAfter: max(0, time.Until(l.expires))}
}

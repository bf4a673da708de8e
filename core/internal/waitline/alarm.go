package waitline

import "time"

// alarm makes the callers of a line give up in time. There is one timer per line. Most callers
// wait for a hand-off, and a timer for each would cost more than a hand-off.
type alarm struct {
	timer    *time.Timer // nil: nobody has waited
	due      time.Time   // when it rings; zero: it is not set
	lastRang time.Time
}

// alarmPause is the least time between two rings. Without it, if the time of thousands ran out
// one after the other, each ring would look at all of them for the sake of one.
const alarmPause = time.Millisecond

// expect makes the alarm ring at that moment, or sooner. It stays set if the caller is
// woken before, because the next caller needs it as well.
func (a *alarm) expect(at time.Time, l *line) {
	if at.IsZero() {
		return
	}
	if earliest := a.lastRang.Add(alarmPause); at.Before(earliest) {
		at = earliest
	}
	if !a.due.IsZero() && !at.Before(a.due) {
		return
	}
	a.due = at
	in := time.Until(at)
	if a.timer == nil {
		s := l.shard // by then l may be another key's line, and the mutex guards l
		a.timer = time.AfterFunc(in, func() { s.ring(l) })
		return
	}
	a.timer.Reset(in)
}

// stop stops the timer of a line that is dropped. A running timer would keep the engine in
// memory.
func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// kept returns the alarm for the next key of its line. It may still ring for this one, which
// does no harm.
func (a *alarm) kept() alarm { return alarm{timer: a.timer, due: a.due} }

// ring makes those in l give up whose time is over.
func (s *shard) ring(l *line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	l.alarm.due, l.alarm.lastRang = time.Time{}, now
	for p := l.queue.first; p != nil; p = p.behind {
		switch {
		case p.ready == nil || p.woken:
		case now.Before(p.until) || p.until.IsZero():
			l.alarm.expect(p.until, l)
		default:
			p.giveUp()
		}
	}
}

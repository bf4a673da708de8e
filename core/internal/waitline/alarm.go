package waitline

import "time"

// alarm has the callers of a line give up in time. There is one timer per line: a timer
// for each waiter would cost more than a hand-off, which is what most of them wait for,
// and would have to be taken back each time.
type alarm struct {
	timer *time.Timer // nil: nobody has waited
	rings time.Time   // when; zero: it does not
	rang  time.Time   // last
}

// alarmRest is how long an alarm rests. Otherwise, in a line of thousands whose time is
// over one after the other, each ring would look at all of them for one.
const alarmRest = time.Millisecond

// expect has the alarm ring at that moment, or sooner. It stays as it is when the caller
// goes on before: the next one needs it as well.
func (a *alarm) expect(at time.Time, l *line) {
	if at.IsZero() {
		return
	}
	if rested := a.rang.Add(alarmRest); at.Before(rested) {
		at = rested
	}
	if !a.rings.IsZero() && !at.Before(a.rings) {
		return
	}
	a.rings = at
	in := time.Until(at)
	if a.timer == nil {
		s := l.shard // l itself may be another key's by then, and is the mutex's
		a.timer = time.AfterFunc(in, func() { s.ring(l) })
		return
	}
	a.timer.Reset(in)
}

// stop is for a line that is done with: its timer would keep the engine in memory.
func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// kept is the alarm for the next key of its line. That it may ring for this one does no
// harm there.
func (a *alarm) kept() alarm { return alarm{timer: a.timer, rings: a.rings} }

// ring has those in l give up whose time is over.
func (s *shard) ring(l *line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	l.alarm.rings, l.alarm.rang = time.Time{}, now
	for p := l.queue.first; p != nil; p = p.behind {
		switch {
		case p.goOn == nil || p.wentOn:
		case now.Before(p.until) || p.until.IsZero():
			l.alarm.expect(p.until, l)
		default:
			p.giveUp()
		}
	}
}

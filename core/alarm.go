package core

import "time"

// The end of a wait in line. Its time, and the engine's closing, are told to the
// waiters by the line: a timer and a registration of its own for each would cost
// more than a hand-off, which is what most of them wait for, and would have to be
// taken back each time.

// await waits until the caller is woken, and reports false when its context has
// ended instead.
func (t *turn) await(p *ticket) bool {
	ctx := t.ctx
	if ctx == &t.bound { // the rest of what ends that is the line's to tell
		ctx = t.bound.parent
	}
	select {
	case <-p.turn:
		return !p.late
	case <-ctx.Done():
		return false
	}
}

// wake has the caller go on. Needs mu.
func (t *ticket) wake() {
	if !t.woken {
		t.woken = true
		close(t.turn)
	}
}

// giveUp tells the caller that it has waited long enough. Needs mu.
func (t *ticket) giveUp() {
	if !t.woken {
		t.late = true
		t.wake()
	}
}

// alarmRest is how long the alarm of a line rests. In a line of thousands whose time
// is over one after the other, each ring would else look at all of them for one.
const alarmRest = time.Millisecond

// expect has t, which waits, give up in time. The alarm is left as it is when t
// goes on before that: the next one needs it as well. Needs mu.
func (l *line) expect(t *ticket) {
	if t.until.IsZero() {
		return
	}
	at := t.until
	if rested := l.rang.Add(alarmRest); at.Before(rested) {
		at = rested
	}
	if !l.rings.IsZero() && !at.Before(l.rings) {
		return
	}
	l.rings = at
	in := time.Until(at)
	if l.alarm == nil {
		lines := l.lines
		l.alarm = time.AfterFunc(in, func() { lines.ring(l) })
		return
	}
	l.alarm.Reset(in)
}

// silence is for a line that is done with: its alarm would keep the engine in memory.
func (l *line) silence() {
	if l.alarm != nil {
		l.alarm.Stop()
	}
}

// ring has those in a line give up whose time is over.
func (ls *lines) ring(l *line) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := time.Now()
	l.rings, l.rang = time.Time{}, now
	for t := l.tickets.first; t != nil; t = t.behind {
		switch {
		case t.turn == nil || t.woken:
		case now.Before(t.until) || t.until.IsZero():
			l.expect(t)
		default:
			t.giveUp()
		}
	}
}

// close sends home who waits, and takes nobody else.
func (ls *lines) close() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.closed = true
	for _, l := range ls.spare {
		l.silence()
	}
	ls.spare = nil
	for _, l := range ls.byKey {
		for t := l.tickets.first; t != nil; t = t.behind {
			if t.turn != nil {
				t.giveUp()
			}
		}
	}
}

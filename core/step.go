package core

// mostTogether is how many callers of one process ask the store for one key at
// the same time, where they share it. More would not be served sooner: the first
// grant lets the next ones ask.
const mostTogether = 64

// step calls forward who may ask the store now. That is always the first in
// line. Next to it may go, in order of arrival, those behind it who share the
// key in the same mode
//
//   - when the store has just granted the key in that mode: most likely they get
//     it too, and need not ask one after the other. Once the store says that one
//     of them has to wait, nobody else is called until the next grant, so that
//     what a long line leaves in the store's queue is bounded;
//   - when all in front of them wait for another of their keys. Else two members
//     of a group would wait for each other, where each only shares the group.
//
// An exclusive request asks alone, and whoever comes after it stays behind it,
// also to share: readers don't keep a writer out by coming one after the other.
func (l *line) step() {
	for l.next != nil && !l.waits() {
		t := l.next
		if l.forward > 0 && !l.joins(t) {
			return
		}
		l.next = t.behind
		l.forward++
		l.here++
		t.called = true
		l.lines.waiting--
		if t.turn != nil {
			t.wake()
		}
	}
}

// joins says whether t may go next to those who are forward already.
func (l *line) joins(t *ticket) bool {
	switch mode := t.claim.Mode; {
	case mode == ModeExclusive, mode != l.tickets.first.claim.Mode:
		return false
	case l.here == 0:
		return true
	default:
		return l.open == mode && l.here < together(t.claim)
	}
}

// together is how many may ask for what c wants at the same time: of permits no
// more than there are.
func together(c Claim) int {
	if c.Mode == ModePermit {
		return min(c.Permits, mostTogether)
	}
	return mostTogether
}

// goElsewhere notes that t, called forward here, waits for another of its keys.
func (t *ticket) goElsewhere() {
	if t.called && !t.elsewhere {
		t.elsewhere = true
		t.line.here--
		t.line.step()
	}
}

// comeBack notes that t, for all that is known, waits for this key.
func (t *ticket) comeBack() {
	if t.elsewhere {
		t.elsewhere = false
		t.line.here++
	}
}

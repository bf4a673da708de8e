package waitline

import "github.com/keyturn/keyturn/core/driver"

// admission says who of a line may ask the store now. That is always the first in line.
// Next to it may go, in order of arrival, those behind it that share the key in the same
// mode
//
//   - when the store has just granted the key in that mode: most likely they get it,
//     too, and need not ask one after the other. Once the store says that one of them has
//     to wait, nobody else is called until the next grant. So a long line leaves a bounded
//     number of requests in the store's queue;
//   - when all in front of them wait for another of their keys. Otherwise two members of
//     a group would deadlock, although each only shares the group.
//
// An exclusive request asks alone, and later requests stay behind it, also shared ones:
// readers do not keep a writer out by coming one after the other.
type admission struct {
	next    *place      // the first that was not called forward yet; nil: all were
	called  int         // how many were
	here    int         // of those: all but the ones that wait for another of their keys
	granted driver.Mode // the store's last word was a grant of this mode; exclusive: it was none to share
}

// mostTogether is how many callers of one process ask the store for one key at the same
// time, if they share it. More would not be served sooner: the first grant lets the next
// ones ask.
const mostTogether = 64

// admits reports whether p, the next, may be called forward while first is in front.
func (a *admission) admits(p, first *place) bool {
	switch mode := p.claim.Mode; {
	case a.called == 0:
		return true
	case mode == driver.ModeExclusive, mode != first.claim.Mode:
		return false
	case a.here == 0:
		return true
	default:
		return a.granted == mode && a.here < together(p.claim)
	}
}

// together is how many may ask for what c wants at the same time: of permits no more
// than there are.
func together(c driver.Claim) int {
	if c.Mode == driver.ModePermit {
		return min(c.Permits, mostTogether)
	}
	return mostTogether
}

// call takes note that p, the next, is called forward.
func (a *admission) call(p *place) {
	a.next = p.behind
	a.called++
	a.here++
	p.called = true
}

// leave takes note that p, which is still in the queue, leaves it.
func (a *admission) leave(p *place) {
	if !p.called {
		if a.next == p {
			a.next = p.behind
		}
		return
	}
	a.called--
	if !p.elsewhere {
		a.here--
	}
}

// goElsewhere takes note that p waits for another of its keys, and reports whether that
// is new.
func (a *admission) goElsewhere(p *place) bool {
	if !p.called || p.elsewhere {
		return false
	}
	p.elsewhere = true
	a.here--
	return true
}

// comeBack takes note that p, for all that is known, waits for this key.
func (a *admission) comeBack(p *place) {
	if p.elsewhere {
		p.elsewhere = false
		a.here++
	}
}

// callForward has those go on that may ask the store now. While a lease goes from caller
// to caller nobody may: the next one waits for a hand-off, but not for longer than the
// streak lasts.
func (l *line) callForward() {
	for l.admission.next != nil {
		p := l.admission.next
		if l.streak.Running() {
			l.expireLater(p.claim.Key)
			return
		}
		if !l.admission.admits(p, l.queue.first) {
			return
		}
		l.admission.call(p)
		if p.goOn != nil {
			l.shard.lines.waiting.Add(-1)
			p.wake()
		}
	}
}

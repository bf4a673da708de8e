package waitline

import "github.com/keyturn/keyturn/core/driver"

// admission says which callers of a line may ask the store now. The first in line always may.
// Callers behind it that want the key in the same shared mode or as permits may join it, in
// order of arrival, in two cases:
//
//   - The store has just granted the key in that mode. Most likely they get it, too, and need
//     not ask one after the other. Once the store says that one of them has to wait, nobody
//     else is called until the next grant. So even a long line leaves a bounded number of
//     requests in the store's queue.
//   - All callers in front of them wait for another of their keys. Otherwise two members of a
//     group would deadlock, although each only shares the group.
//
// An exclusive request asks alone. Later requests stay behind it, including shared ones, so
// that a stream of readers cannot keep a writer out.
type admission struct {
	next    *place      // the first caller that was not called forward yet; nil: all were
	called  int         // number of callers that were called forward
	here    int         // those of them that do not wait for another of their keys
	granted driver.Mode // of the last grant; exclusive if the last answer was no grant that others may share
}

// mostTogether is how many callers of one process may ask the store for one key at the same
// time, if they share it. More would not be served sooner: the first grant calls the next ones.
const mostTogether = 64

// admits reports whether p, the next caller, may be called forward while first is in front.
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

// together is how many callers may ask for c's key at the same time: for permits, no more than
// there are permits.
func together(c driver.Claim) int {
	if c.Mode == driver.ModePermit {
		return min(c.Permits, mostTogether)
	}
	return mostTogether
}

// call notes that p, the next caller, is called forward.
func (a *admission) call(p *place) {
	a.next = p.behind
	a.called++
	a.here++
	p.called = true
}

// leave notes that p leaves. p must still be in the queue.
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

// goElsewhere notes that p waits for another of its keys, and reports whether that is new.
func (a *admission) goElsewhere(p *place) bool {
	if !p.called || p.elsewhere {
		return false
	}
	p.elsewhere = true
	a.here--
	return true
}

// comeBack notes that p waits for this key, as far as anybody knows.
func (a *admission) comeBack(p *place) {
	if p.elsewhere {
		p.elsewhere = false
		a.here++
	}
}

// callForward lets those callers go on that may ask the store now. During a streak of hand-offs
// nobody may: the next caller waits for a hand-off, until the streak's time is over.
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

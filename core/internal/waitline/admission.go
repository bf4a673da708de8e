package waitline

import "github.com/keyturn/keyturn/core/driver"

// admission says which callers of a line may ask the store now. The first in line always may.
// Callers behind it that want the key in the same shared mode or as permits may join it, in
// order of arrival, if the store has just granted the key in that mode, or if all callers in front of
// them wait for another of their keys. See "Shared claims and sets" in the package's comment.
type admission struct {
	next       *place      // the first caller that was not admitted yet; nil: all were
	admitted   int         // number of callers in line that were admitted
	contenders int         // those of them that do not wait for another of their keys
	granted    driver.Mode // of the last grant; exclusive if the last answer was no grant that others may share
}

// mostAtOnce is how many callers of one process may ask the store for one key at the same
// time, if they share it. More would not be served sooner: the first grant admits the next ones.
const mostAtOnce = 64

// admits reports whether p, the next caller, may ask the store while first is in front.
func (a *admission) admits(p, first *place) bool {
	switch mode := p.claim.Mode; {
	case a.admitted == 0:
		return true
	case mode == driver.ModeExclusive, mode != first.claim.Mode:
		return false
	case a.contenders == 0:
		return true
	default:
		return a.granted == mode && a.contenders < capacity(p.claim)
	}
}

// capacity is how many callers may ask for c's key at the same time: for permits, no more than
// there are permits.
func capacity(c driver.Claim) int {
	if c.Mode == driver.ModePermit {
		return min(c.Permits, mostAtOnce)
	}
	return mostAtOnce
}

// admit admits p, the next caller.
func (a *admission) admit(p *place) {
	a.next = p.behind
	a.admitted++
	a.contenders++
	p.admitted = true
}

// leave notes that p leaves. p must still be in the queue.
func (a *admission) leave(p *place) {
	if !p.admitted {
		if a.next == p {
			a.next = p.behind
		}
		return
	}
	a.admitted--
	if !p.waitsElsewhere {
		a.contenders--
	}
}

// markElsewhere notes that p waits for another of its keys, and reports whether that is new.
func (a *admission) markElsewhere(p *place) bool {
	if !p.admitted || p.waitsElsewhere {
		return false
	}
	p.waitsElsewhere = true
	a.contenders--
	return true
}

// markHere notes that p waits for this key, as far as anybody knows.
func (a *admission) markHere(p *place) {
	if p.waitsElsewhere {
		p.waitsElsewhere = false
		a.contenders++
	}
}

// admitNext admits the callers that may ask the store now, and notes it if nobody asks.
func (l *line) admitNext() {
	l.admitAll()
	if l.admission.contenders == 0 {
		l.evidence.nobodyAsks()
	}
}

// admitAll admits the callers that may ask the store now, and wakes them. During a streak of
// hand-offs nobody may: the next caller waits for a hand-off, until the streak's time is over.
func (l *line) admitAll() {
	for l.admission.next != nil {
		p := l.admission.next
		if l.streak.Running() {
			l.expireLater(p.claim.Key)
			return
		}
		if !l.admission.admits(p, l.queue.first) {
			return
		}
		l.admission.admit(p)
		if p.ready != nil {
			l.shard.lines.waiting.Add(-1)
			p.wake()
		}
	}
}

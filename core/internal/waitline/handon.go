package waitline

import (
	"time"

	"github.com/keyturn/keyturn/core/internal/handoff"
)

// HandOn gives g, which its holder no longer needs, to the next in line if
// [handoff.Streak.Decide] says so. It returns that decision.
func (ls *Lines) HandOn(g handoff.Grant) handoff.Decision {
	if !g.Heritable {
		return handoff.Release
	}
	s := ls.shardOf(g.Claims[0].Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.byKey[g.Claims[0].Key]
	if l == nil || l.admission.next == nil {
		return handoff.Release
	}
	p, now := l.admission.next, time.Now()
	decision := l.streak.Decide(g, p.waiter.HeirTTL, now)
	if decision == handoff.HandOn {
		_, p.waiter.Got.From = l.streak.Owner()
		p.waiter.Got.Grant = l.streak.Next(g, p.waiter.Trace)
		l.evidence.handedTo(g.Owner, p.waiter.Trace, now)
		l.remove(p)
		p.wake()
		l.admitNext() // after the last hand-off of a streak the next caller may join the store's queue
	}
	return decision
}

// Awaited reports whether a caller is in the line of key, one that asks the store included.
func (ls *Lines) Awaited(key string) bool {
	s := ls.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.byKey[key]
	return l != nil && l.queue.n > 0
}

// Ended notes that the lease of g has ended and was not handed on. If it was in a streak, the
// streak ends and the next in line asks the store.
func (ls *Lines) Ended(g handoff.Grant) {
	if !g.Heritable {
		return
	}
	key := g.Claims[0].Key
	s := ls.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.byKey[key]
	if l == nil || !l.streak.Holds(g) {
		return
	}
	l.streak.End()
	l.evidence.released()
	l.admitNext()
	s.tidy(key, l)
}

// beginStreak starts a streak with the grant that p's caller got at that moment.
func (l *line) beginStreak(p *place, came time.Time) {
	w := p.waiter
	if from, begun := l.streak.Begin(w.Got.Grant, came, w.Trace, l.queue.n-1); begun {
		l.evidence.handedTo(w.Got.Grant.Owner, w.Trace, from)
	}
}

// expireLater calls the next in line forward when the streak's time is over.
func (l *line) expireLater(key string) {
	if l.streak.Timed() {
		return
	}
	s := l.shard
	owner, _ := l.streak.Owner()
	l.streak.ExpireLater(func() { s.expire(key, owner) })
}

// expire closes the streak of owner, because its time is over.
func (s *shard) expire(key, owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.byKey[key]; l != nil && l.streak.Expire(owner) {
		l.admitNext()
	}
}

package etcdstore

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// step lets those in whose turn it is.
func (t *tx) step(l *lock) {
	// Each costs two operations, and a decision has two steps for each lock.
	most := max(1, 32/len(t.locks))
	if l.record != nil {
		for _, w := range l.members.Waiters() { // they ask, and get the record (L2)
			if w.Once && most > 0 {
				l.remove(w)
				most--
			}
		}
	}
	if most == 0 {
		t.more = true
		return
	}
	p := l.place()
	waiters, step := len(p.Waiters()), p.Step(most)
	for n, m := range step.Granted {
		t.enter(l, m)
		m.Others = n+1 < waiters
	}
	if len(step.Granted) > 0 {
		l.setPhase(step.Phase)
		l.members.Sort()
	}
	t.more = t.more || step.More
}

// attach has another lease of etcd keep m, with set claims of the owner in all.
func (t *tx) attach(m *member, l *lease, set int) {
	m.lease, m.Lease, m.Set = l.id, int64(l.ttl/time.Second), set
	m.attached, m.changed = true, true
	t.names = append(t.names, l)
}

// enter makes m a holder under a token of its own.
func (t *tx) enter(l *lock, m *member) {
	now := time.Now()
	m.Token, m.Reserved = driver.NextTokens(l.Last, now, m.Reserved)
	t.s.compareClocks(l.key, l.Last, now)
	l.Last = m.Token + m.Reserved
	m.Since = now.UnixMicro()
	m.changed, l.decided = true, true
}

// compareClocks logs once that tokens are far ahead of this process's clock.
func (s *Store) compareClocks(key string, last uint64, now time.Time) {
	ahead := time.UnixMicro(int64(last)).Sub(now)
	if ahead > time.Minute && s.ahead.CompareAndSwap(false, true) {
		s.cfg.log.Warn("etcdstore: this machine's clock is behind that of another one, or was set back; tokens follow the clock", "key", key, "by", ahead)
	}
}

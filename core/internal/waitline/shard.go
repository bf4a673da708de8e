package waitline

import (
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/internal/handoff"
)

// shardCount is the number of shards. Callers of different keys then rarely meet on one mutex.
const shardCount = 32

// shard has the lines of some keys.
type shard struct {
	lines *Lines

	mu      sync.Mutex
	byKey   map[string]*line
	sweepAt int // a sweep is due at this number of lines
	pool    []*line
	closed  bool // callers are refused

	_ [64]byte // keeps the next shard's mutex off this one's cache line
}

// line has the callers that want one key. Its shard's mutex guards it.
type line struct {
	shard     *shard
	queue     queue
	admission admission
	alarm     alarm
	evidence  evidence
	streak    handoff.Streak
}

// pooledLines is how many unused lines a shard keeps for other keys.
const pooledLines = 4

// open makes a line for key.
func (s *shard) open(key string) *line {
	s.sweep()
	var l *line
	if n := len(s.pool); n > 0 {
		l, s.pool = s.pool[n-1], s.pool[:n-1]
	} else {
		l = &line{shard: s}
	}
	if s.byKey == nil {
		s.byKey = make(map[string]*line)
	}
	s.byKey[key] = l
	return l
}

// sweepFloor is how many lines a shard may have without a sweep.
const sweepFloor = 32

// sweep removes the empty lines of leases that have been held for too long to be handed on. It
// runs when there are twice as many lines as the last sweep left. So a lease that is held for
// hours costs no line, and sweeping costs a constant amount per lease.
func (s *shard) sweep() {
	if len(s.byKey) < max(s.sweepAt, sweepFloor) {
		return
	}
	now := time.Now()
	for key, l := range s.byKey {
		if l.queue.n == 0 && l.streak.Outlasted(now) {
			l.streak.End()
			s.tidy(key, l)
		}
	}
	s.sweepAt = 2 * len(s.byKey)
}

// tidy removes key's line if nobody needs it.
func (s *shard) tidy(key string, l *line) {
	if l.queue.n > 0 || !l.streak.Idle() {
		return
	}
	delete(s.byKey, key)
	if len(s.pool) < pooledLines && !s.closed {
		*l = line{shard: s, alarm: l.alarm.kept()}
		s.pool = append(s.pool, l)
	} else {
		l.alarm.stop()
	}
}

func (s *shard) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, l := range s.pool {
		l.alarm.stop()
	}
	s.pool = nil
	for _, l := range s.byKey {
		for p := l.queue.first; p != nil; p = p.behind {
			p.giveUp()
		}
	}
}

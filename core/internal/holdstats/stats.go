package holdstats

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Stats are the statistics of one engine. They are safe for concurrent use. The zero value keeps nothing,
// and takes no time of a lease, until somebody asks for the first time.
type Stats struct{ kept atomic.Pointer[stats] }

// Add notes that a lease of rule ("": none) held claims for d, and whether it was released
// then. A lost lease would have been held for longer. Its time does not count for RetryAfter,
// but it counts for the TTL.
func (s *Stats) Add(rule string, claims []driver.Claim, d time.Duration, released bool) {
	if kept := s.kept.Load(); kept != nil {
		kept.add(rule, claims, d, released)
	}
}

// asked returns what is kept from now on.
func (s *Stats) asked() *stats {
	if kept := s.kept.Load(); kept != nil {
		return kept
	}
	s.kept.CompareAndSwap(nil, &stats{seed: maphash.MakeSeed(), byRule: make(map[string]*estimate)})
	return s.kept.Load()
}

// RetryAfter says when a refused caller should come back. It uses the average of
// key's holds or, if there is none, that of the rule's or of all holds. heldFor is how long the
// holder has had the key, and remaining what is left of its lease (0: unknown). key may be
// empty.
//
// A holder that has taken longer than the average is expected to take as long again. That is
// right for holds with a long tail, where this happens most. As long as no lease has ended since the first
// question, the average counts as 0.1 s: what is left of the lease says nothing about a holder that is alive.
func (s *Stats) RetryAfter(rule, key string, heldFor, remaining time.Duration) time.Duration {
	return s.asked().retryAfter(rule, key, heldFor, remaining)
}

// Bounds are the least and the greatest TTL. The zero value means no adaptive TTL.
type Bounds struct{ Floor, Ceiling time.Duration }

// TTL returns three times the duration that 99 % of rule's recent holds did not exceed ("": all
// holds), within bounds. If fewer than 32 holds are known, it returns the ceiling. A lease is
// renewed at a third of its TTL, so the usual lease is released before that.
func (s *Stats) TTL(rule string, within Bounds) time.Duration { return s.asked().ttl(rule, within) }

// stats is what is kept once somebody has asked: an estimate for the engine, one for each rule, and
// an average for each key that callers were refused, with one slot per hash. A refusal takes the slot
// of another key; a hold only fills an empty slot.
//
// The sample of a lease waits in the intake of its key until 16 are there. So one lease in 16
// takes the mutex that all keys share. A question takes in all samples first.
type stats struct {
	seed    maphash.Seed
	_       [64]byte // keeps what all callers read off the first intake's cache line
	intakes [intakeCount]intake

	mu     sync.Mutex
	engine estimate
	byRule map[string]*estimate
	byKey  [mostKeys]slot
}

const (
	mostKeys    = 1024 // keys with an average of their own: 24 KiB per engine
	mostRules   = 256  // rules with an estimate: 64 KiB; further rules share the engine's
	headroom    = 3    // the TTL is this times the usual hold, so that the usual lease needs no renewal
	usual       = 99   // the percentile of holds that counts as usual
	fewestHolds = 32   // a TTL needs this many holds: fewer say nothing about the slowest

	firstGuess    = 100 * time.Millisecond // the average before any lease has ended
	shortestRetry = time.Millisecond       // a caller that comes back sooner finds the holder that it left
)

// estimate has the statistics of one rule, or of the engine.
type estimate struct {
	average
	histogram
}

// slot has the average of one key at a time.
type slot struct {
	key  uint64 // the key's hash; two keys with the same hash share an average, which does no harm
	used bool
	average
}

// average is an exponential moving average: the last sample has a weight of one eighth.
type average struct {
	d time.Duration // 0: unknown
}

func (a *average) add(d time.Duration) {
	if a.d == 0 {
		a.d = max(d, 1)
		return
	}
	a.d = max(a.d+(d-a.d)/8, 1)
}

func (s *stats) add(rule string, claims []driver.Claim, d time.Duration, released bool) {
	x := sample{rule: rule, d: d, released: released}
	if len(claims) == 1 {
		x.key = s.hash(claims[0].Key)
		for in := s.intakeOf(x.key); !in.add(x); {
			s.empty(in)
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.take(x)
	for _, c := range claims {
		if released {
			s.takeKey(s.hash(c.Key), d)
		}
	}
}

// empty adds the samples of an intake to the averages.
func (s *stats) empty(in *intake) {
	if in.n.Load() == 0 {
		return
	}
	samples, n := in.take()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range samples[:n] {
		s.take(x)
		if x.released {
			s.takeKey(x.key, x.d)
		}
	}
}

// take adds a sample for the engine and the rule. The caller holds mu.
func (s *stats) take(x sample) {
	r := s.of(x.rule)
	if r == nil {
		r = &estimate{}
		s.byRule[x.rule] = r
	}
	r.take(x.d, x.released)
	if r != &s.engine {
		s.engine.take(x.d, x.released)
	}
}

// takeKey adds a sample for a key. The caller holds mu.
func (s *stats) takeKey(hash uint64, d time.Duration) {
	p := s.slot(hash)
	if !p.used {
		p.used, p.key = true, hash
	}
	if p.key == hash {
		p.add(d)
	}
}

func (e *estimate) take(d time.Duration, released bool) {
	e.histogram.add(d)
	if released {
		e.average.add(d)
	}
}

// of returns the estimate of a rule. Without a rule, or for a rule without room for an
// estimate, it returns the engine's; nil if nothing is known. Needs mu.
func (s *stats) of(rule string) *estimate {
	if r := s.byRule[rule]; r != nil {
		return r
	}
	if rule == "" || len(s.byRule) >= mostRules {
		return &s.engine
	}
	return nil
}

// slot returns the slot of the key with this hash. Another key may have taken it: compare
// slot.key. Needs mu.
func (s *stats) slot(hash uint64) *slot { return &s.byKey[hash%mostKeys] }

func (s *stats) hash(key string) uint64 { return maphash.String(s.seed, key) }

// emptyAll adds all samples to the averages.
func (s *stats) emptyAll() {
	for i := range s.intakes {
		s.empty(&s.intakes[i])
	}
}

func (s *stats) retryAfter(rule, key string, heldFor, remaining time.Duration) time.Duration {
	s.emptyAll()
	s.mu.Lock()
	defer s.mu.Unlock()
	average := s.engine.d
	if r := s.of(rule); r != nil && r.d != 0 {
		average = r.d
	}
	if key != "" {
		if known := s.refused(s.hash(key)); known != 0 {
			average = known
		}
	}
	if average == 0 { // no lease has ended yet
		average = firstGuess
	}
	average = max(average, heldFor, shortestRetry)
	if remaining <= 0 { // the store does not know it
		return average
	}
	return min(average, remaining)
}

// refused makes a key keep a slot from now on, and returns its average; 0: unknown. Needs mu.
func (s *stats) refused(hash uint64) time.Duration {
	p := s.slot(hash)
	if !p.used || p.key != hash {
		*p = slot{key: hash, used: true}
	}
	return p.d
}

func (s *stats) ttl(rule string, within Bounds) time.Duration {
	s.emptyAll()
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.of(rule)
	if r == nil || r.total < fewestHolds {
		return within.Ceiling
	}
	return min(max(headroom*r.quantile(usual), within.Floor), within.Ceiling)
}

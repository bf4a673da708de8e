package holdstats

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Stats are the statistics of one engine. They are safe for concurrent use. Make them
// with [New].
//
// There is an estimate for the engine and for each rule, and an average for
// each of the keys that callers are refused, in a table of fixed size with one
// place per hash. A refusal takes the place of another key; a hold only fills an empty
// one. So the keys that matter stay, however many others come and go without anybody
// waiting for them.
type Stats struct {
	seed maphash.Seed

	mu     sync.Mutex
	engine estimate
	byRule map[string]*estimate
	byKey  [mostKeys]place
}

const (
	mostKeys    = 1024 // have an average of their own: 24 KiB per engine
	mostRules   = 256  // 64 KiB; further ones share the engine's estimate
	headroom    = 3    // times the usual hold is the TTL, so that the usual lease needs no renewal
	usual       = 99   // percent of the holds are usual
	fewestHolds = 32   // are needed for a TTL: a handful says nothing about the slowest
)

// estimate is for the leases of one rule, or of the engine.
type estimate struct {
	average
	histogram
}

// place is for one key at a time.
type place struct {
	key  uint64 // its hash; two keys of one hash share an estimate, which does no harm
	used bool
	average
}

// average is an exponentially moving one: the last sample weighs an eighth.
type average struct {
	d time.Duration // 0: nothing known
}

func (a *average) add(d time.Duration) {
	if a.d == 0 {
		a.d = max(d, 1)
		return
	}
	a.d = max(a.d+(d-a.d)/8, 1)
}

// New makes statistics without any sample.
func New() *Stats { return &Stats{seed: maphash.MakeSeed(), byRule: make(map[string]*estimate)} }

// Add takes in that claims were held for d by a lease of rule ("": none), and whether
// they were released then. A lease that was lost would have been held for longer: that is
// no measure for when to come back, but it is one for the TTL.
func (s *Stats) Add(rule string, claims []driver.Claim, d time.Duration, released bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.of(rule)
	if r == nil {
		r = &estimate{}
		s.byRule[rule] = r
	}
	r.take(d, released)
	if r != &s.engine {
		s.engine.take(d, released)
	}
	if !released {
		return
	}
	for _, c := range claims {
		p, hash := s.place(c.Key)
		if !p.used {
			p.used, p.key = true, hash
		}
		if p.key == hash {
			p.add(d)
		}
	}
}

func (e *estimate) take(d time.Duration, released bool) {
	e.histogram.add(d)
	if released {
		e.average.add(d)
	}
}

// of is the estimate for a rule: the engine's for no rule, and for those that
// there was no room for; nil if nothing is known. Needs mu.
func (s *Stats) of(rule string) *estimate {
	if r := s.byRule[rule]; r != nil {
		return r
	}
	if rule == "" || len(s.byRule) >= mostRules {
		return &s.engine
	}
	return nil
}

// place is where key's average is, if it has one. Needs mu.
func (s *Stats) place(key string) (*place, uint64) {
	hash := maphash.String(s.seed, key)
	return &s.byKey[hash%mostKeys], hash
}

// RetryAfter combines the average of key's holds, or of those of the rule or of all if
// nothing is known of the key, with what is known of the holder: for how long it has had
// the key, and what is left of its lease (0: not known). Key may be empty. 0: not known.
//
// A holder that has taken longer than the average is no average one: the longer it
// has taken, the longer it is expected to take still. As much again is right where
// holds have a long tail, which is where this happens.
func (s *Stats) RetryAfter(rule, key string, heldFor, remaining time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	average := s.engine.d
	if r := s.of(rule); r != nil && r.d != 0 {
		average = r.d
	}
	if known := s.refused(key); known != 0 {
		average = known
	}
	if average == 0 { // no lease has ended yet
		return max(remaining, 0)
	}
	average = max(average, heldFor)
	if remaining <= 0 { // the store can't say
		return average
	}
	return min(average, remaining)
}

// refused has key keep a place from now on, and returns its average; 0: not known.
// Needs mu.
func (s *Stats) refused(key string) time.Duration {
	if key == "" {
		return 0
	}
	p, hash := s.place(key)
	if !p.used || p.key != hash {
		*p = place{key: hash, used: true}
	}
	return p.d
}

// Bounds are those of a TTL. The zero value is for none.
type Bounds struct{ Floor, Ceiling time.Duration }

// TTL is three times what 99 of 100 leases of rule were held at most in the recent past
// ("": of all), within bounds; the ceiling if fewer than 32 are known. A lease is
// renewed at a third of its TTL, so the usual lease is released before that.
func (s *Stats) TTL(rule string, within Bounds) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.of(rule)
	if r == nil || r.total < fewestHolds {
		return within.Ceiling
	}
	return min(max(headroom*r.quantile(usual), within.Floor), within.Ceiling)
}

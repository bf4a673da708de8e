package memstore

import (
	"sync"
	"time"

	"github.com/keyturn/keyturn/internal/keystate"
)

// shard stands for the server: what it does under its mutex is atomic. Its methods need the
// mutex, except those whose comment says "It locks".
type shard struct {
	mu       sync.Mutex
	entries  map[string]*entry
	records  map[string]*keystate.Record
	versions map[string]keystate.Version
	forced   notes  // notes on leases that were taken away
	last     uint64 // the greatest token of the keys that were forgotten
	sweepAt  int    // a sweep is due at this number of entries, records and versions
	idle     []*entry
	woken    []keystate.Woken // for a step

	_ apart
}

// entry is a key that is held or waited for. Nobody calls the store while the leases of dead holders run
// out. So a key with waiters has a timer, for the end of the first lease that ends.
type entry struct {
	keystate.Key
	shard *shard
	only  [1]*keystate.Key // this one, for a step that is about nothing else
	timer *time.Timer      // nil: nobody waits
	armed time.Time        // when it fires
	inUse bool             // it is in the entries of the shard
}

const (
	// sweepFloor is how much a shard keeps before it sweeps.
	sweepFloor = 64
	// mostIdle is how many unused entries a shard keeps, so that a key that comes and goes costs no
	// allocation.
	mostIdle = 16
)

func (s *shard) init() {
	s.entries = make(map[string]*entry)
	s.records = make(map[string]*keystate.Record)
	s.versions = make(map[string]keystate.Version)
	s.forced.byLease = make(map[lease]note)
	s.sweepAt = sweepFloor
}

// open returns the entry of key. If nobody uses it then, used forgets it.
func (s *shard) open(key string) *entry {
	if e := s.entries[key]; e != nil {
		return e
	}
	var e *entry
	if n := len(s.idle) - 1; n >= 0 {
		e, s.idle = s.idle[n], s.idle[:n]
	} else {
		e = &entry{shard: s}
		e.Ref, e.only[0] = e, &e.Key
	}
	e.Reset(key)
	e.Last, e.Record = s.last, s.records[key]
	s.entries[key], e.inUse = e, true
	return e
}

// used ends a step about e.
func (e *entry) used(now time.Time) {
	if e.Waiting() == 0 && e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
	if e.IsFree() {
		e.close()
		return
	}
	if e.Waiting() > 0 {
		e.wind(now)
	}
	e.shard.sweep(now)
}

// close forgets an entry that nobody holds or waits for.
func (e *entry) close() {
	if !e.inUse {
		return // a grant that nobody made names the key twice
	}
	s := e.shard
	delete(s.entries, e.Name)
	e.inUse = false
	s.last = max(s.last, e.Last)
	if len(s.idle) < mostIdle {
		s.idle = append(s.idle, e)
	}
}

// wind has the timer fire when the first lease ends, or before: after a renewal it fires early, which does
// no harm. Most renewals have nobody waiting.
func (e *entry) wind(now time.Time) {
	soonest := e.Soonest()
	switch {
	case e.timer == nil:
		s, key := e.shard, e.Name // by then the entry may be another key's
		e.timer = time.AfterFunc(soonest.Sub(now), func() { s.expired(key) })
	case soonest.Before(e.armed) || !now.Before(e.armed):
		e.timer.Reset(soonest.Sub(now))
	default:
		return
	}
	e.armed = soonest
}

// expired is called when a lease on key may be over. It locks.
func (s *shard) expired(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[key]; e != nil {
		s.settle(e, time.Now())
		e.used(time.Now())
	}
}

// settle ends what is over and lets in whose turn it is.
func (s *shard) settle(e *entry, now time.Time) {
	st := keystate.State{Now: now, Keys: e.only[:]}
	_ = st.Settle() // it fails only in a store that reads its waiters late
	wake(&st)
}

// sweep drops what has expired. It runs when there is twice as much as the last sweep left, so
// that its cost per new key stays constant. It leaves a key with waiters to its timer.
func (s *shard) sweep(now time.Time) {
	if s.size() < s.sweepAt {
		return
	}
	s.sweepAt = s.size() + 1 // the entries that it closes do not sweep again
	for _, e := range s.entries {
		if e.Waiting() == 0 {
			if s.settle(e, now); e.IsFree() {
				e.close()
			}
		}
	}
	for key, r := range s.records {
		if !now.Before(r.Until) {
			delete(s.records, key)
		}
	}
	for key, v := range s.versions {
		if !now.Before(v.Until) {
			delete(s.versions, key)
		}
	}
	s.forced.sweep(now)
	s.sweepAt = max(sweepFloor, 2*s.size())
}

func (s *shard) size() int { return len(s.entries) + len(s.records) + len(s.versions) }

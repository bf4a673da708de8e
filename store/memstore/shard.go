package memstore

import (
	"slices"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// shard stands for the server: what it does under its mutex is atomic. Its methods need the
// mutex, except those whose comment says "It locks".
type shard struct {
	mem      *memory
	mu       sync.Mutex
	entries  map[string]*entry
	records  map[string]record
	versions map[string]version
	forced   notes // notes on leases that were taken away
	sweepAt  int   // a sweep is due at this number of entries, records and versions

	idleEntries spare[entry]
	idleHolders spare[holder]

	_ apart
}

// answer is the answer to a request: a grant or a record.
type answer struct {
	grant driver.Grant
	rec   *driver.Record // must not be changed
	want  want           // instead of these, the message to the holder
}

// sweepFloor is how much a shard keeps before it sweeps.
const sweepFloor = 64

func (s *shard) init(m *memory) {
	s.mem = m
	s.entries = make(map[string]*entry)
	s.records = make(map[string]record)
	s.versions = make(map[string]version)
	s.sweepAt = sweepFloor
}

// ask answers a request for one claim, or says who holds the key. If the request waits, it then
// has a place in line, and the returned waiter stands for it. It locks.
func (s *shard) ask(req inquiry, once bool) (answer, *waiter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, now := req.Claims[0], time.Now()
	if once {
		if r, ok := s.records[c.Key]; ok && r.inForce(now) {
			return answer{rec: &r.Record}, nil, nil
		}
	}
	e := s.live(c.Key, now)
	if e == nil {
		return s.grant(s.open(c.Key, now), req, c, now), nil, nil
	}
	if h := e.find(req.Owner); h != nil {
		if err := e.sameMode(c); err != nil {
			return answer{}, nil, err
		}
		e.extend(h, req.TTL, now)
		return answer{grant: granted(req, h, now, e.isAwaited())}, nil, nil
	}
	if e.place().Admits(c) {
		return s.grant(e, req, c, now), nil, nil
	}
	held := e.held(now)
	held.Ahead = e.line.n + e.readers.n
	if !req.Wait {
		return answer{want: e.want()}, nil, held
	}
	w := &waiter{req: req, once: once, done: make(chan answer, 1)}
	s.enqueue(e, w, c, now)
	return answer{want: e.want()}, w, held
}

// live returns the entry of key as of now; nil if nobody holds it or waits. The timer of a line
// may be late, so live first serves the line: a request that comes now is behind it.
func (s *shard) live(key string, now time.Time) *entry {
	if e := s.entries[key]; e != nil && s.serve(e, now) {
		return e
	}
	return nil
}

// open makes an entry. Its caller makes somebody hold the key at once.
func (s *shard) open(key string, now time.Time) *entry {
	s.sweep(now)
	e := s.idleEntries.take()
	e.key = key
	s.entries[key] = e
	return e
}

// close forgets an entry that nobody holds or waits for.
func (s *shard) close(e *entry) {
	delete(s.entries, e.key)
	kept := e.holders[:0]
	if cap(kept) > few {
		kept = nil
	}
	*e = entry{holders: kept}
	s.idleEntries.give(e)
}

// grant makes the owner of req a holder of the key of c.
func (s *shard) grant(e *entry, req inquiry, c driver.Claim, now time.Time) answer {
	token, reserved := s.mem.take(now, req.HandOffs)
	h := s.hold(e, req, c, token, now)
	h.reserved = reserved
	return answer{grant: granted(req, h, now, e.isAwaited())}
}

func (s *shard) hold(e *entry, req inquiry, c driver.Claim, token uint64, now time.Time) *holder {
	if len(s.forced.byLease) > 0 {
		delete(s.forced.byLease, lease{c.Key, req.Owner}) // the owner asks again, so the note is obsolete
	}
	h := s.idleHolders.take()
	*h = holder{
		owner: req.Owner, rule: req.Rule, trace: req.Trace, token: token,
		since: now, expires: now.Add(req.TTL), ttl: req.TTL, partial: len(req.Claims) > 1, wanted: req.wanted,
	}
	e.add(h, c.Mode)
	return h
}

func granted(req inquiry, h *holder, now time.Time, contended bool) driver.Grant {
	return driver.Grant{
		Owner: req.Owner, Claims: req.Claims, TTL: req.TTL, Token: h.token, HandOffs: h.reserved, Lingers: h.wanted != nil, Since: now, Contended: contended,
	}
}

// drop ends a lease and admits those whose turn it is.
func (s *shard) drop(e *entry, h *holder, now time.Time) {
	e.remove(h)
	s.forget(h)
	s.serve(e, now)
}

func (s *shard) forget(h *holder) {
	*h = holder{}
	s.idleHolders.give(h)
}

// reap drops the holders of e whose time is over.
func (s *shard) reap(e *entry, now time.Time) {
	if len(e.holders) == 0 || now.Before(e.soonest) {
		return
	}
	e.holders = slices.DeleteFunc(e.holders, func(h *holder) bool {
		if now.Before(h.expires) {
			return false
		}
		delete(e.index, h.owner)
		s.forget(h)
		return true
	})
	for i, h := range e.holders {
		if i == 0 || h.expires.Before(e.soonest) {
			e.soonest = h.expires
		}
	}
}

// sweep drops what has expired. It runs when there is twice as much as the last sweep left, so
// that its cost per new key stays constant. It leaves a key with waiters to its timer.
func (s *shard) sweep(now time.Time) {
	if s.size() < s.sweepAt {
		return
	}
	for _, e := range s.entries {
		if !e.isAwaited() {
			s.serve(e, now)
		}
	}
	for key, r := range s.records {
		if !r.inForce(now) {
			delete(s.records, key)
		}
	}
	for key, v := range s.versions {
		if v.at(now) == 0 {
			delete(s.versions, key)
		}
	}
	s.forced.sweep(now)
	s.sweepAt = max(sweepFloor, 2*s.size())
}

func (s *shard) size() int { return len(s.entries) + len(s.records) + len(s.versions) }

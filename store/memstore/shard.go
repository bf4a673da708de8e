package memstore

import (
	"sync"
	"time"

	"github.com/keyturn/keyturn/core"
)

// shard stands for the server: its methods are the commands, its mutex makes
// each of them atomic.
type shard struct {
	mu      sync.Mutex
	leases  map[string]lease
	lines   map[string]*line // of keys that are waited for
	records map[string]record
	last    uint64 // the greatest token given so far
	sweepAt int    // number of leases and records that calls for a sweep
}

// lease is who has a key. It is in force until it expires, and stays in the map
// after that until the key is wanted again or a sweep finds it.
type lease struct {
	owner   string
	token   uint64
	trace   string
	expires time.Time
}

func (l lease) inForce(now time.Time) bool { return now.Before(l.expires) }

// answer is what a request gets: a grant or a record.
type answer struct {
	grant core.Grant
	rec   *core.Record // not to be changed
}

// sweepFloor is how much a shard keeps without a sweep.
const sweepFloor = 64

func (s *shard) init() {
	s.leases = make(map[string]lease)
	s.lines = make(map[string]*line)
	s.records = make(map[string]record)
	s.sweepAt = sweepFloor
}

// ask answers a request, or says who holds the key. If the request is to wait
// it then has a place in line, which the waiter stands for.
func (s *shard) ask(req core.Request, once bool) (answer, *waiter, *core.HeldError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, now := req.Claims[0].Key, time.Now()
	if once {
		if r, ok := s.records[key]; ok && r.inForce(now) {
			return answer{rec: &r.Record}, nil, nil
		}
	}
	// The timer of a line may be late; whoever comes now is behind the line.
	s.serve(key, now)
	l, ok := s.leases[key]
	switch {
	case !ok || !l.inForce(now):
		if !ok {
			s.sweep(now)
		}
		return s.grant(req, s.nextToken(now), now), nil, nil
	case l.owner == req.Owner:
		return s.grant(req, l.token, now), nil, nil
	}
	held := &core.HeldError{Key: key, Holder: l.owner, Trace: l.trace, RetryAfter: l.expires.Sub(now)}
	if line := s.lines[key]; line != nil {
		held.Ahead = line.waiters.Len()
	}
	if !req.Wait {
		return answer{}, nil, held
	}
	return answer{}, s.enqueue(req, once, l.expires.Sub(now)), held
}

func (s *shard) grant(req core.Request, token uint64, now time.Time) answer {
	s.leases[req.Claims[0].Key] = lease{owner: req.Owner, token: token, trace: req.Trace, expires: now.Add(req.TTL)}
	return answer{grant: core.Grant{Owner: req.Owner, Claims: req.Claims, TTL: req.TTL, Token: token, Since: now}}
}

// nextToken rises with the clock, as a store's does that can lose its data, so
// that tokens of an earlier process are behind those of this one.
func (s *shard) nextToken(now time.Time) uint64 {
	s.last = max(s.last+1, uint64(now.UnixMicro()))
	return s.last
}

func (s *shard) renew(g core.Grant, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, l, ok := s.owned(g, now)
	if !ok {
		return lost(g, key)
	}
	l.expires = now.Add(g.TTL)
	s.leases[key] = l
	return nil
}

func (s *shard) release(g core.Grant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	key, _, ok := s.owned(g, now)
	if !ok {
		return lost(g, key)
	}
	delete(s.leases, key)
	s.serve(key, now)
	return nil
}

// owned returns g's key, and the lease on it if that is still g's.
func (s *shard) owned(g core.Grant, now time.Time) (string, lease, bool) {
	if len(g.Claims) != 1 {
		return "", lease{}, false // never granted here
	}
	key := g.Claims[0].Key
	l := s.leases[key]
	return key, l, l.owner == g.Owner && l.inForce(now)
}

func lost(g core.Grant, key string) error {
	return &core.LeaseLostError{Key: key, Token: g.Token, Reason: core.LossTaken}
}

// sweep drops what has expired once there is twice as much as was left by the
// last sweep, so that its cost per new key stays constant.
func (s *shard) sweep(now time.Time) {
	if len(s.leases)+len(s.records) < s.sweepAt {
		return
	}
	for key, l := range s.leases {
		if !l.inForce(now) {
			delete(s.leases, key)
		}
	}
	for key, r := range s.records {
		if !r.inForce(now) {
			delete(s.records, key)
		}
	}
	s.sweepAt = max(sweepFloor, 2*(len(s.leases)+len(s.records)))
}

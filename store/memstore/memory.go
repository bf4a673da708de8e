package memstore

import (
	"sync"
	"time"

	"github.com/keyturn/keyturn/core"
)

// memory is what the stores of one family share. It stands for the server: its
// methods are the commands, its mutex makes each of them atomic.
type memory struct {
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
	expires time.Time
}

func (l lease) inForce(now time.Time) bool { return now.Before(l.expires) }

// answer is what a request gets: a grant or a record.
type answer struct {
	grant core.Grant
	rec   *core.Record // not to be changed
}

const sweepFloor = 1024

func newMemory() *memory {
	return &memory{
		leases:  make(map[string]lease),
		lines:   make(map[string]*line),
		records: make(map[string]record),
		sweepAt: sweepFloor,
	}
}

// ask answers a request, or says who holds the key. If the request is to wait
// it then has a place in line, which the waiter stands for.
func (m *memory) ask(req core.Request, once bool) (answer, *waiter, *core.HeldError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key, now := req.Claims[0].Key, time.Now()
	if once {
		if r, ok := m.records[key]; ok && r.inForce(now) {
			return answer{rec: &r.Record}, nil, nil
		}
	}
	// The timer of a line may be late; whoever comes now is behind the line.
	m.serve(key, now)
	l, ok := m.leases[key]
	switch {
	case !ok || !l.inForce(now):
		if !ok {
			m.sweep(now)
		}
		return m.grant(req, m.nextToken(now), now), nil, nil
	case l.owner == req.Owner:
		return m.grant(req, l.token, now), nil, nil
	}
	held := &core.HeldError{Key: key, Holder: l.owner, RetryAfter: l.expires.Sub(now)}
	if !req.Wait {
		return answer{}, nil, held
	}
	return answer{}, m.enqueue(req, once, l.expires.Sub(now)), held
}

func (m *memory) grant(req core.Request, token uint64, now time.Time) answer {
	m.leases[req.Claims[0].Key] = lease{owner: req.Owner, token: token, expires: now.Add(req.TTL)}
	return answer{grant: core.Grant{Owner: req.Owner, Claims: req.Claims, TTL: req.TTL, Token: token, Since: now}}
}

// nextToken rises with the clock, as a store's does that can lose its data, so
// that tokens of an earlier process are behind those of this one.
func (m *memory) nextToken(now time.Time) uint64 {
	m.last = max(m.last+1, uint64(now.UnixMicro()))
	return m.last
}

func (m *memory) renew(grants []core.Grant) []error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	errs := make([]error, len(grants))
	for i, g := range grants {
		key, l, ok := m.owned(g, now)
		if !ok {
			errs[i] = lost(g, key)
			continue
		}
		l.expires = now.Add(g.TTL)
		m.leases[key] = l
	}
	return errs
}

func (m *memory) release(g core.Grant) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	key, _, ok := m.owned(g, now)
	if !ok {
		return lost(g, key)
	}
	delete(m.leases, key)
	m.serve(key, now)
	return nil
}

// owned returns g's key, and the lease on it if that is still g's.
func (m *memory) owned(g core.Grant, now time.Time) (string, lease, bool) {
	if len(g.Claims) != 1 {
		return "", lease{}, false // never granted here
	}
	key := g.Claims[0].Key
	l := m.leases[key]
	return key, l, l.owner == g.Owner && l.inForce(now)
}

func lost(g core.Grant, key string) error {
	return &core.LeaseLostError{Key: key, Token: g.Token, Reason: core.LossTaken}
}

// sweep drops what has expired once there is twice as much as was left by the
// last sweep, so that its cost per new key stays constant.
func (m *memory) sweep(now time.Time) {
	if len(m.leases)+len(m.records) < m.sweepAt {
		return
	}
	for key, l := range m.leases {
		if !l.inForce(now) {
			delete(m.leases, key)
		}
	}
	for key, r := range m.records {
		if !r.inForce(now) {
			delete(m.records, key)
		}
	}
	m.sweepAt = max(sweepFloor, 2*(len(m.leases)+len(m.records)))
}

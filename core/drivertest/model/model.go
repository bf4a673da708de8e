package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// backend is everything that a backend should know.
type backend struct {
	Latitude

	now      time.Duration
	grants   int // number of grants so far; tokens are in this order
	locks    map[string]*lock
	records  map[string]record
	versions map[string]version
	requests map[string]*request // by owner: its present or last request
	told     map[string]told     // by owner: whether its process is told that its lease is wanted
	answers  []expected          // of the last operation, unless it was a request
}

// Latitude is what the contract leaves to a backend. The zero value is the strictest one.
type Latitude struct {
	// Blurred: the backend forgets expired leases by itself. It may not know the mode of the
	// lease that ran out last, and may then treat it as an exclusive one.
	Blurred bool
	// SeparateClaims: the backend keeps its keys in several places and renews each claim of a set
	// separately. The remaining claims of a lost set then get another TTL as well.
	SeparateClaims bool
}

// lock is the state of a key.
type lock struct {
	phase   driver.Mode // the mode of the holders, or of the last ones
	holders []lease
	queue   []ticket // in order of arrival, whatever mode they want
	forced  map[string]string
}

// lease is one claim that an owner holds.
type lease struct {
	owner   string
	ends    time.Duration
	ttl     time.Duration // that the owner asked for last
	partial bool          // of a set that waits for the rest, which keeps it alive
	lingers bool          // its engine may keep it after its release
}

type ticket struct {
	owner string
	claim driver.Claim
}

type record struct {
	owner   string
	size    int
	notKept bool // the result
	ends    time.Duration
}

func (r record) String() string {
	if r.notKept {
		return "a record without its result"
	}
	return fmt.Sprintf("a record of %d bytes", r.size)
}

type version struct {
	n    uint64
	ends time.Duration
}

// request is one acquisition, from the question to its answer.
type request struct {
	claims []driver.Claim
	ttl    time.Duration
	once   bool
	at     int  // the claim it waits for
	ready  bool // it was admitted there, and goes on to the next claim
	answer expected
}

// newBackend returns the model of an empty backend.
func newBackend(l Latitude) *backend {
	return &backend{
		Latitude: l, locks: map[string]*lock{}, records: map[string]record{}, versions: map[string]version{}, requests: map[string]*request{},
		told: map[string]told{},
	}
}

func (m *backend) clone() *backend {
	n := *m
	n.answers, n.told = slices.Clone(m.answers), maps.Clone(m.told)
	n.locks, n.records, n.versions, n.requests = map[string]*lock{}, maps.Clone(m.records), maps.Clone(m.versions), map[string]*request{}
	for key, k := range m.locks {
		n.locks[key] = &lock{k.phase, slices.Clone(k.holders), slices.Clone(k.queue), maps.Clone(k.forced)}
	}
	for owner, r := range m.requests {
		r := *r
		n.requests[owner] = &r
	}
	return &n
}

// String describes the whole state, so equal strings mean equal models.
func (m *backend) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "at %v, %d grants, %v\n", m.now, m.grants, m.answers)
	for _, key := range slices.Sorted(maps.Keys(m.locks)) {
		fmt.Fprintf(&b, "%s %+v\n", key, *m.locks[key])
	}
	fmt.Fprintf(&b, "%+v %+v %v\n", m.records, m.versions, m.told)
	for _, owner := range slices.Sorted(maps.Keys(m.requests)) {
		fmt.Fprintf(&b, "%s %+v\n", owner, *m.requests[owner])
	}
	return b.String()
}

func (m *backend) say(a expected) { m.answers = append(m.answers, a) }

func (m *backend) at(key string) *lock {
	k := m.locks[key]
	if k == nil {
		k = &lock{forced: map[string]string{}}
		m.locks[key] = k
	}
	return k
}

// lease returns owner's lease, or nil.
func (k *lock) lease(owner string) *lease {
	for i := range k.holders {
		if k.holders[i].owner == owner {
			return &k.holders[i]
		}
	}
	return nil
}

// admits reports whether a request that comes now is granted (A6, M2).
func (k *lock) admits(c driver.Claim) bool {
	return len(k.queue) == 0 && Fits(k.phase, len(k.holders), c)
}

// enter makes owner a holder of c's key.
func (m *backend) enter(owner string, c driver.Claim) {
	k := m.at(c.Key)
	k.queue = slices.DeleteFunc(k.queue, func(t ticket) bool { return t.owner == owner })
	k.phase = c.Mode
	k.holders = append(k.holders, lease{owner: owner, partial: true})
}

// admit admits the waiters whose turn it is.
func (m *backend) admit(key string) {
	k := m.at(key)
	for {
		var claims []driver.Claim
		for _, t := range k.queue {
			claims = append(claims, t.claim)
		}
		var in []ticket
		for _, i := range Next(k.phase, len(k.holders), claims) {
			in = append(in, k.queue[i])
		}
		if len(in) == 0 {
			return
		}
		m.callIn(in)
	}
}

func (m *backend) callIn(in []ticket) {
	for _, t := range in {
		m.enter(t.owner, t.claim)
		if r := m.requests[t.owner]; len(r.claims) == 1 {
			m.grant(t.owner, r)
		} else {
			r.ready = true
		}
	}
}

// leave ends owner's lease, if it has one, and admits the waiters whose turn it is.
func (m *backend) leave(owner, key string) {
	k := m.at(key)
	k.holders = slices.DeleteFunc(k.holders, func(l lease) bool { return l.owner == owner })
	m.admit(key)
}

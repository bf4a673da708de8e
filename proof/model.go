package proof

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Model is everything that a backend should know: who holds each key, who waits for it, and
// what was executed. It is sequential and looks at everything each time. To check it, read it
// beside the sentences of [driver.Store] that the comments name.
//
// Where the contract leaves a choice, the model has more than one successor: see [Model.Do].
// The zero value is not ready; see [NewModel].
type Model struct {
	// Blurred: the backend forgets expired leases by itself. It may not know the mode of the
	// lease that ran out last, and may then treat it as an exclusive one.
	Blurred bool
	// Apart: the backend keeps its keys in several places and renews each claim of a set
	// separately. The remaining claims of a lost set then get another TTL as well.
	Apart bool

	now      time.Duration
	grants   int // number of grants so far; tokens are in this order
	locks    map[string]*lock
	records  map[string]record
	requests map[string]*request // by owner: its present or last request
	answers  []Answer            // of the last operation, unless it was a request
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
	partial bool // of a set that waits for the rest, and keeps this one alive
}

type ticket struct {
	owner string
	claim driver.Claim
}

type record struct {
	owner string
	size  int
	ends  time.Duration
}

// request is one acquisition, from the question to its answer.
type request struct {
	claims []driver.Claim
	ttl    time.Duration
	once   bool
	at     int  // the claim it waits for
	ready  bool // it was admitted there, and goes on to the next claim
	answer Answer
}

// NewModel returns the model of an empty backend.
func NewModel() *Model {
	return &Model{locks: map[string]*lock{}, records: map[string]record{}, requests: map[string]*request{}}
}

func (m *Model) clone() *Model {
	n := *m
	n.answers = slices.Clone(m.answers)
	n.locks, n.records, n.requests = map[string]*lock{}, maps.Clone(m.records), map[string]*request{}
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
func (m *Model) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "at %v, %d grants, %v\n", m.now, m.grants, m.answers)
	for _, key := range slices.Sorted(maps.Keys(m.locks)) {
		fmt.Fprintf(&b, "%s %+v\n", key, *m.locks[key])
	}
	fmt.Fprintf(&b, "%+v\n", m.records)
	for _, owner := range slices.Sorted(maps.Keys(m.requests)) {
		fmt.Fprintf(&b, "%s %+v\n", owner, *m.requests[owner])
	}
	return b.String()
}

func (m *Model) say(a Answer) { m.answers = append(m.answers, a) }

func (m *Model) at(key string) *lock {
	k := m.locks[key]
	if k == nil {
		k = &lock{forced: map[string]string{}}
		m.locks[key] = k
	}
	return k
}

// lease is owner's, or nil.
func (k *lock) lease(owner string) *lease {
	for i := range k.holders {
		if k.holders[i].owner == owner {
			return &k.holders[i]
		}
	}
	return nil
}

// fits reports whether there is room for a lease of c's mode (M1, M6).
func (k *lock) fits(c driver.Claim) bool {
	switch {
	case len(k.holders) == 0:
		return true
	case c.Mode != k.phase || c.Mode == driver.ModeExclusive:
		return false
	default:
		return c.Mode == driver.ModeShared || len(k.holders) < c.Permits
	}
}

// admits reports whether a request that comes now is granted (A6, M2).
func (k *lock) admits(c driver.Claim) bool { return len(k.queue) == 0 && k.fits(c) }

// next returns the waiters whose turn it is; usually none.
func (k *lock) next() []ticket {
	shared := func(t ticket) bool { return t.claim.Mode == driver.ModeShared }
	readers := slices.DeleteFunc(slices.Clone(k.queue), func(t ticket) bool { return !shared(t) })
	line := slices.DeleteFunc(slices.Clone(k.queue), shared)
	switch {
	case len(k.queue) == 0:
		return nil
	case len(line) == 0 && k.fits(readers[0].claim):
		return readers
	case len(k.holders) == 0 && k.phase != driver.ModeShared && len(readers) > 0:
		return readers // M3: after an exclusive lease or the last permit come all readers,
	case len(k.holders) == 0:
		return line[:1] // and after readers the first of the others
	case k.phase == driver.ModePermit && len(line) > 0 && k.fits(line[0].claim) && k.queue[0] == line[0]:
		return line[:1] // M6, unless a reader came first: it would wait for ever
	}
	return nil
}

// enter makes owner a holder of c's key.
func (m *Model) enter(owner string, c driver.Claim) {
	k := m.at(c.Key)
	k.queue = slices.DeleteFunc(k.queue, func(t ticket) bool { return t.owner == owner })
	k.phase = c.Mode
	k.holders = append(k.holders, lease{owner: owner, partial: true})
}

// admit admits the waiters whose turn it is.
func (m *Model) admit(key string) {
	k := m.at(key)
	for in := k.next(); len(in) > 0; in = k.next() {
		m.callIn(in)
	}
}

func (m *Model) callIn(in []ticket) {
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
func (m *Model) leave(owner, key string) {
	k := m.at(key)
	k.holders = slices.DeleteFunc(k.holders, func(l lease) bool { return l.owner == owner })
	m.admit(key)
}

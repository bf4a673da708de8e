package drivertest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest/model"
)

// A backend behind a network, and the stores that use it: small, slow and right, unless it is
// told to have a defect. Whose turn it is, package model says. The suite must pass it as
// it is, and reject it with each defect. This file has who is let in; the others
// have what else the backend answers, and the stores.

const (
	latency     = 2 * time.Millisecond  // of a message, one way
	pollEvery   = 23 * time.Millisecond // how often a waiter asks
	waiterLease = 99 * time.Millisecond // silence after which a waiter is dead
	leaveWithin = 100 * time.Millisecond
)

// backend is the server.
type backend struct {
	defect string
	silent atomic.Bool

	mu       sync.Mutex
	keys     map[string]*state
	records  map[string]finished
	versions map[string]known
	last     uint64
}

// state is that of a key.
type state struct {
	holders  []*holding
	queue    []*ticket         // in order of arrival, readers too
	phase    driver.Mode       // of the holders, or of the last there were
	forced   map[string]string // owner to the reason
	releases int
}

type holding struct {
	owner, rule, trace string
	claim              driver.Claim
	token, reserved    uint64
	since, expires     time.Time
	ttl                time.Duration // that the owner asked for last
	of                 int           // claims of the request
	released           bool          // by its owner; it stays for a while
	by                 *process      // that is told when somebody wants it; nil: it does not linger
	whole              bool          // not the part of a set that still waits for the rest
}

type ticket struct {
	p           *process
	req         driver.Request
	claim       driver.Claim
	since, seen time.Time
}

// haunt has the ticket stay, and take the key when its turn comes.
func (t *ticket) haunt() {
	t.seen = time.Now().Add(time.Hour)
	t.req.TTL = time.Hour
}

func newBackend(defect string) *backend {
	b := &backend{defect: defect}
	b.lose()
	return b
}

// lose is a restart without the data.
func (b *backend) lose() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keys, b.records, b.versions, b.last = make(map[string]*state), make(map[string]finished), make(map[string]known), 0
}

func (b *backend) has(defect string) bool { return b.defect == defect }

// harness breaks the backend in every way there is.
func (b *backend) harness() Harness {
	return Harness{
		New: func(testing.TB) driver.Store {
			p := &process{backend: b}
			p.closed, p.stop = context.WithCancel(context.Background())
			p.counter.Store(uint64(time.Now().UnixMicro()))
			return p
		},
		TTL:   200 * time.Millisecond,
		Early: time.Millisecond,
		Late:  200 * time.Millisecond,

		programs: mostPrograms,

		Restart: func(testing.TB) { b.lose() },
		Pause:   func(testing.TB) { b.silent.Store(true) },
		Resume:  func(testing.TB) { b.silent.Store(false) },
		Cut:     func(_ testing.TB, st driver.Store) { st.(*process).isCut() },
		Heal:    func(_ testing.TB, st driver.Store) { st.(*process).cut.Store(false) },
	}
}

// at returns the state of key as it is now, without the dead.
func (b *backend) at(key string) *state {
	if b.has("keys are trimmed") {
		key = strings.TrimSpace(key)
	}
	e := b.keys[key]
	if e == nil {
		e = &state{forced: make(map[string]string)}
		b.keys[key] = e
	}
	now := time.Now()
	over := func(h *holding) bool { return !now.Before(h.expires) }
	switch {
	case b.has("leases never end"):
	case b.has("permits of the dead count") && e.phase == driver.ModePermit:
	case b.has("one reader's end is that of all") && slices.ContainsFunc(e.holders, over):
		e.holders = nil
	default:
		e.holders = slices.DeleteFunc(e.holders, over)
	}
	if !b.has("dead waiters stay") {
		e.queue = slices.DeleteFunc(e.queue, func(t *ticket) bool { return now.Sub(t.seen) > waiterLease })
	}
	return e
}

func (e *state) holder(owner string) *holding {
	return first(e.holders, func(h *holding) bool { return h.owner == owner })
}

func (e *state) ticket(owner string) *ticket {
	return first(e.queue, func(t *ticket) bool { return t.req.Owner == owner })
}

// first is the first one that is meant; nil: there is none.
func first[T any](all []*T, meant func(*T) bool) *T {
	if i := slices.IndexFunc(all, meant); i >= 0 {
		return all[i]
	}
	return nil
}

// drop takes owner from the holders and from the queue.
func (e *state) drop(owner string) {
	e.holders = slices.DeleteFunc(e.holders, func(h *holding) bool { return h.owner == owner })
	e.queue = slices.DeleteFunc(e.queue, func(t *ticket) bool { return t.req.Owner == owner })
}

// waiting lists the tickets of readers, or those of the others.
func (e *state) waiting(readers bool) []*ticket {
	var all []*ticket
	for _, t := range e.queue {
		if (t.claim.Mode == driver.ModeShared) == readers {
			all = append(all, t)
		}
	}
	return all
}

// fits reports whether a lease for c may be in force next to those that are.
func (b *backend) fits(e *state, c driver.Claim) bool {
	switch {
	case len(e.holders) == 0:
	case b.has("everybody gets the key"),
		b.has("readers do not keep writers out") && e.phase == driver.ModeShared,
		b.has("permits do not count for other modes") && e.phase == driver.ModePermit && c.Mode != e.phase:
		return true
	case b.has("readers come one at a time") && c.Mode == driver.ModeShared:
		return false
	}
	return model.Fits(e.phase, len(e.holders), b.counted(e, c))
}

// counted is c with the number of permits that this backend goes by.
func (b *backend) counted(e *state, c driver.Claim) driver.Claim {
	switch {
	case c.Mode != driver.ModePermit || len(e.holders) == 0:
	case b.has("N is that of the first"):
		c.Permits = e.holders[0].claim.Permits
	case b.has("permits are not counted"):
		c.Permits = 1000
	case b.has("one permit too many"):
		c.Permits++
	}
	return c
}

// enter gives the key to req, now.
func (b *backend) enter(p *process, e *state, req driver.Request, c driver.Claim, waited bool) {
	e.queue = slices.DeleteFunc(e.queue, func(t *ticket) bool { return t.req.Owner == req.Owner })
	e.phase = c.Mode
	now := time.Now()
	e.holders = append(e.holders, &holding{
		owner: req.Owner, rule: req.Rule, trace: req.Trace, claim: c, token: b.token(p, e), reserved: b.reserve(req.HandOffs),
		since: now, expires: now.Add(b.term(req.TTL)), ttl: req.TTL, of: len(req.Claims), whole: len(req.Claims) == 1,
		by: p.lingers(req, waited),
	})
}

func (b *backend) term(ttl time.Duration) time.Duration {
	if b.has("leases end early") {
		return ttl * 9 / 10
	}
	return ttl
}

// admit lets in those whose turn it is.
func (b *backend) admit(e *state) {
	for {
		in := b.next(e)
		if len(in) == 0 {
			return
		}
		for _, t := range in {
			b.callIn(e, t)
		}
	}
}

// next has those whose turn it is, by the model, unless the backend has a defect.
func (b *backend) next(e *state) []*ticket {
	queue, phase, free := slices.Clone(e.queue), e.phase, len(e.holders) == 0
	line, readers := e.waiting(false), e.waiting(true)
	switch {
	case b.has("last come, first served"):
		slices.Reverse(line)
		queue = append(line, readers...)
	case b.has("permits pass readers") && !free && phase == driver.ModePermit:
		queue = line
	case b.has("writers go before readers") && free:
		phase = driver.ModeShared
	case b.has("readers do not keep writers out") && phase == driver.ModeShared && len(line) > 0:
		return line[:1]
	case b.has("permits overtake"):
		for _, t := range line {
			if t.claim.Mode == driver.ModePermit && b.fits(e, t.claim) {
				return []*ticket{t}
			}
		}
	}
	var claims []driver.Claim
	for _, t := range queue {
		claims = append(claims, b.counted(e, t.claim))
	}
	var in []*ticket
	for _, i := range model.Next(phase, len(e.holders), claims) {
		in = append(in, queue[i])
	}
	return in
}

// callIn gives the key to one who waits for it.
func (b *backend) callIn(e *state, t *ticket) {
	req := t.req
	if b.has("dead waiters stay") && t.p.cut.Load() {
		req.TTL = time.Hour
	}
	b.enter(t.p, e, req, t.claim, true)
}

func (b *backend) token(p *process, e *state) uint64 {
	switch {
	case b.has("each process counts tokens"):
		return p.counter.Add(1)
	case b.has("tokens are a counter"):
		b.last++
	case b.has("tokens are the clock with ten bits more"):
		b.last = max(b.last+1, uint64(time.Now().UnixMicro())<<10)
	default:
		b.last = max(b.last+1, uint64(time.Now().UnixMicro()))
	}
	return b.last
}

// reserve counts the tokens after the last one as its grant's.
func (b *backend) reserve(wanted uint64) uint64 {
	ahead := time.Until(time.UnixMicro(int64(b.last)))
	n := min(wanted, uint64(max(0, driver.MaxLead-ahead)/time.Microsecond))
	switch {
	case b.has("reservations outrun the clock"):
		n = wanted
	case b.has("one token more than wanted is reserved"):
		n = wanted + 1
	case b.has("reserved tokens are given to others"):
		return n
	}
	b.last += n
	return n
}

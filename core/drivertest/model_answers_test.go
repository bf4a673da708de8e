package drivertest

import (
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// What the backend answers; the caller has its mutex.

type finished struct {
	driver.Record
	owner   string
	expires time.Time
}

type reply struct {
	granted  bool
	token    uint64
	reserved uint64
	lingers  bool
	rec      *driver.Record
	held     driver.HeldError
	releases int
	err      error
	lender   *process // of the lease that is in the way and lingers; nil: there is none
}

// record returns the one in force.
func (b *backend) record(key string) (finished, bool) {
	r, ok := b.records[key]
	return r, ok && (time.Now().Before(r.expires) || b.has("records never end"))
}

// try is one attempt of a request: claim by claim, in order, up to the first
// that it has to wait for.
func (b *backend) try(p *process, req driver.Request, once, first bool) reply {
	if once {
		if r, ok := b.record(req.Claims[0].Key); ok {
			b.undo(req.Owner, req.Claims) // the lease may have come with the record
			rec := r.Record
			return reply{rec: &rec}
		}
	}
	if first && !b.has("a refused repeat changes the claims before") {
		for _, c := range req.Claims {
			if h := b.at(c.Key).holder(req.Owner); h != nil && h.claim.Mode != c.Mode && !b.has("any mode turns into any other") {
				return reply{err: &driver.DeadlockError{Key: c.Key, Held: h.claim, Wanted: c}}
			}
		}
	}
	whole, token := true, uint64(0)
	for _, c := range b.order(req) {
		e := b.at(c.Key)
		b.admit(e)
		slips := b.has("readers overtake writers") && c.Mode == driver.ModeShared
		slips = slips || b.has("permits overtake") && c.Mode == driver.ModePermit
		slips = slips || b.has("a set passes over those that wait") && first && len(req.Claims) > 1
		h := e.holder(req.Owner)
		switch {
		case !first && b.has("a waiting set does not look back") && c != req.Claims[len(req.Claims)-1]:
			whole = false
		case h != nil && first && len(e.queue) > 0 && b.has("whoever asks again goes behind those that wait"):
			return b.refuse(p, e, req, c)
		case h != nil && !b.again(p, e, h, req, c, first):
			return reply{err: &driver.DeadlockError{Key: c.Key, Held: h.claim, Wanted: c}}
		case h != nil:
			whole, token = whole && h.whole, h.token
		case b.fits(e, c) && (len(e.queue) == 0 || slips):
			b.enter(p, e, req, c, !first)
			whole, token = whole && len(req.Claims) == 1, e.holder(req.Owner).token
		default:
			return b.refuse(p, e, req, c)
		}
	}
	if !whole && !b.has("each claim of a set has its token") {
		token = b.token(p, b.at(req.Claims[0].Key))
	}
	for _, c := range req.Claims {
		if h := b.at(c.Key).holder(req.Owner); h != nil {
			if !whole && !b.has("each claim of a set has its token") {
				h.token = token
			}
			h.whole = true
		}
	}
	r := reply{granted: true, token: token}
	if len(req.Claims) == 1 {
		h := b.at(req.Claims[0].Key).holder(req.Owner)
		r.reserved, r.lingers = h.reserved, h.by != nil && (req.Linger || b.has("leases linger unasked"))
	}
	return r
}

// order is that of the keys.
func (b *backend) order(req driver.Request) []driver.Claim {
	claims := slices.Clone(req.Claims)
	h := fnv.New32()
	h.Write([]byte(req.Owner))
	if b.has("sets have no order") && h.Sum32()%2 == 0 {
		slices.Reverse(claims)
	}
	return claims
}

// again answers the owner that has the key with another full term.
func (b *backend) again(p *process, e *state, h *holding, req driver.Request, c driver.Claim, first bool) bool {
	if h.claim.Mode != c.Mode && !b.has("any mode turns into any other") {
		return false
	}
	if b.has("a second request gets a second token") && first {
		h.token = b.token(p, e)
	}
	if first && b.has("a second request has nothing reserved") {
		h.reserved = 0
	}
	h.expires = time.Now().Add(b.term(req.TTL))
	if !b.has("a second request keeps the first TTL") {
		h.ttl = req.TTL
	}
	h.claim, e.phase = c, c.Mode
	return true
}

// downgrade gives all claims of g their modes and another full term, or none.
func (p *process) downgrade(g driver.Grant) error {
	for _, c := range g.Claims {
		e := p.at(c.Key)
		h := e.holder(g.Owner)
		switch {
		case h == nil && p.has("a downgrade takes what is free") && len(e.holders) == 0:
			p.enter(p, e, driver.Request{Owner: g.Owner, Claims: g.Claims, TTL: g.TTL}, c, false)
		case h == nil, h.released && !p.has("what stays is downgraded"), h.token != g.Token && !p.has("a downgrade ignores the token"):
			return p.lost(e, g)
		case h.claim.Mode != c.Mode && h.claim.Mode != driver.ModeExclusive:
			return p.lost(e, g)
		}
	}
	for _, c := range g.Claims {
		e := p.at(c.Key)
		h := e.holder(g.Owner)
		if h.claim.Mode == c.Mode || !p.has("a downgrade extends nothing") {
			h.expires = time.Now().Add(g.TTL)
		}
		if !p.has("a downgrade keeps the first TTL") {
			h.ttl = g.TTL
		}
		if h.claim.Mode == c.Mode || p.has("a downgrade changes nothing") {
			continue
		}
		h.claim, e.phase = c, c.Mode
		for _, t := range e.waiting(true) {
			p.callIn(e, t)
		}
	}
	return nil
}

// refuse has req wait in line for c, or go.
func (b *backend) refuse(p *process, e *state, req driver.Request, c driver.Claim) reply {
	now := time.Now()
	t := e.ticket(req.Owner)
	if t == nil && (req.Wait || b.has("the refused stay in line")) {
		t = &ticket{p: p, req: req, claim: c, since: now}
		e.queue = append(e.queue, t)
	}
	if t != nil {
		t.seen = now
	}
	if t != nil && !req.Wait {
		t.haunt()
	}
	if !req.Wait && !b.has("a refused set keeps what it got") {
		b.undo(req.Owner, slices.DeleteFunc(slices.Clone(req.Claims), func(o driver.Claim) bool { return o.Key == c.Key }))
	}
	r := reply{releases: e.releases, held: driver.HeldError{Key: c.Key, Ahead: max(0, slices.Index(e.queue, t))}}
	var longest, shortest time.Duration
	for i, h := range e.holders {
		left := max(0, h.expires.Sub(now))
		if i == 0 || left > longest {
			longest, r.held.Holder, r.held.Trace = left, h.owner, h.trace
			r.held.HeldFor = now.Sub(h.since)
			if b.has("refusals count from the renewal") {
				r.held.HeldFor = max(0, h.ttl-left)
			}
			if h.by != nil && !b.has("what lingers counts from the grant") {
				r.held.HeldFor = 0
			}
		}
		if i == 0 || left < shortest {
			shortest = left
		}
	}
	r.held.RetryAfter = longest
	if e.phase == driver.ModePermit {
		r.held.RetryAfter = shortest
	}
	r.lender = b.lender(e, req)
	return r
}

// undo takes owner from claims, as far as they are not a lease yet or it is alone.
func (b *backend) undo(owner string, claims []driver.Claim) {
	for _, c := range claims {
		e := b.at(c.Key)
		e.drop(owner)
		b.admit(e)
	}
}

// owns says whether h is g's owner's.
func (b *backend) owns(h *holding, g driver.Grant) bool {
	switch {
	case b.has("owners are compared by prefix"):
		return strings.HasPrefix(h.owner, g.Owner) || strings.HasPrefix(g.Owner, h.owner)
	case b.has("owners are not compared"):
		return true
	}
	return h.owner == g.Owner
}

func (b *backend) find(e *state, g driver.Grant) *holding {
	return first(e.holders, func(h *holding) bool { return b.owns(h, g) })
}

// mine is find for what ends a lease: token 0 is that of an owner that was not told.
func (b *backend) mine(e *state, g driver.Grant) *holding {
	h := b.find(e, g)
	if h == nil || g.Token != 0 && g.Token != h.token {
		return nil
	}
	return h
}

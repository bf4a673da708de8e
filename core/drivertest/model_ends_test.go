package drivertest

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

func (b *backend) renew(g driver.Grant) error {
	if b.has("renewals do nothing") {
		return nil
	}
	now := time.Now()
	var found []*holding
	var lost error
	for _, c := range g.Claims {
		e := b.at(c.Key)
		if b.has("renewals bring leases back") && len(e.holders) == 0 {
			e.holders = append(e.holders, &holding{owner: g.Owner, token: g.Token, claim: c})
			e.phase = c.Mode
		}
		h := b.find(e, g)
		switch {
		case h == nil,
			h.released,
			b.has("a part of a set is nobody's") && h.of != len(g.Claims),
			h.token != g.Token && !b.has("renewals ignore the token"),
			h.claim.Mode != c.Mode && !b.has("renewals ignore the mode"),
			g.Borrowed && g.TTL > h.ttl && !b.has("borrowers choose the TTL"),
			g.Borrowed && g.HandedOn > h.reserved && !b.has("borrowers choose the hand-offs"):
			lost = b.lost(e, g)
		default:
			found = append(found, h)
		}
	}
	if lost != nil && !(b.has("a part of a set is renewed") && len(found) > 0) {
		return lost
	}
	for _, h := range found {
		expires := now.Add(g.TTL)
		switch {
		case !g.Borrowed && b.has("the first TTL is the owner's last"):
			h.expires = expires
		case !g.Borrowed:
			h.expires, h.ttl = expires, g.TTL
		case b.has("borrowers renew nothing"):
		case expires.After(h.expires), b.has("borrowers shorten leases"):
			h.expires = expires
		}
		if b.has("a set is renewed at its first key only") {
			break
		}
	}
	return nil
}

// lost says how g was lost.
func (b *backend) lost(e *state, g driver.Grant) error {
	if b.has("a loss is just an error") {
		return errors.New("no such lease")
	}
	loss := &driver.LeaseLostError{Key: g.Claims[0].Key, Token: g.Token, Reason: driver.LossTaken}
	if reason, ok := e.forced[g.Owner]; ok {
		loss.Reason, loss.Detail = driver.LossForced, reason
	}
	return loss
}

func (b *backend) release(g driver.Grant) error {
	var lost error
	for _, c := range g.Claims {
		e := b.at(c.Key)
		h := b.mine(e, g)
		if h == nil {
			lost = b.lost(e, g)
			if b.has("a broken set is not released") {
				break
			}
			continue
		}
		if b.has("a release leaves the line to the clock") && len(e.queue) > 0 {
			h.owner = "nobody"
			continue
		}
		if g.MinHold > 0 && !b.has("nothing stays") {
			h.released = true
			// A waiter that is not told goes by the end of the lease that it knows.
			if !(b.has("a waiter is not told how long a lease stays") && len(e.queue) > 0) {
				h.expires = time.Now().Add(g.MinHold)
			}
			continue
		}
		if h.released && b.has("what stays can't be released") {
			continue
		}
		e.drop(h.owner)
		e.releases++
		if b.has("a set is released at its first key only") {
			return nil
		}
		b.admit(e)
	}
	return lost
}

func (b *backend) complete(g driver.Grant, rec driver.Record, retention time.Duration) error {
	key, now := g.Claims[0].Key, time.Now()
	e := b.at(key)
	h := b.mine(e, g)
	if !b.has("records keep the caller's memory") {
		rec.Result, rec.Fingerprint = slices.Clone(rec.Result), slices.Clone(rec.Fingerprint)
	}
	done := finished{Record: rec, owner: g.Owner, expires: now.Add(retention)}
	switch {
	case b.has("records end at once"):
		done.expires = now
	case b.has("results are text"):
		done.Result = []byte(strings.ToValidUTF8(string(rec.Result), "?"))
	case b.has("a lost lease's record is kept"):
		b.records[key] = done
	}
	if h == nil {
		if r, ok := b.record(key); ok && r.owner == g.Owner && !b.has("Complete can't be repeated") {
			return nil
		}
		return b.lost(e, g)
	}
	b.records[key] = done
	if !b.has("Complete keeps the lease") {
		e.drop(h.owner)
		b.admit(e)
	}
	return nil
}

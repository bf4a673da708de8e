package handoff

import "time"

// Origin is what counts for the whole time that a grant stays with the engine.
type Origin struct {
	Granted time.Time // when the store granted it
	Epoch   uint64    // the epoch of package linger before it was asked for
}

// wholeStay is for how many times the longest single stay a grant may stay with the engine. Then it
// goes back to the store, so that a client that cannot tell this process that it waits has a chance.
const wholeStay = 10

// MayLinger returns for how long g, which its holder has released, may linger: d, or less if the
// whole stay is over by then; 0: it may not. Others may wait at the store for a grant that was
// contended, and the next holder needs a token.
func (g Grant) MayLinger(d time.Duration, now time.Time) time.Duration {
	if d == 0 || g.Origin == nil || g.Contended || g.HandedOn >= g.HandOffs || now.Sub(g.Since) > g.heritableFor() {
		return 0
	}
	return max(0, min(d, g.Origin.Granted.Add(wholeStay*d).Sub(now)))
}

// Taken returns the grant of the caller that takes g, which lingered, and wants a lease with that
// TTL. It returns false if g does not suit that caller.
func (g Grant) Taken(ttl time.Duration, now time.Time) (Grant, bool) {
	if g.HandedOn >= g.HandOffs || !suits(ttl, g.TTL) || now.Sub(g.Since) > g.heritableFor() {
		return Grant{}, false
	}
	g.HandedOn++
	g.Lingered = true
	return g, true
}

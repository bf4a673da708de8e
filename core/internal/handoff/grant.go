package handoff

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// MaxHandOffs is the greatest number of hand-offs of one grant. Work that takes no time ends a
// streak by it after some 2 ms, so other processes that have come meanwhile get their turn.
const MaxHandOffs = 1000

// fewHandOffs is for a caller that found nobody in line. Most of those need no token but their
// own, and a store whose tokens follow the clock has a million a second to give.
const fewHandOffs = 15

// Wanted is how many hand-offs to ask the store for, for a caller that had to wait in line or
// did not. The callers that wait behind one that did not get the lease fewHandOffs times, and the
// next of them asks for more.
func Wanted(waited bool) uint64 {
	if waited {
		return MaxHandOffs
	}
	return fewHandOffs
}

// Grant is the store's grant and what the engine knows about it. The store does not know the
// callers that hold the lease one after the other within this process.
type Grant struct {
	driver.Grant
	Heard     time.Time // when the store's last answer about it came
	Heritable bool      // it may be handed on
	Lingered  bool      // it lingered before its present holder took it
	// MinHoldEnd is until when the store keeps the key, also after a release; nil: until the release.
	MinHoldEnd *time.Time
	// Longest is the longest TTL that the store may have been asked for: an extension may have
	// arrived although its answer was lost. 0: the grant's TTL.
	Longest time.Duration
	Origin  *Origin // of a grant that may linger; nil: of any other
}

// FencingToken is the fencing token of the lease that has the grant g. Of a grant that is
// handed on it is one of those that the store reserved for it.
func (g Grant) FencingToken() uint64 { return g.Token + g.HandedOn }

// presentTerm is how long the store keeps the lease unless it is renewed.
func (g Grant) presentTerm() time.Duration {
	if g.Term > 0 {
		return min(g.Term, g.TTL)
	}
	return g.TTL
}

// heritableFor is how long after Since the lease may go to the next holder. That holder needs
// half of the term for its first renewal. For a first term, a quarter is enough: much of it may
// have been over when the grant came, and the lease is renewed soon.
func (g Grant) heritableFor() time.Duration {
	if g.Term > 0 {
		return g.presentTerm() - g.presentTerm()/4
	}
	return g.TTL / 2
}

package handoff

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// TokenBits is the number of low bits in a lease's fencing token that count hand-offs. The bits
// above them are the store's token.
const TokenBits = 10

// MaxHands is the greatest number of hand-offs that a token can count, so it bounds the
// hand-offs of one grant.
const MaxHands = 1<<TokenBits - 1

// Grant is the store's grant and what the engine knows about it. The store does not know the
// callers that hold the lease one after the other within this process.
type Grant struct {
	driver.Grant
	Hands     uint64    // number of hand-offs so far
	Heard     time.Time // when the store's last answer about it came
	Heritable bool      // it may be handed on
	// Longest is the longest TTL that the store may have been asked for: an extension may have
	// arrived although its answer was lost. 0: the grant's TTL.
	Longest time.Duration
}

// FencingToken is the fencing token of the lease that has the grant g.
func (g Grant) FencingToken() uint64 { return g.Token<<TokenBits | g.Hands }

// SplitToken returns the store's part of a fencing token, and the number of hand-offs.
func SplitToken(fencing uint64) (token, hands uint64) {
	return fencing >> TokenBits, fencing & MaxHands
}

// PresentTerm is how long the store keeps the lease unless it is renewed.
func (g Grant) PresentTerm() time.Duration {
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
		return g.PresentTerm() - g.PresentTerm()/4
	}
	return g.TTL / 2
}

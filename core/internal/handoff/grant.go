package handoff

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// TokenBits is how many low bits of a lease's fencing token count hand-offs. The bits
// above them are the store's.
const TokenBits = 10

// MaxHands is how many hand-offs a token can count, and so how many a grant is good for.
const MaxHands = 1<<TokenBits - 1

// Grant is the store's grant with what the engine knows of it. The store knows nothing
// of the callers that it goes through within this process.
type Grant struct {
	driver.Grant
	Hands     uint64    // how often it was handed on
	Heard     time.Time // when the store's last word about it came
	Heritable bool      // it may be handed on
	// Longest is the longest TTL that the store may have been asked for, as an extension
	// may arrive although nobody was told; 0: the grant's.
	Longest time.Duration
}

// FencingToken is the token of the lease that g makes.
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

// heritableFor is for how long after Since the lease may go to the next holder. That one
// needs half of the term for its first renewal. Of a first term a quarter is enough:
// much of it may have been over when the grant came, and it is renewed soon.
func (g Grant) heritableFor() time.Duration {
	if g.Term > 0 {
		return g.PresentTerm() - g.PresentTerm()/4
	}
	return g.TTL / 2
}

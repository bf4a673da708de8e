package core

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// TokenBits is how many bits of a lease's fencing token count hand-offs; the
// others, above them, are the store's.
const TokenBits = 10

// heldGrant is the store's grant with what the engine knows of it: the store knows
// nothing of the hands that it goes through within this process.
type heldGrant struct {
	driver.Grant
	passed uint64    // how often it was handed on
	heard  time.Time // when the store's last word about it came
	line   *line     // where it may be, if it is the one that the line's streak has; nil: nowhere
}

// fencing is the token of the lease that g makes.
func (g heldGrant) fencing() uint64 { return g.Token<<TokenBits | g.passed }

// term is how long the backend keeps the lease unless it is renewed.
func (g heldGrant) term() time.Duration {
	if g.Term > 0 {
		return min(g.Term, g.TTL)
	}
	return g.TTL
}

// heritable is for how long after Since the lease may go to the next holder, who is to
// have half of the term for his renewal. Of a first term a quarter will do: much of
// it may have been over when the grant came, and who gets it renews it soon.
func (g heldGrant) heritable() time.Duration {
	if g.Term > 0 {
		return g.term() - g.term()/4
	}
	return g.TTL / 2
}

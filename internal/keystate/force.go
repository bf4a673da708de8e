package keystate

import (
	"slices"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// ReasonKept is how long owners can learn why their lease was taken by force. They ask within a third of their
// TTL; one that has not asked by then is gone.
const ReasonKept = time.Hour

// Force ends the leases on k that only names, or all without only, and returns their holders. The reason is
// for their owners, and the store keeps it. The error is a [*driver.HeldError] if others hold the key.
func (s *State) Force(k *Key, reason string, only []driver.Holder) ([]driver.Holder, error) {
	if err := s.settle(k); err != nil {
		return nil, err
	}
	var gone []driver.Holder
	members := slices.Clone(k.holders)
	for i, h := range s.Holders(k) {
		if len(driver.NamedHolders([]driver.Holder{h}, only)) == 0 {
			continue
		}
		m := members[i]
		s.want(k)
		if len(m.Owner) <= driver.MaxOwnerBytes { // otherwise it is none of ours, which would ask why
			s.Forced = append(s.Forced, Forced{Key: k.Name, Owner: m.Owner, Token: m.Token, Reason: reason})
		}
		k.Remove(m)
		gone = append(gone, h)
	}
	if len(gone) == 0 && len(k.holders) > 0 {
		return nil, s.Held(k)
	}
	return gone, s.settle(k)
}

// Explain adds to a loss that a lease with that token was taken by force, if it is that lease.
func Explain(loss *driver.LeaseLostError, token uint64, reason string) {
	if loss.Token == 0 || loss.Token == token {
		loss.Reason, loss.Detail = driver.LossForced, reason
	}
}

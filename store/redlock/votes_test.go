package redlock_test

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// TestUndoneWhereNothingWasHeard: RedissonRedLock releases only what it knows that it has (redisson/redisson#1606). A
// node that gave its vote, and whose answer was lost, would keep others out for the TTL.
func TestUndoneWhereNothingWasHeard(t *testing.T) {
	t.Parallel()
	f := sharing(t)
	s, proxies := f.openProxied(t)
	lock(t, s, "warm", "warm", time.Minute)
	for _, p := range proxies[:3] {
		p.CutReplies()
	}
	wantIs(t, "Acquire without a quorum of answers", ask(t, s, "o", "key"), driver.ErrUnavailable)
	for _, p := range proxies {
		p.Heal()
	}
	f.settled(t, "key", 0)
}

// TestRenewalGivesNoVote: redsync's WithSetNXOnExtend sets the key again on nodes that have lost it.
// A renewal that comes late would then give a lease that has ended to its old owner.
func TestRenewalGivesNoVote(t *testing.T) {
	t.Parallel()
	f := sharing(t)
	s := f.open(t)
	g := lock(t, s, "o", "key", time.Minute)
	f.settled(t, "key", nodes)
	f.forget(t, "key", 0, 1, 4)
	wantIs(t, "Renew of a lease that three of five nodes have", renew(t, s, g), nil)
	wantEqual(t, "nodes that have the lease after a renewal", f.votes(t, "key"), 3)
	f.forget(t, "key", 0, 0)
	wantIs(t, "Renew of a lease that two of five nodes have", renew(t, s, g), driver.ErrLeaseLost)
	wantEqual(t, "nodes that have the lease after a renewal", f.votes(t, "key"), 2)
}

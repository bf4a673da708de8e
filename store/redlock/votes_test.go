package redlock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// TestUndoneWhereNothingWasHeard: RedissonRedLock releases only what it knows that it has
// (redisson/redisson#1606). A node that gave its vote, and whose answer was lost, would keep others
// out for the TTL.
func TestUndoneWhereNothingWasHeard(t *testing.T) {
	t.Parallel()
	f := sharing(t)
	s, proxies := f.openProxied(t)
	lock(t, s, "warm", "warm", time.Minute)
	for _, p := range proxies[:3] {
		p.CutReplies()
	}
	_, err := s.Acquire(within(t, 10*time.Second), request("o", "key", time.Minute))
	if !errors.Is(err, driver.ErrUnavailable) {
		t.Fatalf("Acquire without a quorum of answers: %v", err)
	}
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
	forget := func(nodes ...int) {
		for _, i := range nodes {
			if err := f.servers[i].Client().Del(within(t, 5*time.Second), "lock:key").Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.settled(t, "key", nodes)
	forget(1, 4)
	if err := s.Renew(within(t, 5*time.Second), []driver.Grant{g})[0]; err != nil {
		t.Errorf("Renew of a lease that three of five nodes have: %v", err)
	}
	if n := f.votes(t, "key"); n != 3 {
		t.Errorf("%d nodes have the lease after a renewal, want 3", n)
	}
	forget(0)
	if err := s.Renew(within(t, 5*time.Second), []driver.Grant{g})[0]; !errors.Is(err, driver.ErrLeaseLost) {
		t.Errorf("Renew of a lease that two of five nodes have: %v", err)
	}
	if n := f.votes(t, "key"); n != 2 {
		t.Errorf("%d nodes have the lease after a renewal, want 2", n)
	}
}

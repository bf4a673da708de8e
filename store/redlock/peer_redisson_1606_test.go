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

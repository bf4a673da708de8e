package redisstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
)

// TestOwnersAreComparedInFull is about bsm/redislock, where the owner "ab" could
// release the lock of "abc".
func TestOwnersAreComparedInFull(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client())
	g := lock(t, s, "abc", "k", time.Minute)
	for _, owner := range []string{"ab", "abcd", "a", "abc*", "ABC", "bc"} {
		other := g
		other.Owner, other.TTL = owner, time.Hour
		if err := s.Release(within(t, time.Second), other); !errors.Is(err, driver.ErrLeaseLost) {
			t.Errorf("%q releases the lock of %q: %v", owner, g.Owner, err)
		}
		if err := renew(t, s, other); !errors.Is(err, driver.ErrLeaseLost) {
			t.Errorf("%q renews the lock of %q: %v", owner, g.Owner, err)
		}
		if err := s.Complete(within(t, time.Second), other, driver.Record{}, time.Minute); !errors.Is(err, driver.ErrLeaseLost) {
			t.Errorf("%q completes for %q: %v", owner, g.Owner, err)
		}
		if _, err := s.Acquire(within(t, time.Second), request(owner, "k", time.Hour)); !errors.Is(err, driver.ErrHeld) {
			t.Errorf("%q gets the lock of %q: %v", owner, g.Owner, err)
		}
	}
	if ttl := server.Client().PTTL(context.Background(), "lock:k").Val(); ttl > time.Minute {
		t.Errorf("the lease was extended to %v", ttl)
	}
	release(t, s, g)
}

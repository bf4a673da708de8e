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
	f := started(t)
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
	f.eventuallyFree(t, "key", 10*time.Second)
}

// eventuallyFree waits until no node has a vote for key.
func (f *fleet) eventuallyFree(t *testing.T, key string, d time.Duration) {
	t.Helper()
	for i, server := range f.servers {
		c := server.Client()
		deadline := time.Now().Add(d)
		for {
			n, err := c.Exists(within(t, 5*time.Second), "lock:"+key).Result()
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("node %d keeps a vote that was not undone", i)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

package redisstore_test

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// TestRefusedSetNamesTheFirstClaim: a set that does not wait in line passed over its first key,
// where there was room but others waited, and was refused at its second. So HeldError named the
// wrong key, and the process that kept a lease there was told to give it back. Each first request of
// a process was of this kind, also one that waited afterwards. Random programs found it.
func TestRefusedSetNamesTheFirstClaim(t *testing.T) {
	t.Parallel()
	s := open(t, database(t).Client())
	permit := lease(t, s, "permit", driver.Permit("a", 3))
	writer := enqueue(t, s, "writer", "a", time.Minute)
	h := lock(t, s, "holder", "b", time.Minute)
	set := []driver.Claim{driver.Permit("a", 2), driver.Exclusive("b")}
	if e := held(t, s, set...); e.Key != "a" || e.Holder != "permit" {
		t.Errorf("the set is refused at %q, by %q", e.Key, e.Holder)
	}
	// Nobody waits at the key any more, so the set gets as far as its second claim.
	release(t, s, permit)
	release(t, s, writer.granted(5*time.Second))
	if e := held(t, s, set...); e.Key != "b" || e.Holder != "holder" {
		t.Errorf("the set is refused at %q, by %q", e.Key, e.Holder)
	}
	release(t, s, h)
}

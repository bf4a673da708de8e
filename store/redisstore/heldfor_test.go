package redisstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// A12 lets a store say nothing. This one says how long the holder has had the key,
// in each mode; of a foreign client's lock that is not known, but a waiter has seen
// it there for a while.
func TestHeldFor(t *testing.T) {
	t.Parallel()
	server := database(t)
	s := open(t, server.Client())
	const hold = 300 * time.Millisecond
	// A waiter does not know how long the answer that it counts on from took to come.
	const late = 100 * time.Millisecond
	held := func(key string, wait bool) driver.HeldError {
		t.Helper()
		ctx := within(t, 5*time.Second)
		req := request("asks", key, time.Minute)
		if wait {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, hold)
			defer cancel()
			req.Wait = true
		}
		_, err := s.Acquire(ctx, req)
		var held *driver.HeldError
		if !errors.As(err, &held) {
			t.Fatalf("error %v", err)
		}
		return *held
	}
	for name, claim := range map[string]driver.Claim{"x": driver.Exclusive("x"), "s": driver.Shared("s"), "p": driver.Permit("p", 1)} {
		asked := time.Now()
		req := request("holds", name, time.Minute)
		req.Claims = []driver.Claim{claim}
		if _, err := s.Acquire(within(t, 5*time.Second), req); err != nil {
			t.Fatal(err)
		}
		time.Sleep(hold)
		if got := held(name, false).HeldFor; got < hold-2*time.Millisecond || got > time.Since(asked)+2*time.Millisecond {
			t.Errorf("%s: held for %v after %v", name, got, time.Since(asked))
		}
		if got := held(name, true).HeldFor; got < 2*hold-late || got > time.Since(asked)+2*time.Millisecond {
			t.Errorf("%s, after a wait: held for %v after %v", name, got, time.Since(asked))
		}
	}
	cli(t, server, "OK", "SET", "lock:foreign", uuid, "NX", "PX", "60000")
	if got := held("foreign", false).HeldFor; got != 0 {
		t.Errorf("foreign: held for %v, which nobody knows", got)
	}
	asked := time.Now()
	if got := held("foreign", true).HeldFor; got == 0 || got > time.Since(asked) {
		t.Errorf("foreign, after a wait: held for %v", got)
	}
}

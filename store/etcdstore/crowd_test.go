package etcdstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// TestCrowdOfReaders: a process that takes a shared key all the time knows the lock by heart, and is
// always quicker than one that has to look first. The other one is let in all the same. It is not parallel: it
// leaves the server little time for others.
func TestCrowdOfReaders(t *testing.T) {
	c := shared(t)
	quick, other := open(t, c), open(t, c)
	shared := func(owner string) driver.Request {
		return driver.Request{Owner: owner, Claims: []driver.Claim{driver.Shared("k")}, TTL: time.Minute}
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if g, err := quick.Acquire(ctx, shared("quick")); err == nil {
				_ = quick.Release(context.WithoutCancel(ctx), g)
			}
		}
	}()
	defer func() { stop(); <-done }()
	for range 20 {
		release(t, other, hold(t, other, shared("other")))
	}
}

package etcdstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/storetest"
)

// TestCrowdOfReaders: a process that takes a shared key all the time knows the lock by heart, and is
// always quicker than one that has to look first. The other one is let in all the same. It is not parallel: it
// leaves the server little time for others.
func TestCrowdOfReaders(t *testing.T) {
	c := shared(t)
	quick, other := open(t, c), open(t, c)
	read := func() driver.Request { return storetest.RequestFor(time.Minute, driver.Shared("k")) }
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if g, err := quick.Acquire(ctx, read()); err == nil {
				_ = quick.Release(context.WithoutCancel(ctx), g)
			}
		}
	}()
	defer func() { stop(); <-done }()
	for range 20 {
		release(t, other, hold(t, other, read()))
	}
}

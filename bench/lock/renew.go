package lock

import (
	"context"
	"time"
)

// patience bounds what should never take that long.
const patience = 5 * time.Minute

// renewing calls renew three times per TTL until stop is called, which waits
// for a call under way: what users of a library without a watchdog write.
func renewing(ttl time.Duration, renew func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(ttl / 3)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				renew(ctx)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

package lock

import (
	"context"
	"time"
)

// patience bounds operations that should never take that long.
const patience = 5 * time.Minute

// renewing calls renew three times per TTL until stop is called. stop waits for a call under
// way. Users of a library without a watchdog write this.
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

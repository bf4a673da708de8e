package core_test

import (
	"context"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// A store that hung while it was asked to release carried the release out when the
// lease had run out, and said "not yours". Do then reported a lost lease, although its
// work was done in time: a task was run again, a call was answered with ABORTED.
func TestReleaseAnsweredAfterTheLeaseRanOutIsNoLoss(t *testing.T) {
	const ttl = 3 * time.Second
	for name, tt := range map[string]struct {
		hang time.Duration
		loss bool
	}{
		"after the lease's end": {hang: ttl + time.Second},
		"before it":             {hang: ttl / 10, loss: true},
	} {
		inBubble(t, name, func(t *testing.T) {
			spy := newSpy()
			spy.onRelease = func(context.Context, driver.Grant) error {
				time.Sleep(tt.hang)
				return core.ErrLeaseLost
			}
			eng := newEngine(t, spy, core.WithTTL(ttl))
			work := func(context.Context) error { time.Sleep(ttl / 6); return nil }

			done := eng.Do(bg, "k", work)
			l := mustAcquire(t, eng, "other")
			released := l.Release(bg)
			if tt.loss {
				wantOnly(t, done, core.ErrLeaseLost)
				wantOnly(t, released, core.ErrLeaseLost)
				return
			}
			if done != nil {
				t.Errorf("Do: %v", done)
			}
			wantOnly(t, released, core.ErrOutcomeUnknown)
			wantOnly(t, l.Release(bg), core.ErrOutcomeUnknown)
		})
	}
}

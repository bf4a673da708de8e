package send

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A caller whose context had ended before its request waited for 10 ms all the same.
func TestAnEndedContextIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		check(t, !newPending([]*Request{new(Request)}).wait(ctx), "a request without an answer counts as answered")
		took := time.Since(began)
		check(t, took <= 0, "waited for %v", took)
	})
}

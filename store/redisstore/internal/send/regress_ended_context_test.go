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
		if newPending([]*Request{new(Request)}).wait(ctx) {
			t.Error("a request without an answer counts as answered")
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("waited for %v", took)
		}
	})
}

package redisstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
)

// TestRenewalBringsNothingBack is about redsync's WithSetNXOnExtend, which takes
// a lost lock anew and calls that an extension.
func TestRenewalBringsNothingBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client())
	g := lock(t, s, "o", "k", time.Minute)
	for after, end := range map[string]func(){
		"the release":   func() { release(t, s, g) },
		"FLUSHALL":      func() { server.Client().FlushAll(context.Background()) },
		"empty restart": func() { server.Restart(t) },
	} {
		end()
		if err := renew(t, s, g); !errors.Is(err, driver.ErrLeaseLost) {
			t.Errorf("after %s: want ErrLeaseLost, got %v", after, err)
		}
		if n := server.Client().Exists(context.Background(), "lock:k").Val(); n != 0 {
			t.Errorf("after %s: a renewal brought the lock back", after)
		}
		g = lock(t, s, "o", "k", time.Minute)
	}
}

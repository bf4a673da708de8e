package redisstore_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// TestNothingIsLeft after a thousand distinct keys, in every mode, released, forced or left to run out: but the one counter
// of a server.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	server, s := storeOn(t, redistest.Start(t), redisstore.KeepReasons(300*time.Millisecond)) // for an hour otherwise
	modes := []func(string) driver.Claim{driver.Exclusive, driver.Shared, func(key string) driver.Claim { return driver.Permit(key, 2) }}
	for i := range 1_000 {
		key := fmt.Sprint("k", i)
		claims := []driver.Claim{modes[i%3](key)}
		if i%10 == 0 {
			claims = append(claims, modes[i/10%3](key+"+"))
		}
		ttl := time.Minute
		if i%4 == 3 {
			ttl = 20 * time.Millisecond
		}
		g, err := s.Acquire(bg, driver.Request{Owner: fmt.Sprint("o", i), Claims: claims, TTL: ttl, Rule: "rule", Trace: "trace"})
		must(t, err)
		switch {
		case i%4 == 3: // runs out
		case i%100 == 1:
			must(t, errOf(s.ForceRelease(bg, key, "why")))
		default:
			release(t, s, g)
		}
	}
	admin := server.Client()
	eventually(t, 3*time.Second, "only the counter is left", func() bool {
		return slices.Equal(admin.Keys(bg, "*").Val(), []string{"{lock:}:token"})
	})
}

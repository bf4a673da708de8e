package redisstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// TestCounterOutlivesItsToken on a Cluster, where each lock has its own, by an hour,
// on whatever way a grant takes. Where the clock was set back, here by two days, the
// counter stays until the clock has caught up: a day from the last grant would have
// been too early, and tokens would have gone back.
func TestCounterOutlivesItsToken(t *testing.T) {
	t.Parallel()
	client := sharedCluster(t)
	s := open(t, client)
	ctx := context.Background()
	const back = 48 * time.Hour
	for name, grant := range map[string]func(key string) driver.Grant{
		"plain":  func(key string) driver.Grant { return lock(t, s, "o", key, time.Minute) },
		"shared": func(key string) driver.Grant { return lease(t, s, "o", driver.Shared(key)) },
		"once": func(key string) driver.Grant {
			g, _, err := begin(t, s, "o", key)
			if err != nil {
				t.Fatal(err)
			}
			return g
		},
		"passed": func(key string) driver.Grant {
			first := lock(t, s, "first", key, time.Minute)
			w := enqueue(t, s, "o", key, time.Minute)
			release(t, s, first)
			return w.granted(10 * time.Second)
		},
	} {
		for _, ahead := range []time.Duration{0, back} {
			key := fmt.Sprint(name, ahead)
			counter := "{lock:" + key + "}:t"
			last := time.Now().Add(ahead).UnixMicro()
			if ahead > 0 {
				if err := client.Set(ctx, counter, last, 24*time.Hour).Err(); err != nil {
					t.Fatal(err)
				}
			}
			g := grant(key)
			if g.Token < uint64(last) || ahead > 0 && g.Token > uint64(last)+10 {
				t.Errorf("%s: token %d follows %d", key, g.Token, last)
			}
			// The token says when the counter goes, so the test's own time cancels out.
			left := client.PTTL(ctx, counter).Val()
			end, want := time.Now().Add(left), time.UnixMicro(int64(g.Token)).Add(time.Hour)
			if off := end.Sub(want).Abs(); left < 0 || off > 10*time.Second {
				t.Errorf("%s: the counter goes in %v, %v from an hour after its token", key, left, off)
			}
		}
	}
}

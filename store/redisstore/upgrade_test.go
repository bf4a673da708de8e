package redisstore_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// TestWaiterOfAnotherRelease: during a rolling upgrade a process may meet the entry of a
// waiter that it can't read. The entry keeps its place until it expires, nobody waits
// behind it, and operators see it.
func TestWaiterOfAnotherRelease(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]func(string) driver.Claim{"exclusive": driver.Exclusive, "shared": driver.Shared} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := database(t)
			s := open(t, server.Client(), noPolling)
			ctx, admin := context.Background(), server.Client()
			g := lock(t, s, "holder", "k", time.Minute)
			line := "{lock:k}:q"
			if name == "shared" {
				line = "{lock:k}:s"
			}
			admin.RPush(ctx, line, "newer", "dead")
			admin.HSet(ctx, "{lock:k}:w", "newer", "2 8000000000000 what this release does not know", "dead", "2 1 neither")
			req := request("mine", "k", time.Minute)
			req.Claims = []driver.Claim{mode("k")}
			w := wait(t, s, req)
			eventually(t, soon, "three are in line", func() bool { return admin.LLen(ctx, line).Val() == 3 })
			release(t, s, g)
			w.granted(soon)
			if left := admin.LRange(ctx, line, 0, -1).Val(); !slices.Equal(left, []string{"newer"}) {
				t.Errorf("in line are %q", left)
			}
			all := inspect(t, s, "k").Waiters
			if len(all) != 1 || all[0].Owner != "newer" {
				t.Errorf("an operator sees %+v", all)
			}
			entry := admin.HGet(ctx, "{lock:k}:w", "newer").Val()
			if !strings.HasPrefix(entry, "2 ") {
				t.Errorf("its entry is %q", entry)
			}
		})
	}
}

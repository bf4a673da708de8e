package redisstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
)

// A server that cannot grant a lock, or refuses one client, may go on renewing the leases of others. A rule that runs
// unlocked in an outage ran beside its holder: in 19 of 20 calls on a server without memory, in each on one with too few
// replicas, and if its own client had no permission, or a wrong password.
func TestNothingRunsUnlockedOnAServerThatRefuses(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(testing.TB, *redistest.Server, *redis.Options){
		"out of memory":    func(t testing.TB, s *redistest.Server, _ *redis.Options) { exhaust(t, s) },
		"too few replicas": func(t testing.TB, s *redistest.Server, _ *redis.Options) { set(t, s, "min-replicas-to-write", "1") },
		"no permission": func(t testing.TB, s *redistest.Server, o *redis.Options) {
			setUser(t, s, "on >pw ~lock:* +get")
			o.Username, o.Password = "keyturn", "pw"
		},
		"wrong password": func(_ testing.TB, _ *redistest.Server, o *redis.Options) { o.Username, o.Password = "nobody", "guess" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			holder := acquire(t, newEngineWith(t, open(t, server.Client()), time.Second), "k")
			client := server.Client(func(o *redis.Options) { refuse(t, server, o) })
			asking := newEngine(t, open(t, client), core.WithRunUnlocked())
			for _, opts := range [][]core.CallOption{
				{core.WithFailFast()},
				{core.WithMaxWait(3 * time.Second)}, // longer than the circuit takes to open
				{core.WithFailFast()},
			} {
				err := asking.Do(within(t, 20*time.Second), "k", func(context.Context) error {
					t.Error("it ran unlocked")
					return nil
				}, opts...)
				if !errors.Is(err, core.ErrUnavailable) && !errors.Is(err, core.ErrHeld) || errors.Is(err, core.ErrCircuitOpen) {
					t.Errorf("Do: %v", err)
				}
			}
			if err := holder.Err(); err != nil && name != "too few replicas" {
				t.Errorf("the holder's lease: %v", err)
			}
		})
	}
}

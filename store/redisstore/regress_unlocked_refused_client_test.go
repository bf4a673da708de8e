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

// A server that refuses one client serves others, and goes on renewing their leases. A rule that
// runs unlocked in an outage ran beside a holder when its own client had no permission, or a wrong
// password.
func TestNothingRunsUnlockedIfTheServerRefusesTheClient(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(testing.TB, *redistest.Server, *redis.Options){
		"no permission": func(t testing.TB, s *redistest.Server, o *redis.Options) {
			if err := s.Client().Do(context.Background(), "acl", "setuser", "poor", "on", ">secret", "~lock:*", "+get").Err(); err != nil {
				t.Fatal(err)
			}
			o.Username, o.Password = "poor", "secret"
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
					t.Errorf("it ran beside the holder, whose lease is %v", holder.Err())
					return nil
				}, opts...)
				if !errors.Is(err, core.ErrUnavailable) || errors.Is(err, core.ErrCircuitOpen) {
					t.Errorf("want the server's refusal, got %v", err)
				}
			}
			if err := holder.Err(); err != nil {
				t.Errorf("the holder: %v", err)
			}
		})
	}
}

package migrating

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/redis/go-redis/v9"
)

// deleteMine deletes the lock if it is still the caller's.
var deleteMine = redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end`)

func withSetNX(ctx context.Context, client redis.UniversalClient, order string, charge work) error {
	key, mine := "lock:order:"+order, rand.Text()
	for {
		taken, err := client.SetNX(ctx, key, mine, 30*time.Second).Result()
		if err != nil {
			return err
		}
		if taken {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	defer deleteMine.Run(context.WithoutCancel(ctx), client, []string{key}, mine)
	return charge(ctx) // for 30 seconds at most: nobody renews
}

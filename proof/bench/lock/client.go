package lock

import (
	"context"
	"net"

	"github.com/redis/go-redis/v9"
)

// poolSize is how many connections go-redis gets. A connection carries one command at a time,
// so callers that share one wait for each other. On a machine of this size, more than 64 only
// cost the server.
func poolSize(callers int) int { return max(4, min(callers, 64)) }

// newClient makes the go-redis client of keyturn, redislock and redsync. It is the same for all
// of them.
func newClient(cfg Config) redis.UniversalClient {
	opts := &redis.UniversalOptions{
		Addrs:           cfg.Addrs,
		PoolSize:        poolSize(cfg.Callers),
		MinIdleConns:    poolSize(cfg.Callers), // connect before the measurement
		DisableIdentity: true,                  // saves two commands per connection
		IsClusterMode:   len(cfg.Addrs) > 1,
	}
	if cfg.Sent != nil {
		opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return cfg.Sent.dial(ctx, network, addr)
		}
	}
	return redis.NewUniversalClient(opts)
}

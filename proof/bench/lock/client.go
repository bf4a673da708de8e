package lock

import (
	"context"
	"errors"
	"net"

	"github.com/redis/go-redis/v9"
)

// poolSize is how many connections go-redis gets. A connection carries one command at a time,
// so callers that share one wait for each other. On a machine of this size, more than 64 only
// cost the server.
func poolSize(callers int) int { return max(4, min(callers, 64)) }

// clients are one client, or one for each independent node.
type clients []redis.UniversalClient

func newClients(cfg Config) clients {
	if !cfg.Nodes {
		return clients{newClient(cfg)}
	}
	var all clients
	for _, addr := range cfg.Addrs {
		one := cfg
		one.Addrs, one.Nodes = []string{addr}, false
		all = append(all, newClient(one))
	}
	return all
}

// Close closes them all.
func (all clients) Close() error {
	var errs []error
	for _, c := range all {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

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

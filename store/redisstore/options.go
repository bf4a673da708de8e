package redisstore

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/internal/onredis"
	"github.com/keyturn/keyturn/store/redisstore/internal/script"
)

// Defaults of the options. The bounds are in the options' own comments.
const (
	DefaultPrefix      = "lock:"
	DefaultWaiterLease = 6 * time.Second
)

const (
	minWaiterLease = 100 * time.Millisecond
	maxWaiterLease = 10 * time.Minute
)

// Option configures a store; see [New].
type Option func(*config) error

type config struct {
	prefix      string
	waiterLease time.Duration
	replicas    int
	replicaWait time.Duration
	log         *slog.Logger
	failover    *redis.FailoverOptions // of the client; nil: not known
	ownsClient  bool                   // Close closes the client
	forcedFor   time.Duration          // how long the victims of a ForceRelease can learn its reason
}

func defaultConfig() config {
	return config{prefix: DefaultPrefix, waiterLease: DefaultWaiterLease, log: slog.Default(), forcedFor: time.Hour}
}

// longestSleep is how long a waiter sleeps at most. Two of its signs of life may then get lost
// before it counts as dead.
func (c *config) longestSleep() time.Duration { return c.waiterLease / 3 }

// claimTime is how long the lock is kept for a waiter to which it was passed, until that waiter
// renews it or asks again. It is longer than longestSleep, for waiters that no message reaches.
func (c *config) claimTime() time.Duration { return c.waiterLease / 2 }

// WithPrefix sets the beginning of every key in Redis: with "lock:", the lock on "a" is the key
// "lock:a". All processes, and foreign clients that take part, must use the same. It has at
// most 128 bytes of UTF-8 without braces, white space and control characters, and may be empty.
// Default [DefaultPrefix].
func WithPrefix(prefix string) Option {
	return func(c *config) error {
		c.prefix = prefix
		return onredis.CheckPrefix(prefix)
	}
}

// WithWaiterLease sets after how long a waiter without a sign of life loses its place in the
// queue. A waiter asks again every third of this time, and sends nothing else while it waits.
// When the lock is passed to a waiter, it is kept for half this time, until the waiter renews
// it. 100 ms to 10 min. Default [DefaultWaiterLease].
func WithWaiterLease(d time.Duration) Option {
	return func(c *config) error {
		c.waiterLease = d.Truncate(time.Millisecond)
		return driver.CheckOption(d >= minWaiterLease && d <= maxWaiterLease, "WithWaiterLease", d, "100ms to 10m")
	}
}

// WithReplicas makes every grant, renewal and record wait until n replicas have it, for timeout
// at most. If too few have it by then, the error is ErrNoReplicas. A grant is then undone. A
// renewal is tried again, and if that does not help, the lease ends at its deadline. So a
// master that is cut off from its replicas keeps no lease in force beyond its TTL.
//
// If n is the number of replicas, a failover forgets no lease. If n is smaller, Redis may
// promote a replica that was not among the n, and n replicas may be cut off together with the
// old master. A forced release does not wait: a failover may forget it, and its lease is then in force
// again. All processes need the same n. It is not for a Cluster or Ring. The timeout must
// be shorter than the client's ReadTimeout. Default: no waiting.
func WithReplicas(n int, timeout time.Duration) Option {
	return func(c *config) error {
		c.replicas, c.replicaWait = n, timeout
		return cmp.Or(driver.CheckOption(n >= 1, "WithReplicas", n, "1 replica or more"),
			driver.CheckOption(timeout >= time.Millisecond, "WithReplicas", timeout, "1ms or more"))
	}
}

// WithLogger sets where the store logs warnings: about settings of the server that may cost
// leases (docs/operations.md), and about a subscription that does not work. Default
// slog.Default().
func WithLogger(l *slog.Logger) Option {
	return func(c *config) error {
		c.log = l
		return driver.CheckOption(l != nil, "WithLogger", nil, "a logger")
	}
}

// fits checks the options that depend on the client.
func (c *config) fits(client redis.UniversalClient) error {
	if c.replicas == 0 || isNil(client) {
		return nil
	}
	bad := func(want string) error {
		return &driver.OptionError{Option: "WithReplicas", Value: c.replicaWait, Want: want}
	}
	if script.TopologyOf(client) != script.Single {
		return bad("a single server")
	}
	// Otherwise the client gives up on an answer that is still to come.
	if one, ok := client.(*redis.Client); ok && one.Options().ReadTimeout > 0 && c.replicaWait >= one.Options().ReadTimeout {
		return bad(fmt.Sprintf("less than the client's ReadTimeout of %v", one.Options().ReadTimeout))
	}
	return nil
}

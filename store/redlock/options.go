package redlock

import (
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/internal/onredis"
)

const (
	fewestNodes    = 3
	mostNodes      = 15
	minMaxTTL      = time.Second
	maxNodeTimeout = 10 * time.Second
)

// Option configures a store; see [New].
type Option func(*config) error

type config struct {
	prefix      string
	quorum      int // 0: a majority
	maxTTL      time.Duration
	nodeTimeout time.Duration
	persistent  bool
}

func defaultConfig() config {
	return config{prefix: "lock:", maxTTL: time.Minute, nodeTimeout: 50 * time.Millisecond}
}

// WithPrefix sets the beginning of every key in Redis: with "lock:", the lock on "a" is the key
// "lock:a" of each node. All processes, and foreign clients that take part, must use the same. It
// has at most 128 bytes of UTF-8 without braces, white space and control characters, and may be
// empty. Default "lock:".
func WithPrefix(prefix string) Option {
	return func(c *config) error {
		c.prefix = prefix
		return onredis.CheckPrefix(prefix)
	}
}

// WithQuorum sets how many nodes must agree. Any two quorums share 2q-N nodes of N, so a fault of
// as many nodes less one, such as clocks that jump, gives no key to two owners. N-q nodes may be
// down. With 5 nodes, a quorum of 3 survives two dead nodes and no wrong clock, and a quorum of 4
// survives one dead node and two wrong clocks. All processes need the same. Default: a majority.
func WithQuorum(q int) Option {
	return func(c *config) error {
		c.quorum = q
		return driver.CheckOption(q >= 1, "WithQuorum", q, "a majority of the nodes at least")
	}
}

// WithMaxTTL sets the longest TTL of a lease. It is also for how long a node gives no vote after its
// start, because it may have forgotten the votes that it gave before. All processes must use the
// same: a process with a smaller value would ask such a node too early. 1 s to 24 h, in whole
// milliseconds. Default 1 min.
func WithMaxTTL(d time.Duration) Option {
	return func(c *config) error {
		c.maxTTL = d.Truncate(time.Millisecond)
		return driver.CheckOption(d >= minMaxTTL && d <= driver.MaxTTL, "WithMaxTTL", d, "1s to 24h")
	}
}

// WithNodeTimeout sets how long an acquisition that a node has refused waits for the answers of the
// other nodes. Then it takes its votes back and tries again. While no node has refused it, it waits
// for the rest of a quorum for a second, or for four times this if that is more. Give it a few times
// the time of a round trip. 1 ms to 10 s. Default 50 ms.
func WithNodeTimeout(d time.Duration) Option {
	return func(c *config) error {
		c.nodeTimeout = d
		return driver.CheckOption(d >= time.Millisecond && d <= maxNodeTimeout, "WithNodeTimeout", d, "1ms to 10s")
	}
}

// WithPersistent says that no node ever forgets a write that it has answered: each runs with
// "appendonly yes" and "appendfsync always" on a disk that keeps what it acknowledged. A node that
// is started anew then votes at once. If a node forgets all the same, two owners may hold a key.
// Default: a node gives no vote for [WithMaxTTL] after its start.
func WithPersistent() Option {
	return func(c *config) error {
		c.persistent = true
		return nil
	}
}

// build applies the options, in any order, and checks what depends on several.
func build(nodes []*redis.Client, opts []Option) (config, error) {
	c := defaultConfig()
	errs := append([]error{checkNodes(nodes)}, driver.Configure(&c, "New", opts)...)
	n := len(nodes)
	if c.quorum == 0 {
		c.quorum = n/2 + 1
	} else if c.quorum <= n/2 || c.quorum > n {
		errs = append(errs, &driver.OptionError{
			Option: "WithQuorum", Value: c.quorum, Want: fmt.Sprintf("%d to %d of %d nodes", n/2+1, n, n),
		})
	}
	return c, errors.Join(errs...)
}

// checkNodes refuses sets of nodes that can't be independent.
func checkNodes(nodes []*redis.Client) error {
	bad := func(value any, want string) error {
		return &driver.OptionError{Option: "New", Value: value, Want: want}
	}
	if n := len(nodes); n < fewestNodes || n > mostNodes || n%2 == 0 {
		return bad(n, "an odd number of nodes from 3 to 15")
	}
	seen := make(map[string]bool)
	for i, c := range nodes {
		if c == nil {
			return bad(nil, fmt.Sprintf("a client for node %d", i))
		}
		// Clients behind Sentinel all have the same address. The run ids tell them apart later.
		addr := c.Options().Addr
		if seen[addr] && addr != "FailoverClient" {
			return bad(addr, "a server of its own for each node")
		}
		seen[addr] = true
	}
	return nil
}

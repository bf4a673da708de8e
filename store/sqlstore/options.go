package sqlstore

import (
	"errors"
	"log/slog"
	"regexp"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Option changes a default of [New]. Of two options about one matter the last counts.
type Option func(*config) error

type config struct {
	prefix      string
	waiterLease time.Duration
	poll        time.Duration
	conns       int
	waker       Waker
	log         *slog.Logger
	ownsPool    bool // Close closes the pool of a store that was opened by its URL
}

// The defaults.
const (
	DefaultPrefix      = "keyturn_"
	DefaultWaiterLease = 6 * time.Second
	DefaultPoll        = 200 * time.Millisecond
	DefaultMaxConns    = 4
)

const (
	minWaiterLease = 300 * time.Millisecond
	maxWaiterLease = 10 * time.Minute
	minPoll        = 10 * time.Millisecond
	maxPoll        = time.Minute
)

var prefixes = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,30}$`)

// configure applies the options.
func configure(d Dialect, opts []Option) (config, error) {
	cfg := config{
		prefix: DefaultPrefix, waiterLease: DefaultWaiterLease, poll: DefaultPoll, conns: DefaultMaxConns, log: slog.Default(),
	}
	errs := driver.Configure(&cfg, "New", opts)
	if d.dialect == nil {
		errs = append(errs, &driver.OptionError{Option: "New", Value: d, Want: "a dialect: Postgres, MySQL or SQLite"})
	}
	if cfg.waker != nil && d.dialect != &postgres {
		errs = append(errs, &driver.OptionError{Option: "WithWaker", Value: d, Want: "PostgreSQL, which can send messages"})
	}
	return cfg, errors.Join(errs...)
}

// claimTime is how long a lock is kept for a waiter that got it, until that waiter asks.
func (c *config) claimTime() time.Duration { return c.waiterLease / 2 }

// WithPrefix sets the beginning of the names of the tables: with "keyturn_", one of them is
// keyturn_lock. Letters, digits and underscores, 31 at most, and no digit first. Default
// [DefaultPrefix].
func WithPrefix(prefix string) Option {
	return func(c *config) error {
		c.prefix = prefix
		return driver.CheckOption(prefixes.MatchString(prefix), "WithPrefix", prefix, "1 to 31 letters, digits and underscores, not a digit first")
	}
}

// WithWaiterLease sets after how long a waiter without a sign of life loses its place in the
// queue. A process gives one sign of life for all of its waiters, every third of this time. A
// lock that has come to a waiter is kept for it for half this time, until the waiter has
// noticed. 300 ms to 10 min. Default [DefaultWaiterLease].
func WithWaiterLease(d time.Duration) Option {
	return func(c *config) error {
		c.waiterLease = d
		return driver.CheckOption(d >= minWaiterLease && d <= maxWaiterLease, "WithWaiterLease", d, "300ms to 10m")
	}
}

// WithPoll sets the longest pause between two looks at the database, while at least one request
// of this process waits. One look is one query, however many wait. Looks begin 10 ms apart, and
// the pause doubles until it has this length. With [WithWaker] messages tell of a turn, and the
// pause is five times as long. 10 ms to 1 min. Default [DefaultPoll].
func WithPoll(d time.Duration) Option {
	return func(c *config) error {
		c.poll = d
		return driver.CheckOption(d >= minPoll && d <= maxPoll, "WithPoll", d, "10ms to 1m")
	}
}

// WithMaxConns sets how many connections of the pool the store uses at a time, in addition to
// one for renewals. A request that waits for a lock uses none. The pool should allow one more
// than this and what the program itself needs. 1 or more; SQLite always has 1, because it has one
// writer at a time. Default [DefaultMaxConns].
func WithMaxConns(n int) Option {
	return func(c *config) error {
		c.conns = n
		return driver.CheckOption(n >= 1, "WithMaxConns", n, "1 or more")
	}
}

// WithWaker has PostgreSQL tell waiters of their turn by messages, which w receives. Package
// pgwake has one. The store closes w when it is closed. Default: waiters learn of their turn by
// looking, see [WithPoll].
func WithWaker(w Waker) Option {
	return func(c *config) error {
		c.waker = w
		return driver.CheckOption(w != nil, "WithWaker", nil, "a Waker")
	}
}

// WithLogger sets where the store logs warnings about settings of the server that may cost
// leases (docs/operations-sql.md). Default slog.Default().
func WithLogger(l *slog.Logger) Option {
	return func(c *config) error {
		c.log = l
		return driver.CheckOption(l != nil, "WithLogger", nil, "a logger")
	}
}

package natsstore

import (
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/keyturn/keyturn/core/driver"
)

// Option changes a default of [New]. Of two options about one matter the last counts.
type Option func(*config) error

type config struct {
	bucket   string
	replicas int
	waiter   time.Duration
	log      *slog.Logger
}

// The defaults.
const (
	DefaultBucket      = "keyturn"
	DefaultWaiterLease = 10 * time.Second
)

func configure(nc *nats.Conn, opts []Option) (config, error) {
	cfg := config{bucket: DefaultBucket, replicas: 1, waiter: DefaultWaiterLease, log: slog.Default()}
	errs := driver.Configure(&cfg, "New", opts)
	if nc == nil {
		errs = append(errs, &driver.OptionError{Option: "New", Value: nil, Want: "a connection"})
	}
	return cfg, errors.Join(errs...)
}

// WithBucket sets the bucket that has the locks: 1 to 64 letters, digits, "-" and "_". Services that should
// not share locks have different buckets. Default [DefaultBucket].
func WithBucket(name string) Option {
	return func(c *config) error {
		bad := strings.ContainsFunc(name, func(r rune) bool {
			return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
		})
		c.bucket = name
		return driver.CheckOption(!bad && name != "" && len(name) <= 64, "WithBucket", name, `1 to 64 letters, digits, "-" and "_"`)
	}
}

// WithReplicas sets how many servers keep the bucket, if the store makes it: 1 to 5. A bucket that is there
// stays as it is. Default 1, which does not survive the loss of its server: with a cluster of three or more
// servers, use 3.
func WithReplicas(n int) Option {
	return func(c *config) error {
		c.replicas = n
		return driver.CheckOption(n >= 1 && n <= 5, "WithReplicas", n, "1 to 5")
	}
}

// WithWaiterLease sets after how long a waiter without a sign of life loses its place in the queue, and a
// lock that came to it. Waiters give a sign three times in that time. 300 ms to 10 min. Default
// [DefaultWaiterLease].
func WithWaiterLease(d time.Duration) Option {
	return func(c *config) error {
		c.waiter = d
		return driver.CheckOption(d >= 300*time.Millisecond && d <= 10*time.Minute, "WithWaiterLease", d, "300ms to 10m")
	}
}

// WithLogger sets where the store logs what an operator should know. Default slog.Default().
func WithLogger(l *slog.Logger) Option {
	return func(c *config) error {
		c.log = l
		return driver.CheckOption(l != nil, "WithLogger", nil, "a logger")
	}
}

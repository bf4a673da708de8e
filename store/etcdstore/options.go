package etcdstore

import (
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Option changes a default of [New]. Of two options about one matter the last counts.
type Option func(*config) error

type config struct {
	prefix      string
	waiterLease time.Duration
	log         *slog.Logger
	ownsClient  bool // Close closes the client, too
}

// The defaults.
const (
	DefaultPrefix      = "keyturn/"
	DefaultWaiterLease = 6 * time.Second
)

const (
	minWaiterLease = time.Second
	maxWaiterLease = 10 * time.Minute
	maxPrefixBytes = 256
)

func configure(opts []Option) (config, error) {
	cfg := config{prefix: DefaultPrefix, waiterLease: DefaultWaiterLease, log: slog.Default()}
	return cfg, errors.Join(driver.Configure(&cfg, "New", opts)...)
}

// WithPrefix sets the beginning of all keys that the store uses in etcd: 1 to 256 bytes without
// braces. A role of etcd that may read and write the range of the prefix is all that the store
// needs. Default [DefaultPrefix].
func WithPrefix(prefix string) Option {
	return func(c *config) error {
		ok := prefix != "" && len(prefix) <= maxPrefixBytes && !strings.ContainsAny(prefix, "{}\x00")
		c.prefix = prefix
		return driver.CheckOption(ok, "WithPrefix", prefix, "1 to 256 bytes without braces and zeros")
	}
}

// WithWaiterLease sets after how long a waiter without a sign of life loses its place in the
// queue. A waiter gives one every third of this time. A waiter whose process died unnoticed may get
// the lock within this time, and then blocks the others for its rest. Whole seconds, 1 s to 10 min;
// the server may round it up. Default [DefaultWaiterLease].
func WithWaiterLease(d time.Duration) Option {
	return func(c *config) error {
		c.waiterLease = d
		return driver.CheckOption(d >= minWaiterLease && d <= maxWaiterLease && d%time.Second == 0, "WithWaiterLease", d, "whole seconds, 1s to 10m")
	}
}

// WithLogger sets where the store logs what an operator should know (docs/operations-etcd.md).
// Default slog.Default().
func WithLogger(l *slog.Logger) Option {
	return func(c *config) error {
		c.log = l
		return driver.CheckOption(l != nil, "WithLogger", nil, "a logger")
	}
}

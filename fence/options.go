package fence

import (
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// Option configures everything that uses the package's tables.
type Option interface {
	OnceOption
	applyTables(*config) error
}

// OnceOption configures [Once] and [WithDatabase].
type OnceOption interface{ apply(*config) error }

// MarkOption configures [Guard.Mark] and [Once].
type MarkOption interface {
	OnceOption
	applyMark(*config) error
}

// RetryOption configures [Optimistic], [Once] and [WithDatabase].
type RetryOption interface {
	OnceOption
	applyRetry(*config) error
}

// config is what options say. They apply in order, so the last one counts.
type config struct {
	prefix      string
	fingerprint []byte
	attempts    int
	isolation   sql.IsolationLevel

	noWait   bool
	within   time.Duration
	advisory bool
}

// setting is an option of any kind.
type setting func(*config) error

func (s setting) apply(c *config) error       { return s(c) }
func (s setting) applyTables(c *config) error { return s(c) }
func (s setting) applyMark(c *config) error   { return s(c) }
func (s setting) applyRetry(c *config) error  { return s(c) }
func (s setting) applyLock(c *config) error   { return s(c) }

// configure applies options to the defaults. The error joins all that are wrong.
func configure[O interface{ apply(*config) error }](opts []O) (config, error) {
	c := config{prefix: "keyturn_", attempts: 10}
	var errs []error
	for _, o := range opts {
		if any(o) == nil {
			errs = append(errs, &core.OptionError{Option: "fence", Value: nil, Want: "no nil option"})
			continue
		}
		errs = append(errs, o.apply(&c))
	}
	return c, errors.Join(errs...)
}

// WithTables sets what the names of the package's tables begin with. It may begin with a schema:
// "im.keyturn_". Letters, digits and "_" are allowed, up to 40 bytes after the last dot;
// otherwise the option is a *core.OptionError. Default: "keyturn_".
func WithTables(prefix string) Option {
	return setting(func(c *config) error {
		c.prefix = prefix
		ok := validName(prefix+"mark", true) && validName(prefix+"abcdefghijklmnopqrstuvw", true)
		return driver.CheckOption(ok, "WithTables", prefix, "letters, digits and _, up to 40 bytes, perhaps after the name of a schema and a dot")
	})
}

// WithFingerprint gives a digest of what is to be executed. A duplicate with another fingerprint
// gets core.ErrFingerprintMismatch. Nothing is compared if one of the two has none; that is the
// default. The digest is copied. More than 255 bytes are a *core.OptionError.
func WithFingerprint(digest []byte) MarkOption {
	return setting(func(c *config) error {
		c.fingerprint = slices.Clone(digest)
		return driver.CheckOption(len(digest) <= 255, "WithFingerprint", len(digest), "up to 255 bytes")
	})
}

// WithAttempts sets how often a transaction is tried, if the database refuses it because of
// others. Below 1 it is a *core.OptionError. Default: 10.
func WithAttempts(n int) RetryOption {
	return setting(func(c *config) error {
		c.attempts = n
		return driver.CheckOption(n >= 1, "WithAttempts", n, "1 or more")
	})
}

// WithIsolation sets the isolation level of the transactions that [Once] and [WithDatabase]
// begin. One that PostgreSQL, MySQL and MariaDB do not have is a *core.OptionError there. Default:
// the database's own.
func WithIsolation(level sql.IsolationLevel) OnceOption {
	return setting(func(c *config) error {
		c.isolation = level
		return nil
	})
}

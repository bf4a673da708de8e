package core

import (
	"log/slog"
	"slices"
	"time"

	"github.com/keyturn/keyturn/core/internal/holdstats"
)

// Bounds and defaults. A TTL below MinTTL could not be renewed in time over a
// network; one over MaxTTL makes a crashed holder block its key for days.
const (
	MinTTL = 10 * time.Millisecond
	MaxTTL = 24 * time.Hour

	DefaultTTL             = 30 * time.Second
	DefaultMaxWait         = 30 * time.Second
	DefaultMaxHold         = 10 * time.Minute
	DefaultMaxWaiters      = 1000
	DefaultMaxWaitersTotal = 20_000
	DefaultCircuit         = 2 * time.Second
	DefaultReleaseTimeout  = 5 * time.Second
	DefaultRetention       = 24 * time.Hour
	DefaultResultLimit     = 64 << 10
)

// EngineOption configures an engine; see [New].
type EngineOption interface {
	applyEngine(*engineConfig) error
}

// CallOption configures one acquisition or execution.
type CallOption interface {
	apply(*settings) error
}

// Option is both: given to [New] it is the engine's default, given to a call
// it holds for that call.
type Option interface {
	EngineOption
	CallOption
}

// settings is what one call goes by.
type settings struct {
	ttl         time.Duration
	adaptive    holdstats.Bounds // zero: the TTL is ttl
	maxWait     time.Duration    // 0: as long as the context
	failFast    bool
	mode        Mode          // of claims on plain keys
	permits     int           // ModePermit only
	hierarchy   bool          // keys have levels
	maxHold     time.Duration // 0: for ever
	keepContext bool          // the context survives a loss
	runUnlocked bool          // Do and Once run without the lock in an outage
	rule        string
	once        bool // the call is Engine.Once
	retention   time.Duration
	resultLimit int
	codec       Codec
	fingerprint []byte
	anyContent  bool // fingerprints are not compared
}

type engineConfig struct {
	defaults        settings
	hooks           []Hooks
	log             *slog.Logger
	maxWaiters      int
	maxWaitersTotal int
	circuit         time.Duration
	releaseTimeout  time.Duration
}

func defaultConfig() engineConfig {
	return engineConfig{
		defaults: settings{
			ttl:         DefaultTTL,
			maxWait:     DefaultMaxWait,
			maxHold:     DefaultMaxHold,
			retention:   DefaultRetention,
			resultLimit: DefaultResultLimit,
			codec:       jsonCodec{},
		},
		maxWaiters:      DefaultMaxWaiters,
		maxWaitersTotal: DefaultMaxWaitersTotal,
		circuit:         DefaultCircuit,
		releaseTimeout:  DefaultReleaseTimeout,
	}
}

type option func(*settings) error

func (o option) apply(s *settings) error           { return o(s) }
func (o option) applyEngine(c *engineConfig) error { return o(&c.defaults) }

type callOption func(*settings) error

func (o callOption) apply(s *settings) error { return o(s) }

type engineOption func(*engineConfig) error

func (o engineOption) applyEngine(c *engineConfig) error { return o(c) }

// WithTTL sets for how long the backend keeps the lease after the last sign
// of life: how long a crashed holder blocks its key. The watchdog renews a
// living holder's lease three times per TTL. From [MinTTL] to [MaxTTL];
// fractions of a millisecond are cut off. Default [DefaultTTL]. It takes back
// [WithAdaptiveTTL]: the later of the two counts.
func WithTTL(d time.Duration) Option {
	return option(func(s *settings) error {
		if d < MinTTL || d > MaxTTL {
			return &OptionError{Option: "WithTTL", Value: d, Want: "10ms to 24h"}
		}
		s.ttl, s.adaptive = d.Truncate(time.Millisecond), holdstats.Bounds{}
		return nil
	})
}

// WithMaxWait bounds the wait for a held key; after it the error is
// ErrWaitTimeout. 0 means no bound but the context's. Default
// [DefaultMaxWait], so that a caller without a deadline does not wait for
// ever. It takes back [WithFailFast]: the later of the two counts.
func WithMaxWait(d time.Duration) Option {
	return option(func(s *settings) error {
		if d < 0 {
			return &OptionError{Option: "WithMaxWait", Value: d, Want: "0 or more"}
		}
		s.maxWait, s.failFast = d, false
		return nil
	})
}

// WithFailFast refuses at once with ErrHeld instead of waiting for the holder.
// The store may take 5 s to say so, or less if [WithMaxWait], given before it,
// says less: after that it is an outage.
func WithFailFast() Option {
	return option(func(s *settings) error {
		s.failFast = true
		return nil
	})
}

// WithMaxHold bounds how long a lease is renewed. After it the lease counts as
// lost ([LossMaxHold]) and runs out within its TTL, so that a handler that
// hangs for ever does not hold its key for ever. 0 means no bound. Default
// [DefaultMaxHold].
func WithMaxHold(d time.Duration) Option {
	return option(func(s *settings) error {
		if d < 0 {
			return &OptionError{Option: "WithMaxHold", Value: d, Want: "0 or more"}
		}
		s.maxHold = d
		return nil
	})
}

// WithoutCancelOnLoss keeps the lease's context alive when the lease is lost.
// For work that does more harm when cut off than when overlapped: it should
// look at [Lease.Err] before each step that must not overlap, or be fenced.
func WithoutCancelOnLoss() Option {
	return option(func(s *settings) error {
		s.keepContext = true
		return nil
	})
}

// WithRunUnlocked makes [Engine.Do], [Engine.DoAll] and [Engine.Once] run the
// function without any lock when the store does not answer. Only such an outage has
// that effect: never a held key, a timeout or a lost lease; never a store that answers
// that it cannot serve (out of memory, read-only, too few replicas), as it may go on
// renewing a holder's lease; and never a silence of less than 0.1 s, which
// [WithMaxWait] may have cut short. The default is to refuse with ErrUnavailable.
func WithRunUnlocked() Option {
	return option(func(s *settings) error {
		s.runUnlocked = true
		return nil
	})
}

// WithRetention sets how long a finished execution is remembered by
// [Engine.Once], and a version by [Engine.Raise]. At least a millisecond. Default [DefaultRetention].
func WithRetention(d time.Duration) Option {
	return option(func(s *settings) error {
		if d < time.Millisecond {
			return &OptionError{Option: "WithRetention", Value: d, Want: "1ms or more"}
		}
		s.retention = d
		return nil
	})
}

// WithResultLimit sets how many bytes of a result [Engine.Once] keeps. A larger
// result reaches its caller and is not kept: repeats get ErrResultNotKept. 0 keeps
// no result, so a record takes some 300 bytes at the store, whatever the function
// returns. Default [DefaultResultLimit].
func WithResultLimit(bytes int) Option {
	return option(func(s *settings) error {
		if bytes < 0 {
			return &OptionError{Option: "WithResultLimit", Value: bytes, Want: "0 or more"}
		}
		s.resultLimit = bytes
		return nil
	})
}

// WithFingerprint gives [Engine.Once] a digest of what is to be executed. A
// repeat of the key with another fingerprint is refused with
// ErrFingerprintMismatch instead of being answered with a result that belongs
// to something else. Empty: nothing is compared.
func WithFingerprint(digest []byte) CallOption {
	return callOption(func(s *settings) error {
		s.fingerprint = slices.Clone(digest)
		return nil
	})
}

// WithoutFingerprint has [Engine.Once] compare nothing, whatever digest a
// middleware gives it: for content that differs from one delivery to the next
// without meaning anything else, such as a gateway's own time stamp.
func WithoutFingerprint() CallOption {
	return callOption(func(s *settings) error {
		s.anyContent = true
		return nil
	})
}

// WithRule names the rule that asks, for hooks. Rule names become metric
// labels: use few.
func WithRule(name string) CallOption {
	return callOption(func(s *settings) error {
		s.rule = name
		return nil
	})
}

// WithMaxWaiters caps the line for each key in this process, in which the caller
// that asks the store is the first; one more gets ErrTooManyWaiters. At least 1. Default [DefaultMaxWaiters].
func WithMaxWaiters(n int) EngineOption {
	return engineOption(func(c *engineConfig) error {
		if n < 1 {
			return &OptionError{Option: "WithMaxWaiters", Value: n, Want: "1 or more"}
		}
		c.maxWaiters = n
		return nil
	})
}

// WithMaxWaitersTotal caps the callers that wait in all lines of the engine
// together: when many keys are contended at once, waiting goroutines could fill the
// memory without any one line being long. One more gets ErrTooManyWaiters, but only
// if others stand in front of it: a caller that finds nobody in line for its key is
// never refused, so that a flood on some keys leaves the others alone. A caller that
// asks the store does not count; one that wants a set counts once. At least 1.
// Default [DefaultMaxWaitersTotal].
func WithMaxWaitersTotal(n int) EngineOption {
	return engineOption(func(c *engineConfig) error {
		if n < 1 {
			return &OptionError{Option: "WithMaxWaitersTotal", Value: n, Want: "1 or more"}
		}
		c.maxWaitersTotal = n
		return nil
	})
}

// WithCircuit sets for how long the store must have failed to answer anything
// before acquisitions are refused at once, with an error that matches
// ErrCircuitOpen and ErrUnavailable, instead of each waiting for its timeout.
// From then on one request is let through every now and then, after pauses that
// grow from 0.1 s to 2 s, and any answer to one ends the refusals. Renewals and
// releases are always sent. 0: never. Default [DefaultCircuit].
//
// Where a store consists of parts that fail by themselves, as a Redis Cluster does
// ([driver.Partitioned]), each part counts alone: only acquisitions of its keys are refused.
//
// Only a store that is out has that effect: no held key, however long it is
// held, and no caller who hangs up. To [WithRunUnlocked] it is an outage like
// any other.
func WithCircuit(silence time.Duration) EngineOption {
	return engineOption(func(c *engineConfig) error {
		if silence < 0 {
			return &OptionError{Option: "WithCircuit", Value: silence, Want: "0 or more"}
		}
		c.circuit = silence
		return nil
	})
}

// WithReleaseTimeout bounds how long a release may take when the store does
// not answer, and how long [Engine.Close] tries to send those that the store has not
// answered. Default [DefaultReleaseTimeout].
func WithReleaseTimeout(d time.Duration) EngineOption {
	return engineOption(func(c *engineConfig) error {
		if d <= 0 {
			return &OptionError{Option: "WithReleaseTimeout", Value: d, Want: "more than 0"}
		}
		c.releaseTimeout = d
		return nil
	})
}

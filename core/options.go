package core

import (
	"slices"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/holdstats"
)

// EngineOption configures an engine; see [New].
type EngineOption interface {
	applyEngine(*engineConfig) error
}

// CallOption configures one acquisition or execution.
type CallOption interface {
	apply(*settings) error
}

// Option is an [EngineOption] and a [CallOption]: given to [New] it is the engine's default, given
// to a call it holds for that call.
//
// Options apply in order, so the last one about a matter counts: of two WithTTL the second, of
// [WithMaxWait] and [WithFailFast] the later. A [Policy] stands for its options. The options of a call
// come after those of New. An option that is wrong is an error, also if a later one overrides it.
type Option interface {
	EngineOption
	CallOption
}

// WithTTL sets how long the store keeps a lease after its last renewal. So it is how long a
// crashed holder blocks its key. The watchdog renews a living holder's lease three times per
// TTL. A lease that is handed on within a process begins with what is left of its
// predecessor's; see [Lease.TTL].
//
// The range is 10 ms to 24 h, or less if the store says so ([driver.TTLs]). Any other TTL is an
// [*OptionError] of [New], of a rule's constructor, or of the call. The TTL is rounded up to a
// whole step of the store, which is a millisecond unless the store says otherwise. Default:
// 15 s, or the nearest that the store can keep. It replaces [WithAdaptiveTTL].
func WithTTL(d time.Duration) Option {
	return option(func(s *settings) error {
		if d < driver.MinTTL || d > driver.MaxTTL {
			return &OptionError{Option: "WithTTL", Value: d, Want: "10ms to 24h"}
		}
		s.ttl, s.adaptive = d, holdstats.Bounds{}
		return nil
	})
}

// WithMaxWait bounds the wait for a held key. After it the error matches ErrWaitTimeout.
//
// d must be more than 0, otherwise the option is an [*OptionError]. [Forever] means that only the
// context bounds the wait. Default: 30 s, so that a caller without a deadline does not wait for
// ever. It replaces [WithFailFast].
func WithMaxWait(d time.Duration) Option {
	return option(func(s *settings) error {
		s.maxWait, s.failFast = bounded(d), false
		return driver.CheckOption(d > 0, "WithMaxWait", d, "more than 0, or core.Forever, or WithFailFast")
	})
}

// WithFailFast refuses at once with ErrHeld instead of waiting for the holder. It is what
// [Engine.TryAcquire] does, for rules, [Engine.Do] and [Engine.Once]. If the store does not
// answer, it is an outage (ErrUnavailable) after 5 s, or after the maximum wait if that is shorter.
// Off by default, and after a later [WithMaxWait].
func WithFailFast() Option {
	return option(func(s *settings) error {
		s.failFast = true
		return nil
	})
}

// WithMaxHold bounds how long a lease is renewed. After it the lease counts as lost
// (driver.LossMaxHold) and ends at the store within its TTL, so that a handler that hangs does
// not hold its key for ever.
//
// d must be more than 0, otherwise the option is an [*OptionError]. [Forever] means no bound.
// Default: 10 minutes.
func WithMaxHold(d time.Duration) Option {
	return option(func(s *settings) error {
		s.maxHold = bounded(d)
		return driver.CheckOption(d > 0, "WithMaxHold", d, "more than 0, or core.Forever")
	})
}

// WithoutCancelOnLoss keeps the lease's context alive when the lease is lost. It is for work
// that does more harm if it is cut off than if it overlaps. Such work should check [Lease.Err]
// before each step that must not overlap, or be fenced. By default a loss cancels the context.
func WithoutCancelOnLoss() Option {
	return option(func(s *settings) error {
		s.keepContext = true
		return nil
	})
}

// WithRunUnlocked makes [Engine.Do], [Engine.DoAll] and [Engine.Once] run the function without a
// lock if the store does not answer. Off by default: the error then matches ErrUnavailable.
//
// Only such an outage has that effect. A held key, a timeout and a lost lease never have it.
// Neither has a store that answers that it can't serve (out of memory, read-only, too few
// replicas, no permission), because it may still renew another holder's lease. Neither has a
// silence of less than 0.1 s, which the maximum wait may have cut short.
func WithRunUnlocked() Option {
	return option(func(s *settings) error {
		s.runUnlocked = true
		return nil
	})
}

// WithRetention sets how long the store keeps the record of an execution ([Engine.Once]), and a
// version ([Engine.AdvanceVersion]) after the last call that asked for it.
//
// d must be 1 ms or more, otherwise the option is an [*OptionError]. More than 100 years, such as
// [Forever], count as 100 years. Default: 24 h.
func WithRetention(d time.Duration) Option {
	return option(func(s *settings) error {
		s.retention = min(d, longestRetention)
		return driver.CheckOption(d >= time.Millisecond, "WithRetention", d, "1ms or more")
	})
}

// WithResultLimit sets the size, in bytes, of the largest result that [Engine.Once] keeps. A
// larger result reaches its own caller only: repeats get ErrResultNotKept. With 0 no result is
// kept, and a record takes some 300 bytes at the store.
//
// bytes must be 0 or more, otherwise the option is an [*OptionError]. Default: 65536 (64 KiB).
func WithResultLimit(bytes int) Option {
	return option(func(s *settings) error {
		s.resultLimit = bytes
		return driver.CheckOption(bytes >= 0, "WithResultLimit", bytes, "0 or more")
	})
}

// WithFingerprint gives [Engine.Once] a digest of what is to be executed. A repeat of the key
// with another fingerprint gets ErrFingerprintMismatch instead of a result that belongs to
// something else. The digest is copied. If it is empty, or the record has none, nothing is
// compared; that is the default. Other calls ignore it.
func WithFingerprint(digest []byte) CallOption {
	return callOption(func(s *settings) error {
		s.fingerprint = slices.Clone(digest)
		return nil
	})
}

// WithoutFingerprint makes [Engine.Once] compare no fingerprint, also if a middleware gives one.
// It is for content that differs between deliveries without meaning anything else, such as a
// gateway's own time stamp. Off by default. Other calls ignore it.
func WithoutFingerprint() CallOption {
	return callOption(func(s *settings) error {
		s.anyContent = true
		return nil
	})
}

// WithRule names the rule that asks, for hooks, logs and [WithAdaptiveTTL]. Rule names become
// metric labels, so use few. Default: "", no rule. A middleware names its rules itself; there
// the option replaces that name.
func WithRule(name string) CallOption {
	return callOption(func(s *settings) error {
		s.rule = name
		return nil
	})
}

// WithMaxWaiters caps the callers of this process that wait for one key, with the one that asks
// the store. One more caller gets ErrTooManyWaiters at once.
//
// n must be 1 or more, otherwise the option is an [*OptionError]. Default: 1000.
func WithMaxWaiters(n int) EngineOption {
	return engineOption(func(c *engineConfig) error {
		c.maxWaiters = n
		return driver.CheckOption(n >= 1, "WithMaxWaiters", n, "1 or more")
	})
}

// WithMaxWaitersTotal caps the callers that wait in the engine, for all keys together. Without
// it, waiting goroutines could fill the memory although no single queue is long. One more
// caller gets ErrTooManyWaiters at once, but only if others wait in front of it. A caller that
// finds nobody in line for its key is never refused, so a flood on some keys does not shut out
// the others. A caller that asks the store does not count. A caller that wants a set counts
// once.
//
// n must be 1 or more, otherwise the option is an [*OptionError]. Default: 20000.
func WithMaxWaitersTotal(n int) EngineOption {
	return engineOption(func(c *engineConfig) error {
		c.maxWaitersTotal = n
		return driver.CheckOption(n >= 1, "WithMaxWaitersTotal", n, "1 or more")
	})
}

// WithCircuit sets how long the store must have failed to answer anything before the engine
// refuses acquisitions at once, with an error that matches ErrCircuitOpen and ErrUnavailable,
// instead of letting each wait for its timeout. From then on the engine sends one request now
// and then, after pauses that grow from 0.1 s to 0.5 s. Any answer to one ends the refusals.
// Renewals and releases are always sent. Only a request that has failed tells of the silence: if the
// store hangs, the first callers wait until their time is up.
//
// silence must be more than 0, otherwise the option is an [*OptionError]. [Forever] means never.
// Default: 2 s.
//
// If a store consists of parts that fail independently ([driver.Description]), such as a Redis
// Cluster, each part counts alone: only acquisitions of its keys are refused. A held key and a
// caller that hangs up have no such effect. To [WithRunUnlocked] it is an outage like any other.
func WithCircuit(silence time.Duration) EngineOption {
	return engineOption(func(c *engineConfig) error {
		c.circuit = bounded(silence)
		return driver.CheckOption(silence > 0, "WithCircuit", silence, "more than 0, or core.Forever")
	})
}

// WithReleaseTimeout bounds three waits for the store:
//
//   - that of each release;
//   - that of [Engine.Close], for releases that the store has not answered;
//   - that of a call for operators without a deadline of its own ([Engine.Inspect]).
//
// d must be more than 0, otherwise the option is an [*OptionError]. Default: 5 s.
func WithReleaseTimeout(d time.Duration) EngineOption {
	return engineOption(func(c *engineConfig) error {
		c.releaseTimeout = d
		return driver.CheckOption(d > 0, "WithReleaseTimeout", d, "more than 0")
	})
}

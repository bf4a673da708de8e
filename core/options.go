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

// Option is both: given to [New] it is the engine's default, given to a call
// it holds for that call.
//
// The order of options means nothing. There are three levels: what is given to New, the
// options in a [Policy], and those that are given beside it or without one. An option
// overrides what a lower level says about the same matter. On one level a matter is
// decided once: the same option twice, two that exclude each other, such as
// [WithMaxWait] and [WithFailFast], and two policies about the same matter are an
// [*OptionError].
type Option interface {
	EngineOption
	CallOption
}

// WithTTL sets for how long the store keeps the lease after the last sign of life, that
// is, how long a crashed holder blocks its key. The watchdog renews a living holder's
// lease three times per TTL. A lease that is handed on within a process begins with what
// is left of its predecessor's; see [Lease.TTL].
//
// 10 ms to 24 h ([driver.MinTTL], [driver.MaxTTL]), or less than that if the store says so
// ([driver.TTLs]), otherwise an [*OptionError] from [New], from a rule's constructor or from
// the call. It is rounded up to a whole step of the store, which is a millisecond unless the
// store says otherwise; [Lease.TTL] returns the result. Default 30 s, or the nearest that
// the store can keep. It excludes [WithAdaptiveTTL].
func WithTTL(d time.Duration) Option {
	return option{"WithTTL", aboutTTL, func(s *settings) error {
		if d < driver.MinTTL || d > driver.MaxTTL {
			return &OptionError{Option: "WithTTL", Value: d, Want: "10ms to 24h"}
		}
		s.ttl, s.adaptive = d, holdstats.Bounds{}
		return nil
	}}
}

// WithMaxWait bounds the wait for a held key. When it is over the error matches
// ErrWaitTimeout.
//
// More than 0, otherwise an [*OptionError]; [Forever] means no bound but the context's.
// Default 30 s, so that a caller without a deadline does not wait for ever. It excludes
// [WithFailFast].
func WithMaxWait(d time.Duration) Option {
	return option{"WithMaxWait", aboutWait, func(s *settings) error {
		if d <= 0 {
			return &OptionError{Option: "WithMaxWait", Value: d, Want: "more than 0, or core.Forever, or WithFailFast"}
		}
		s.maxWait, s.failFast = bounded(d), false
		return nil
	}}
}

// WithFailFast refuses at once with ErrHeld instead of waiting for the holder. A store
// that does not answer is an outage after 5 s, or after the maximum wait of the level
// below if that is shorter (see [Option]). It excludes [WithMaxWait].
func WithFailFast() Option {
	return option{"WithFailFast", aboutWait, func(s *settings) error {
		s.failFast = true
		return nil
	}}
}

// WithMaxHold bounds how long a lease is renewed. After it the lease counts as lost
// ([driver.LossMaxHold]) and runs out within its TTL, so that a handler that hangs does not hold
// its key for ever.
//
// More than 0, otherwise an [*OptionError]; [Forever] means no bound. Default 10 min.
func WithMaxHold(d time.Duration) Option {
	return option{"WithMaxHold", aboutMaxHold, func(s *settings) error {
		if d <= 0 {
			return &OptionError{Option: "WithMaxHold", Value: d, Want: "more than 0, or core.Forever"}
		}
		s.maxHold = bounded(d)
		return nil
	}}
}

// WithoutCancelOnLoss keeps the lease's context alive when the lease is lost. It is for
// work that does more harm when cut off than when overlapped: such work should look at
// [Lease.Err] before each step that must not overlap, or be fenced. Default: a loss
// cancels the context.
func WithoutCancelOnLoss() Option {
	return option{"WithoutCancelOnLoss", aboutContext, func(s *settings) error {
		s.keepContext = true
		return nil
	}}
}

// WithRunUnlocked makes [Engine.Do], [Engine.DoAll] and [Engine.Once] run the
// function without any lock when the store does not answer. Only such an outage has
// that effect: never a held key, a timeout or a lost lease; never a store that answers
// that it cannot serve (out of memory, read-only, too few replicas), as it may go on
// renewing a holder's lease; and never a silence of less than 0.1 s, which
// [WithMaxWait] may have cut short. The default is to refuse with ErrUnavailable.
func WithRunUnlocked() Option {
	return option{"WithRunUnlocked", aboutUnlocked, func(s *settings) error {
		s.runUnlocked = true
		return nil
	}}
}

// WithRetention sets for how long [Engine.Once] remembers a finished execution, and
// [Engine.Raise] a version.
//
// At least 1 ms, otherwise an [*OptionError]. Default 24 h.
func WithRetention(d time.Duration) Option {
	return option{"WithRetention", aboutRetention, func(s *settings) error {
		if d < time.Millisecond {
			return &OptionError{Option: "WithRetention", Value: d, Want: "1ms or more"}
		}
		s.retention = d
		return nil
	}}
}

// WithResultLimit sets how many bytes of a result [Engine.Once] keeps. A larger result
// reaches its caller and is not kept: repeats get ErrResultNotKept. With 0 no result is
// kept, so a record takes some 300 bytes at the store, whatever the function returns.
//
// 0 or more, otherwise an [*OptionError]. Default 65536 (64 KiB).
func WithResultLimit(bytes int) Option {
	return option{"WithResultLimit", aboutResultLimit, func(s *settings) error {
		if bytes < 0 {
			return &OptionError{Option: "WithResultLimit", Value: bytes, Want: "0 or more"}
		}
		s.resultLimit = bytes
		return nil
	}}
}

// WithFingerprint gives [Engine.Once] a digest of what is to be executed. A
// repeat of the key with another fingerprint is refused with
// ErrFingerprintMismatch instead of being answered with a result that belongs
// to something else. Empty: nothing is compared.
func WithFingerprint(digest []byte) CallOption {
	return callOption{"WithFingerprint", aboutFingerprint, func(s *settings) error {
		s.fingerprint = slices.Clone(digest)
		return nil
	}}
}

// WithoutFingerprint has [Engine.Once] compare nothing, whatever digest a
// middleware gives it: for content that differs from one delivery to the next
// without meaning anything else, such as a gateway's own time stamp.
func WithoutFingerprint() CallOption {
	return callOption{"WithoutFingerprint", aboutAnyContent, func(s *settings) error {
		s.anyContent = true
		return nil
	}}
}

// WithRule names the rule that asks, for hooks and for [WithAdaptiveTTL]. Rule names
// become metric labels, so use few. Default, and "": no rule.
func WithRule(name string) CallOption {
	return callOption{"WithRule", aboutRule, func(s *settings) error {
		s.rule = name
		return nil
	}}
}

// WithMaxWaiters caps the line for each key in this process. The caller that asks the
// store is the first in it. One more caller gets ErrTooManyWaiters.
//
// At least 1, otherwise an [*OptionError]. Default 1000.
func WithMaxWaiters(n int) EngineOption {
	return engineOption{"WithMaxWaiters", aboutMaxWaiters, func(c *engineConfig) error {
		if n < 1 {
			return &OptionError{Option: "WithMaxWaiters", Value: n, Want: "1 or more"}
		}
		c.maxWaiters = n
		return nil
	}}
}

// WithMaxWaitersTotal caps the callers that wait in all lines of the engine together. When
// many keys are contended at once, waiting goroutines could otherwise fill the memory
// without any one line being long. One more caller gets ErrTooManyWaiters, but only if
// others stand in front of it. A caller that finds nobody in line for its key is never
// refused, so a flood on some keys leaves the others alone. A caller that asks the store
// does not count; one that wants a set counts once.
//
// At least 1, otherwise an [*OptionError]. Default 20000.
func WithMaxWaitersTotal(n int) EngineOption {
	return engineOption{"WithMaxWaitersTotal", aboutMaxWaitersTotal, func(c *engineConfig) error {
		if n < 1 {
			return &OptionError{Option: "WithMaxWaitersTotal", Value: n, Want: "1 or more"}
		}
		c.maxWaitersTotal = n
		return nil
	}}
}

// WithCircuit sets for how long the store must have failed to answer anything
// before acquisitions are refused at once, with an error that matches
// ErrCircuitOpen and ErrUnavailable, instead of each waiting for its timeout.
// From then on one request is let through every now and then, after pauses that
// grow from 0.1 s to 2 s, and any answer to one ends the refusals. Renewals and
// releases are always sent.
//
// More than 0, otherwise an [*OptionError]; [Forever] means never. Default 2 s.
//
// Where a store consists of parts that fail by themselves, as a Redis Cluster does
// ([driver.Description]), each part counts alone: only acquisitions of its keys are refused.
//
// Only a store that is out has that effect: no held key, however long it is
// held, and no caller who hangs up. To [WithRunUnlocked] it is an outage like
// any other.
func WithCircuit(silence time.Duration) EngineOption {
	return engineOption{"WithCircuit", aboutCircuit, func(c *engineConfig) error {
		if silence <= 0 {
			return &OptionError{Option: "WithCircuit", Value: silence, Want: "more than 0, or core.Forever"}
		}
		c.circuit = bounded(silence)
		return nil
	}}
}

// WithReleaseTimeout bounds how long a release may take when the store does not answer,
// and for how long [Engine.Close] sends releases that the store has not answered.
//
// More than 0, otherwise an [*OptionError]. Default 5 s.
func WithReleaseTimeout(d time.Duration) EngineOption {
	return engineOption{"WithReleaseTimeout", aboutReleaseTimeout, func(c *engineConfig) error {
		if d <= 0 {
			return &OptionError{Option: "WithReleaseTimeout", Value: d, Want: "more than 0"}
		}
		c.releaseTimeout = d
		return nil
	}}
}

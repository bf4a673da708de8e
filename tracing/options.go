package tracing

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/keyturn/keyturn/core"
)

// minKeySecret is the minimum length of a secret for [WithKeySecret], in bytes.
const minKeySecret = 16

// Option configures the hooks of [New]. A nil Option changes nothing.
type Option func(*config) error

type config struct {
	tracers     trace.TracerProvider // nil: the global provider
	meters      metric.MeterProvider
	propagators propagation.TextMapPropagator
	attributes  []attribute.KeyValue
	keys        keys
	owners      bool
}

func newConfig(opts []Option) (config, error) {
	cfg := config{
		meters:      otel.GetMeterProvider(),
		propagators: propagation.TraceContext{},
	}
	var errs []error
	for _, o := range opts {
		if o != nil {
			errs = append(errs, o(&cfg))
		}
	}
	if cfg.keys.secret == nil {
		cfg.keys.secret = make([]byte, 2*minKeySecret)
		rand.Read(cfg.keys.secret) // cannot fail: crypto/rand ends the program instead
	}
	return cfg, errors.Join(errs...)
}

// WithTracerProvider sets where spans go. nil, the default, means the global provider,
// [otel.GetTracerProvider]. While none is set, spans are dropped; once one is set, they go
// there.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(c *config) error {
		if p != nil {
			c.tracers = p
		}
		return nil
	}
}

// WithMeterProvider sets where measurements go. nil, the default, means the global provider,
// [otel.GetMeterProvider]. While none is set, nothing is measured.
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(c *config) error {
		if p != nil {
			c.meters = p
		}
		return nil
	}
}

// WithPropagators sets the form in which a trace is kept with a lease and a record, for links
// from other processes. nil, the default, means W3C's traceparent. It does not depend on the
// program's global propagator, so that all programs that share a store can read it.
// Traceparents are always read, whatever is set. Set another one for a fleet whose traces only
// its own propagator can describe. Baggage is never kept, nor anything longer than
// [driver.MaxNoteBytes].
//
// The framework's instrumentation, and lockasynq.TraceHeaders, carry traces from one service to
// the next. They use the global propagator.
func WithPropagators(p propagation.TextMapPropagator) Option {
	return func(c *config) error {
		if p != nil {
			c.propagators = p
		}
		return nil
	}
}

// WithAttributes adds attributes to every span and every measurement. Samplers see them. A
// [semconv.StoreKey] among the attributes replaces the store's own name, for example
// StoreKey.String("redis-sessions").
func WithAttributes(attrs ...attribute.KeyValue) Option {
	return func(c *config) error {
		for _, a := range attrs {
			if !a.Valid() {
				return &core.OptionError{Option: "WithAttributes", Value: a, Want: "attributes with a key and a value"}
			}
		}
		c.attributes = slices.Clone(attrs)
		return nil
	}
}

// WithKeySecret sets the secret for key hashes. Processes with the same secret show the same
// hash for the same key, also after a restart. It has at least 16 random bytes.
// Anybody who has it can test guesses of a key against a hash. Default: a random secret per
// [New], so hashes match within these hooks only.
func WithKeySecret(secret []byte) Option {
	return func(c *config) error {
		if len(secret) < minKeySecret {
			return &core.OptionError{
				Option: "WithKeySecret",
				Value:  fmt.Sprintf("%d bytes", len(secret)), // the secret itself must not be shown
				Want:   fmt.Sprintf("%d bytes or more", minKeySecret),
			}
		}
		c.keys.secret = slices.Clone(secret)
		return nil
	}
}

// WithOwners shows owners, as the store has them: on the span of a hold its own owner, and on
// that of an acquisition the owner that is in the way. An owner helps to find the process, or a
// foreign client, which has no trace to link to. But it names the machine and the process (see
// [driver.ParseOwner]), and a foreign client's may be anything. Owners are never on a
// measurement.
func WithOwners() Option {
	return func(c *config) error {
		c.owners = true
		return nil
	}
}

// WithRawKeys shows the keys themselves, for all rules and for calls without a rule. They are
// then stored wherever spans are stored, and for as long.
func WithRawKeys() Option {
	return func(c *config) error {
		c.keys.rawAll = true
		return nil
	}
}

// WithRawKeysFor shows the keys of the rules with these names (see [core.WithRule]), and hashes
// all others. It replaces [WithRawKeys].
func WithRawKeysFor(rules ...string) Option {
	return func(c *config) error {
		c.keys.rawAll, c.keys.rawRules = false, slices.Clone(rules)
		return nil
	}
}

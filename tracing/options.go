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

// MinKeySecret is how many bytes a secret for [WithKeySecret] must have.
const MinKeySecret = 16

// Option configures the hooks of [New]. A nil Option changes nothing.
type Option func(*config) error

type config struct {
	tracers     trace.TracerProvider // nil: the global one
	meters      metric.MeterProvider
	propagators propagation.TextMapPropagator
	attributes  []attribute.KeyValue
	keys        keys
	owners      bool
}

func newConfig(opts []Option) (config, error) {
	cfg := config{
		meters: otel.GetMeterProvider(),

		propagators: propagation.TraceContext{},

		keys: keys{rawRules: make(map[string]bool)},
	}
	var errs []error
	for _, o := range opts {
		if o != nil {
			errs = append(errs, o(&cfg))
		}
	}
	if cfg.keys.secret == nil {
		cfg.keys.secret = make([]byte, 2*MinKeySecret)
		rand.Read(cfg.keys.secret) // never fails: crypto/rand ends the program instead
	}
	return cfg, errors.Join(errs...)
}

// WithTracerProvider sets where spans go. nil, and the default: the global
// provider, [otel.GetTracerProvider]; when none is set yet, spans are dropped
// until one is, and go there from then on.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(c *config) error {
		if p != nil {
			c.tracers = p
		}
		return nil
	}
}

// WithMeterProvider sets where measurements go. nil, and the default: the global
// provider, [otel.GetMeterProvider]; when none is set yet, nothing is measured
// until one is.
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(c *config) error {
		if p != nil {
			c.meters = p
		}
		return nil
	}
}

// WithPropagators sets the form in which a trace is kept with a lease and a
// record, for links from other processes. nil, and the default: W3C's
// traceparent, whatever the program's global propagator is, so that all who
// share a store can read it; it is always read, too. Another one is for a fleet
// that has traces which only its own propagator can tell of. Baggage is never
// kept, and nothing that takes more than [driver.MaxNoteBytes].
//
// How traces get from one service to the next is for the framework's
// instrumentation, and for lockasynq.TraceHeaders, which go by the global
// propagator.
func WithPropagators(p propagation.TextMapPropagator) Option {
	return func(c *config) error {
		if p != nil {
			c.propagators = p
		}
		return nil
	}
}

// WithAttributes adds attributes to every span and every measurement. Samplers see
// them. Several of these add up. A [StoreKey] among them stands in place of what
// the engine's store calls itself, such as StoreKey.String("redis-sessions").
func WithAttributes(attrs ...attribute.KeyValue) Option {
	return func(c *config) error {
		for _, a := range attrs {
			if !a.Valid() {
				return &core.OptionError{Option: "WithAttributes", Value: a, Want: "attributes with a key and a value"}
			}
		}
		c.attributes = append(c.attributes, slices.Clone(attrs)...)
		return nil
	}
}

// WithKeySecret sets the secret that key hashes are made with, so that the
// processes that share it show the same hash for the same key, also after a
// restart. At least [MinKeySecret] random bytes; who has them can test guesses
// of a key against a hash. Default: a random secret per [New], so that
// hashes match within this process only.
func WithKeySecret(secret []byte) Option {
	return func(c *config) error {
		if len(secret) < MinKeySecret {
			return &core.OptionError{
				Option: "WithKeySecret",
				Value:  fmt.Sprintf("%d bytes", len(secret)), // not the secret
				Want:   fmt.Sprintf("%d bytes or more", MinKeySecret),
			}
		}
		c.keys.secret = slices.Clone(secret)
		return nil
	}
}

// WithOwners shows who holds what: the owner on the span of a hold, and on that of
// an acquisition the one who is in the way, as the store has them. That finds the
// process, and a foreign client, which has no trace to link to; but an owner names
// the machine and the process (see [driver.ParseOwner]), and a foreign client's is
// whatever it wrote. Never on a measurement.
func WithOwners() Option {
	return func(c *config) error {
		c.owners = true
		return nil
	}
}

// WithRawKeys shows the keys themselves, for all rules, and for what has none.
// They then are wherever spans are kept, and for as long.
func WithRawKeys() Option {
	return func(c *config) error {
		c.keys.rawAll = true
		return nil
	}
}

// WithRawKeysFor shows the keys of the rules with these names (see
// [core.WithRule]) and hashes those of the others. Several of these add up.
func WithRawKeysFor(rules ...string) Option {
	return func(c *config) error {
		for _, r := range rules {
			c.keys.rawRules[r] = true
		}
		return nil
	}
}

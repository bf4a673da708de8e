package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/proof/bench/lock"
	"github.com/keyturn/keyturn/proof/bench/stats"
)

// Growth returns scenarios that differ in a number: what an operation costs with a hundred and
// with a million leases held, and so on. The name of each ends in that number. The goal is a
// flat line.
func Growth(size Size) []Scenario {
	var all []Scenario
	grow := func(what, about string, first, last, factor int, measure func(n int) func(context.Context, *Env, string) ([]stats.Sample, error)) {
		for n := first; n <= last; n *= factor {
			all = append(all, Scenario{
				Name:    fmt.Sprintf("%s-%d", what, n),
				About:   fmt.Sprintf(about, n),
				Systems: []string{"keyturn"},
				Once:    n >= 100_000, // taking them takes longest
				Measure: measure(n),
			})
		}
	}
	grow("keys", "64 goroutines, a key each, while %d other leases are held", 100, size.Most.Keys, 10, besideHeld)
	grow("waiters", "%d goroutines on one key", 1, size.Most.Waiters, 10, manyWaiters)
	grow("processes", "%d processes of 4 goroutines", 1, size.Most.Processes, 2, manyProcesses)
	return all
}

// besideHeld measures pairs while n leases are held by the same engine.
func besideHeld(n int) func(context.Context, *Env, string) ([]stats.Sample, error) {
	return func(ctx context.Context, env *Env, system string) (_ []stats.Sample, err error) {
		callers := min(64, env.Size.MaxCallers)
		if err := env.reset(ctx); err != nil {
			return nil, err
		}
		cfg := env.config(callers)
		cfg.TTL = time.Hour // held-100k measures renewals
		l, err := lock.Open(system, cfg)
		if err != nil {
			return nil, err
		}
		defer closing(&err, l)
		unlocks, err := lockMany(ctx, l, n)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, unlockMany(ctx, unlocks)) }()
		did, err := load{callers, env.Size.warm(), env.Size.Span}.run(ctx, func(ctx context.Context, i int) (time.Duration, error) {
			_, took, err := pair(ctx, l, fmt.Sprintf("user:status:%d", i))
			return took, err
		})
		return []stats.Sample{perPair("µs/pair", did, env.Size.Span)}, err
	}
}

// manyWaiters measures how fast a key goes round in a process of n goroutines.
func manyWaiters(n int) func(context.Context, *Env, string) ([]stats.Sample, error) {
	return func(ctx context.Context, env *Env, system string) (_ []stats.Sample, err error) {
		l, err := env.open(ctx, system, n)
		if err != nil {
			return nil, err
		}
		defer closing(&err, l)
		did, err := load{n, env.Size.warm(), env.Size.Span}.run(ctx, func(ctx context.Context, _ int) (time.Duration, error) {
			waited, _, err := pair(ctx, l, hotKey)
			return waited, err
		})
		return []stats.Sample{perPair("µs/pair", did, env.Size.Span)}, err
	}
}

// manyProcesses measures how fast a key goes round in a fleet of n processes, and how many
// pairs they make together if each has a key of its own.
func manyProcesses(n int) func(context.Context, *Env, string) ([]stats.Sample, error) {
	return func(ctx context.Context, env *Env, system string) ([]stats.Sample, error) {
		var samples []stats.Sample
		for _, key := range []string{hotKey, ""} {
			did, _, err := env.loadFleet(ctx, system, key, n, 4)
			if err != nil {
				return nil, err
			}
			unit := "µs/pair"
			if key == "" {
				unit += " with a key each"
			}
			samples = append(samples, perPair(unit, did, env.Size.Span))
		}
		return samples, nil
	}
}

// perPair is the time between the end of one pair and the end of the next one, in the whole
// fleet.
func perPair(unit string, did report, span time.Duration) stats.Sample {
	return stats.Sample{Unit: unit, Value: float64(span) / float64(time.Microsecond) / float64(max(did.Done, 1))}
}

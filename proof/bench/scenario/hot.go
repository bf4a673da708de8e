package scenario

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/proof/bench/stats"
)

const (
	hotKey       = "group:members:7"
	hotCallers   = 64
	hotChildren  = 4
	childCallers = hotCallers / hotChildren
)

// hotOneProcess lets all goroutines of a process take the same key for a section that does
// nothing. So only the speed of the lock matters.
func hotOneProcess(ctx context.Context, env *Env, system string) (_ []stats.Sample, err error) {
	callers := min(hotCallers, env.Size.MaxCallers)
	l, err := env.open(ctx, system, callers)
	if err != nil {
		return nil, err
	}
	defer closing(&err, l)
	did, err := load{callers, env.Size.warm(), env.Size.Span}.run(ctx, func(ctx context.Context, _ int) (time.Duration, error) {
		waited, _, err := pair(ctx, l, hotKey)
		return waited, err
	})
	if err != nil {
		return nil, err
	}
	return append(pairFigures(did, env.Size.Span), unevenness(did)), nil
}

// hotProcesses is the same for goroutines of several processes. It combines the waits of all.
func hotProcesses(ctx context.Context, env *Env, system string) ([]stats.Sample, error) {
	did, most, err := env.loadFleet(ctx, system, hotKey, hotChildren, min(childCallers, env.Size.MaxCallers))
	if err != nil {
		return nil, err
	}
	share := stats.Sample{Unit: "largest share %", Value: 100 * float64(most) / float64(did.Done)}
	return append(pairFigures(did, env.Size.Span), unevenness(did), share), nil
}

// unevenness is how much longer the slowest waits are than the usual ones. For a strict queue
// it is a little more than 1.
func unevenness(did report) stats.Sample {
	half := max(did.Took.Quantile(0.5), time.Nanosecond)
	return stats.Sample{Unit: "p99/p50", Value: float64(did.Took.Quantile(0.99)) / float64(half)}
}

// loadFleet lets processes contend for a key. It returns what they did together, and how much of
// it the most successful process did.
func (e *Env) loadFleet(ctx context.Context, system, key string, children, callers int) (sum report, most uint64, err error) {
	if err := e.reset(ctx); err != nil {
		return sum, 0, err
	}
	task := task{System: system, Config: e.config(callers), Key: key, Warm: e.Size.warm(), Span: e.Size.Span}
	reports, err := runLoads(ctx, task, children)
	if err != nil {
		return sum, 0, err
	}
	sum.Took = stats.NewHistogram()
	for _, r := range reports {
		sum.Done += r.Done
		sum.Took.Merge(r.Took)
		most = max(most, r.Done)
	}
	if sum.Done == 0 {
		return sum, 0, errNothing
	}
	return sum, most, nil
}

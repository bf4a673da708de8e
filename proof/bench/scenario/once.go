package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/proof/bench/stats"
)

const onceCallers = 64

// once lets goroutines execute something once per key, each with keys of its own, and then ask
// for the same keys again.
func once(ctx context.Context, env *Env, system string) (_ []stats.Sample, err error) {
	callers := min(onceCallers, env.Size.MaxCallers)
	l, err := env.open(ctx, system, callers)
	if err != nil {
		return nil, err
	}
	defer closing(&err, l)
	var ran, next [onceCallers]int // by caller
	half := load{callers, env.Size.warm() / 2, env.Size.Span / 2}
	// Not the load's context: an execution that is cut off at its end may have run or not.
	run := func(_ context.Context, caller int) (time.Duration, error) {
		key := fmt.Sprintf("msg:%d:%d", caller, next[caller])
		began := time.Now()
		err := l.Once(ctx, key, func() { ran[caller]++ })
		next[caller]++
		return time.Since(began), err
	}
	first, err := half.run(ctx, run)
	if err != nil {
		return nil, err
	}
	executed := ran
	if ran != next {
		return nil, fmt.Errorf("first executions: %v of %v ran", ran, next)
	}
	again, err := half.run(ctx, func(ctx context.Context, caller int) (time.Duration, error) {
		next[caller] %= executed[caller] // from the first key on, again and again
		return run(ctx, caller)
	})
	if err != nil {
		return nil, err
	}
	if ran != executed {
		return nil, fmt.Errorf("repeats ran: %v instead of %v", ran, executed)
	}
	return []stats.Sample{
		perSecond("first", first.Done, half.span),
		micros("first p50", first.Took.Quantile(0.5)),
		micros("first p99", first.Took.Quantile(0.99)),
		perSecond("repeats", again.Done, half.span),
	}, nil
}

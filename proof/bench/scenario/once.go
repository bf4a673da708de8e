package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/proof/bench/lock"
	"github.com/keyturn/keyturn/proof/bench/stats"
)

const onceCallers = 64

// once lets goroutines execute something once per key, each with keys of its own, and then ask
// for the same keys again.
func once(ctx context.Context, p *place, system string) (_ []stats.Sample, err error) {
	half := p.load(onceCallers, p.size.Span/2)
	l, err := lock.Open(ctx, p.config(system, half.Callers))
	if err != nil {
		return nil, err
	}
	defer closing(&err, l.Close)
	var ran, next [onceCallers]int // by caller
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
	figures, err := first.figures("first")
	repeats, failed := again.figures("repeats")
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	return append(figures, repeats[0]), nil
}

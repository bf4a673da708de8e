package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/proof/bench/stats"
)

// uncontended lets goroutines lock and unlock, each on a key that nobody else wants: what the
// lock costs when it is not needed, which is most of the time. A measurement lasts for the
// size's span, ladderSpan at most.
func uncontended(callers int) func(context.Context, *Env, string) ([]stats.Sample, error) {
	return func(ctx context.Context, env *Env, system string) (_ []stats.Sample, err error) {
		callers, span := min(callers, env.Size.MaxCallers), min(ladderSpan, env.Size.Span)
		l, err := env.open(ctx, system, callers)
		if err != nil {
			return nil, err
		}
		defer closing(&err, l)
		keys := make([]string, callers)
		for i := range keys {
			keys[i] = fmt.Sprintf("user:status:%d", i)
		}
		did, spent, err := env.metered(ctx, load{callers, warm(span), span}, func(ctx context.Context, i int) (time.Duration, error) {
			_, took, err := pair(ctx, l, keys[i])
			return took, err
		})
		if err != nil {
			return nil, err
		}
		return append(pairFigures(did, span), spent.figures(did)...), nil
	}
}

// pairFigures are those of locking and unlocking.
func pairFigures(did report, span time.Duration) []stats.Sample {
	return []stats.Sample{
		perSecond("pairs", did.Done, span),
		micros("p50", did.Took.Quantile(0.5)),
		micros("p99", did.Took.Quantile(0.99)),
	}
}

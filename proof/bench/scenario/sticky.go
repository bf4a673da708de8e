package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/proof/bench/lock"
	"github.com/keyturn/keyturn/proof/bench/stats"
)

// stickyKeys is how many keys each goroutine asks for, one after the other, again and again.
const stickyKeys = 16

// sticky lets one process ask for its keys again and again, as a gateway does whose users stay
// connected to it. Nobody else wants the keys, so keyturn keeps its leases meanwhile
// (core.WithLinger). The peers have nothing like that, and ask the server for each.
func sticky(callers int) func(context.Context, *Env, string) ([]stats.Sample, error) {
	return func(ctx context.Context, env *Env, system string) (_ []stats.Sample, err error) {
		callers := min(callers, env.Size.MaxCallers)
		l, err := env.openWith(ctx, system, callers, func(c *lock.Config) { c.Sticky = true })
		if err != nil {
			return nil, err
		}
		defer closing(&err, l)
		keys := make([][stickyKeys]string, callers)
		next := make([]int, callers)
		for i := range keys {
			for k := range keys[i] {
				keys[i][k] = fmt.Sprintf("user:status:%d:%d", i, k)
			}
		}
		did, spent, err := env.metered(ctx, load{callers, env.Size.warm(), env.Size.Span}, func(ctx context.Context, i int) (time.Duration, error) {
			next[i]++
			_, took, err := pair(ctx, l, keys[i][next[i]%stickyKeys])
			return took, err
		})
		if err != nil {
			return nil, err
		}
		return append(pairFigures(did, env.Size.Span), spent.figures(did)...), nil
	}
}

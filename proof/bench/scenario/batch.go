package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/proof/bench/dblock"
	"github.com/keyturn/keyturn/proof/bench/lock"
	"github.com/keyturn/keyturn/proof/bench/stats"
)

// mostInBatch is how many messages a consumer gets in one call.
const mostInBatch = 500

// batchWays are the ways to execute the messages of a batch once.
var batchWays = []string{"OnceEach", "loop"}

// batches executes messages once, in batches. Half of each batch was executed before.
func batches(ctx context.Context, env *Env, way string) (_ []stats.Sample, err error) {
	l, err := env.open(ctx, "keyturn", 1)
	if err != nil {
		return nil, err
	}
	defer closing(&err, l)
	return batchesOf(ctx, env, l, way)
}

// sqlBatches does so in a database.
func sqlBatches(ctx context.Context, env *Env, d *sqltest.Database, way string) (_ []stats.Sample, err error) {
	l, err := dblock.Open(ctx, "keyturn", d)
	if err != nil {
		return nil, err
	}
	defer closing(&err, l)
	return batchesOf(ctx, env, l, way)
}

func batchesOf(ctx context.Context, env *Env, l lock.Locker, way string) ([]stats.Sample, error) {
	each, ok := l.(lock.EachOnce)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	size, ran, next := min(mostInBatch, env.Size.Held), 0, 0
	one := func() error {
		keys := make([]string, size)
		for i := range keys {
			keys[i] = fmt.Sprint("msg:", next+i)
		}
		next += size / 2
		if way == batchWays[0] {
			return each.OnceEach(ctx, keys, func(fresh int) { ran += fresh })
		}
		for _, key := range keys {
			if err := l.Once(ctx, key, func() { ran++ }); err != nil {
				return err
			}
		}
		return nil
	}
	if err := one(); err != nil { // the connections
		return nil, err
	}
	began, rounds := time.Now(), 0
	for rounds == 0 || time.Since(began) < env.Size.Span {
		if err := one(); err != nil {
			return nil, err
		}
		rounds++
	}
	took := time.Since(began)
	if want := size + rounds*(size/2); ran != want {
		return nil, fmt.Errorf("%d messages ran of %d", ran, want)
	}
	return []stats.Sample{perSecond("messages", uint64(rounds*size), took)}, nil
}

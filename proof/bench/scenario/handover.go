package scenario

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/keyturn/keyturn/proof/bench/stats"
)

// handover lets two processes pass a key back and forth. It measures from the moment before one
// begins to release it to the moment after the other was told that it has it. Both are on this
// machine, so they have the same clock.
func handover(ctx context.Context, env *Env, system string) (_ []stats.Sample, err error) {
	if err := env.reset(ctx); err != nil {
		return nil, err
	}
	pair, err := startChildren(ctx, task{System: system, Config: env.config(1), Key: hotKey}, 2)
	if err != nil {
		return nil, err
	}
	defer closing(&err, pair)

	holder, waiter := pair[0], pair[1]
	if err := holder.Send(orderLock); err != nil {
		return nil, err
	}
	if _, err := hear(holder); err != nil {
		return nil, err
	}
	took := stats.NewHistogram()
	for range env.Size.Handovers {
		if err := waiter.Send(orderLock); err != nil {
			return nil, err
		}
		// Until the other process waits. The time varies, because otherwise a process that
		// polls would always be met at the same point of its delay.
		time.Sleep(3*time.Millisecond + rand.N(15*time.Millisecond))
		if err := holder.Send(orderUnlock); err != nil {
			return nil, err
		}
		released, err := hear(holder)
		if err != nil {
			return nil, err
		}
		granted, err := hear(waiter)
		if err != nil {
			return nil, err
		}
		took.Record(time.Duration(granted.At - released.At))
		holder, waiter = waiter, holder
	}
	return latencies(took), nil
}

func latencies(took *stats.Histogram) []stats.Sample {
	return []stats.Sample{micros("p50", took.Quantile(0.5)), micros("p99", took.Quantile(0.99))}
}

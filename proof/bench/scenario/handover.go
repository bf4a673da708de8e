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
//
// Its limit is a single round trip of a script.
func handover(ctx context.Context, env *Env, system string) (_ []stats.Sample, err error) {
	if system == Limit {
		return env.roundTrip(ctx)
	}
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

// roundTrip measures a release on a connection that has the server for itself, after a pause as
// long as that of the waiters.
func (e *Env) roundTrip(ctx context.Context) (_ []stats.Sample, err error) {
	b, err := newBatch(ctx, e.Addrs[0], 0, 1, 1)
	if err != nil {
		return nil, err
	}
	defer closing(&err, b.conn)
	took := stats.NewHistogram()
	for range e.Size.Handovers {
		time.Sleep(3*time.Millisecond + rand.N(15*time.Millisecond))
		began := time.Now()
		if err := b.conn.Do(b.free, b.calls); err != nil {
			return nil, err
		}
		took.Record(time.Since(began))
	}
	return latencies(took), nil
}

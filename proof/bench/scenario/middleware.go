package scenario

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/proof/bench/stats"
	"github.com/keyturn/keyturn/store/memstore"
	"github.com/keyturn/keyturn/store/redisstore"
)

// users is how many keys the calls use in turn.
const users = 1000

// engine makes an engine over the store of that name, and returns a function that closes it.
func (e *Env) engine(ctx context.Context, store string) (_ *core.Engine, shut func() error, err error) {
	if store == "memstore" {
		eng, err := core.New(memstore.New())
		if err != nil {
			return nil, nil, err
		}
		return eng, func() error { return eng.Close(context.Background()) }, nil
	}
	if err := e.reset(ctx); err != nil {
		return nil, nil, err
	}
	client := redis.NewClient(&redis.Options{Addr: e.Addrs[0]})
	inRedis, err := redisstore.New(client)
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	eng, err := core.New(inRedis)
	if err != nil {
		return nil, nil, errors.Join(err, inRedis.Close(), client.Close())
	}
	return eng, func() error { return errors.Join(eng.Close(context.Background()), client.Close()) }, nil
}

// block is how many calls are timed together. It is small, so that other activity on the
// machine affects both sides alike. It is more than one, because reading the clock takes time,
// too.
const block = 20

// added measures how much longer locked takes than bare. Both are called in turn, in small
// blocks. Blocks that something else disturbed do not move the median of the differences.
// Allocations are those of the whole process, both ends of the connection.
func added(ctx context.Context, size Size, bare, locked func() error) ([]stats.Sample, error) {
	var plain, more []float64
	for end := time.Now().Add(size.warm() + size.Span); time.Now().Before(end); {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		without, _, err := calls(block, bare)
		if err != nil {
			return nil, err
		}
		with, _, err := calls(block, locked)
		if err != nil {
			return nil, fmt.Errorf("with the rule: %w", err)
		}
		plain = append(plain, without/block)
		more = append(more, (with-without)/block)
	}
	const many = 10 * block
	_, few, err := calls(many, bare)
	if err != nil {
		return nil, err
	}
	_, all, err := calls(many, locked)
	if err != nil {
		return nil, err
	}
	half := len(plain) / 4 // the first quarter warms up
	return []stats.Sample{
		{Unit: "µs added", Value: stats.Median(more[half:])},
		{Unit: "allocations added", Value: (all - few) / many},
		{Unit: "us without", Value: stats.Median(plain[half:])},
	}, nil
}

// calls calls n times. It returns how many microseconds that took, and how many
// allocations.
func calls(n int, call func() error) (us, allocations float64, err error) {
	var before, after runtime.MemStats
	counted := n > block // reading them stops the world, so not while time is measured
	if counted {
		runtime.ReadMemStats(&before)
	}
	began := time.Now()
	for range n {
		if err := call(); err != nil {
			return 0, 0, err
		}
	}
	us = float64(time.Since(began)) / float64(time.Microsecond)
	if counted {
		runtime.ReadMemStats(&after)
	}
	return us, float64(after.Mallocs - before.Mallocs), nil
}

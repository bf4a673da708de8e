package scenario

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/proof/bench/stats"
	"github.com/keyturn/keyturn/store/memstore"
	"github.com/keyturn/keyturn/store/redisstore"
)

// users is how many keys the calls use in turn.
const users = 1000

// block is how many calls are timed together. It is small, so that other activity on the
// machine affects both sides alike. It is more than one, because reading the clock takes time,
// too.
const block = 20

// calls are what is compared: a call for a user without a rule, and the same call with one. stop ends their
// servers.
type calls struct {
	bare, locked func(ctx context.Context, user int) error
	stop         func() error // nil: there are none
}

// added measures how much longer a call with a rule takes. Both are called in turn, in small
// blocks. Blocks that something else disturbed do not move the median of the differences.
// Allocations are those of the whole process, both ends of the connection.
func added(build func(*core.Engine) (calls, error)) func(context.Context, *place, string) ([]stats.Sample, error) {
	return func(ctx context.Context, p *place, system string) (_ []stats.Sample, err error) {
		var store driver.Store = memstore.New()
		if system == "redis" {
			if store, err = redisstore.New(p.servers[0]); err != nil {
				return nil, err
			}
		}
		eng, err := core.New(store)
		if err != nil {
			return nil, errors.Join(err, store.Close())
		}
		defer closing(&err, func() error { return eng.Close(context.WithoutCancel(ctx)) })
		c, err := build(eng)
		if err != nil {
			return nil, err
		}
		if c.stop != nil {
			defer closing(&err, c.stop)
		}
		return c.compare(ctx, p.size.Span*6/5)
	}
}

func (c calls) compare(ctx context.Context, span time.Duration) ([]stats.Sample, error) {
	bare, locked := inTurn(ctx, c.bare), inTurn(ctx, c.locked)
	var plain, more []float64
	for end := time.Now().Add(span); time.Now().Before(end); {
		without, _, err := repeat(block, bare)
		if err != nil {
			return nil, err
		}
		with, _, err := repeat(block, locked)
		if err != nil {
			return nil, fmt.Errorf("with the rule: %w", err)
		}
		plain, more = append(plain, without/block), append(more, (with-without)/block)
	}
	const many = 10 * block
	_, few, err := repeat(many, bare)
	if err != nil {
		return nil, err
	}
	_, all, err := repeat(many, locked)
	quarter := len(plain) / 4 // warms up
	return []stats.Sample{
		{Unit: "µs added", Value: stats.Median(more[quarter:])},
		{Unit: "allocations added", Value: (all - few) / many},
		{Unit: "µs without", Value: stats.Median(plain[quarter:])},
	}, err
}

// inTurn returns a call, each time for the next user.
func inTurn(ctx context.Context, call func(ctx context.Context, user int) error) func() error {
	n := 0
	return func() error {
		n++
		return call(ctx, n%users)
	}
}

// repeat calls n times. It returns how many microseconds that took, and how many
// allocations.
func repeat(n int, call func() error) (us, allocations float64, err error) {
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

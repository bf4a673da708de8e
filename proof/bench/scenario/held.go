package scenario

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/keyturn/keyturn/proof/bench/lock"
	"github.com/keyturn/keyturn/proof/bench/stats"
)

// bulkCallers is how many goroutines take and release what is held.
const bulkCallers = 64

// held takes many leases and measures for a while what it costs to keep them alive: this
// process, which runs nothing else, and the server.
func held(ctx context.Context, p *place, system string) (_ []stats.Sample, err error) {
	cfg := p.config(system, bulkCallers)
	cfg.TTL, cfg.Renew = p.size.HeldTTL, true
	goroutines, memory := footprint()
	l, err := lock.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer closing(&err, l.Close)
	unlocks := make([]lock.Unlock, p.size.Held)
	if err := spread(p.size.Held, func(i int) (err error) {
		unlocks[i], err = l.Lock(ctx, fmt.Sprintf("session:%d", i))
		return err
	}); err != nil {
		return nil, err
	}
	defer func() { // this checks that they were still held
		err = errors.Join(err, spread(p.size.Held, func(i int) error { return unlocks[i](ctx) }))
	}()

	// Half a round later, so that leases that were taken together are not renewed just when the
	// measurement begins or ends.
	pause(ctx, cfg.TTL/3/2)
	began := time.Now()
	before, err := p.spent(ctx)
	if err != nil {
		return nil, err
	}
	pause(ctx, p.size.HeldSpan)
	after, err := p.spent(ctx)
	span := time.Since(began).Seconds()
	goroutinesNow, memoryNow := footprint()
	return []stats.Sample{
		{Unit: "goroutines", Value: float64(goroutinesNow - goroutines)},
		{Unit: "B/lease", Value: float64(memoryNow-memory) / float64(p.size.Held)},
		{Unit: "CPU %", Value: 100 * (after.client - before.client).Seconds() / span},
		{Unit: "server CPU %", Value: 100 * (after.server - before.server).Seconds() / span},
	}, err
}

// footprint is what this process takes up. The memory is heap that is in use, and stacks.
func footprint() (goroutines int, memory int64) {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the first call leaves what finalizers and pools held
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), int64(m.HeapAlloc + m.StackInuse)
}

// spread calls do for every number below count, on some goroutines. A goroutine stops after an
// error.
func spread(count int, do func(i int) error) error {
	var all errgroup.Group
	for g := range bulkCallers {
		all.Go(func() error {
			for i := g; i < count; i += bulkCallers {
				if err := do(i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return all.Wait()
}

// pause sleeps, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

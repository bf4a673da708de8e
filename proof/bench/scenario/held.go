package scenario

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/keyturn/keyturn/proof/bench/lock"
	"github.com/keyturn/keyturn/proof/bench/stats"
)

// bulkCallers is how many goroutines take and release what is held.
const bulkCallers = 64

// held takes many leases and measures for a while what it costs to keep them alive: in this
// process, which runs nothing else, and in commands to the server.
func held(ctx context.Context, env *Env, system string) (_ []stats.Sample, err error) {
	if err := env.reset(ctx); err != nil {
		return nil, err
	}
	sent := new(lock.Counter)
	cfg := env.config(bulkCallers)
	cfg.TTL, cfg.Renew, cfg.Sent = env.Size.HeldTTL, true, sent
	before := footprintNow()
	l, err := lock.Open(system, cfg)
	if err != nil {
		return nil, err
	}
	defer closing(&err, l)
	unlocks, err := lockMany(ctx, l, env.Size.Held)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlockMany(ctx, unlocks)) }()

	// Half a round later, so that leases that were taken together are not renewed just when the
	// measurement begins or ends.
	round := cfg.TTL / 3
	if err := pause(ctx, round/2); err != nil {
		return nil, err
	}
	begin := lookAround(sent)
	if err := pause(ctx, env.Size.HeldSpan); err != nil {
		return nil, err
	}
	end := lookAround(sent)
	after := footprintNow()

	count := float64(env.Size.Held)
	span := end.at.Sub(begin.at)
	commands := float64(end.commands - begin.commands)
	rounds := span.Seconds() / round.Seconds()
	return []stats.Sample{
		{Unit: "goroutines", Value: float64(after.goroutines - before.goroutines)},
		{Unit: "B/lease", Value: float64(after.memory-before.memory) / count},
		{Unit: "commands/s", Value: commands / span.Seconds()},
		{Unit: "commands per 100 renewals", Value: 100 * commands / (count * rounds)},
		{Unit: "CPU %", Value: 100 * (end.cpu - begin.cpu).Seconds() / span.Seconds()},
	}, nil
}

// footprint is what this process takes up.
type footprint struct {
	goroutines int
	memory     int64 // heap that is in use, and stacks
}

func footprintNow() footprint {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the first call leaves what finalizers and pools held
	runtime.ReadMemStats(&m)
	return footprint{runtime.NumGoroutine(), int64(m.HeapAlloc + m.StackInuse)}
}

// view is what was used up to a moment.
type view struct {
	at       time.Time
	cpu      time.Duration // of this process
	commands int64
}

func lookAround(sent *lock.Counter) view {
	v := view{at: time.Now(), commands: sent.Commands()}
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) == nil {
		v.cpu = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	return v
}

// lockMany locks so many keys.
func lockMany(ctx context.Context, l lock.Locker, count int) ([]lock.Unlock, error) {
	unlocks := make([]lock.Unlock, count)
	err := spread(count, func(i int) (err error) {
		unlocks[i], err = l.Lock(ctx, fmt.Sprintf("session:%d", i))
		return err
	})
	return unlocks, err
}

// unlockMany releases all of them, and so checks that they were still held.
func unlockMany(ctx context.Context, unlocks []lock.Unlock) error {
	return spread(len(unlocks), func(i int) error { return unlocks[i](ctx) })
}

// spread calls do for every number below count, on some goroutines. A goroutine stops after an
// error.
func spread(count int, do func(i int) error) error {
	var all sync.WaitGroup
	errs := make([]error, bulkCallers)
	for g := range bulkCallers {
		all.Go(func() {
			for i := g; i < count && errs[g] == nil; i += bulkCallers {
				errs[g] = do(i)
			}
		})
	}
	all.Wait()
	for _, err := range errs { // one error is enough
		if err != nil {
			return err
		}
	}
	return nil
}

// pause sleeps, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

package scenario

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/keyturn/keyturn/proof/bench/lock"
	"github.com/keyturn/keyturn/proof/bench/stats"
)

// load is a number of goroutines that do the same thing again and again for a while.
type load struct {
	callers int
	warm    time.Duration // not measured: connections, caches and scripts settle
	span    time.Duration
}

// report is what a load did within its span.
type report struct {
	Done uint64
	Took *stats.Histogram
}

var (
	// errOver ends what is still under way when the time is over.
	errOver    = errors.New("the time is over")
	errNothing = errors.New("nothing was done in time")
)

// run calls do in each goroutine until the time is over. do returns how long the part took that
// the scenario is about. The first error ends everything.
//
// At the end, run does not wait for goroutines that still wait: with a lock that loses a
// wake-up, that could take the rest of a lease's time.
func (l load) run(ctx context.Context, do func(ctx context.Context, caller int) (time.Duration, error)) (report, error) {
	begin := time.Now().Add(l.warm)
	end := begin.Add(l.span)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := time.AfterFunc(time.Until(end), func() { cancel(errOver) })
	defer over.Stop()

	var all sync.WaitGroup
	reports := make([]report, l.callers)
	for i := range reports {
		all.Go(func() {
			took := stats.NewHistogram()
			reports[i].Took = took
			for {
				d, err := do(ctx, i)
				now := time.Now()
				switch {
				case now.After(end):
					return
				case err != nil:
					cancel(err)
					return
				case now.After(begin):
					reports[i].Done++
					took.Record(d)
				}
			}
		})
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, errOver) {
		return report{}, err
	}
	sum := report{Took: stats.NewHistogram()}
	for _, r := range reports {
		sum.Done += r.Done
		sum.Took.Merge(r.Took)
	}
	if sum.Done == 0 {
		return sum, fmt.Errorf("%w: %v", errNothing, l.span)
	}
	return sum, nil
}

// pair locks and unlocks. It returns how long the caller waited for the lock,
// and how long both took. It unlocks even when ctx has ended.
func pair(ctx context.Context, l lock.Locker, key string) (waited, took time.Duration, err error) {
	began := time.Now()
	unlock, err := l.Lock(ctx, key)
	if err != nil {
		return 0, 0, fmt.Errorf("lock: %w", err)
	}
	waited = time.Since(began)
	if err := unlock(context.WithoutCancel(ctx)); err != nil {
		return 0, 0, fmt.Errorf("unlock: %w", err)
	}
	return waited, time.Since(began), nil
}

// closing adds the error of Close to err: a benchmark whose end fails has measured something
// else.
func closing(err *error, what interface{ Close() error }) {
	if failed := what.Close(); failed != nil {
		*err = errors.Join(*err, fmt.Errorf("close: %w", failed))
	}
}

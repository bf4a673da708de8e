package scenario

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/keyturn/keyturn/proof/bench/lock"
	"github.com/keyturn/keyturn/proof/bench/stats"
)

// Load is a number of goroutines that do the same thing again and again for a while.
type Load struct {
	Callers int
	Warm    time.Duration // not measured: connections, caches and scripts settle
	Span    time.Duration
}

// load is one of so many goroutines, if the size allows them.
func (p *place) load(callers int, span time.Duration) Load {
	return Load{min(callers, p.size.MaxCallers), max(span/5, 50*time.Millisecond), span}
}

var (
	// errOver ends what is still under way when the time is over.
	errOver    = errors.New("the time is over")
	errNothing = errors.New("nothing was done in time")
)

// report is how long each thing took that a load did within its span.
type report struct {
	span time.Duration
	took *hdrhistogram.Histogram
}

// newHistogram makes a histogram from 0 to an hour, which is longer than any run, whose quantiles
// are off by 1 % at most. Recording takes the same time whatever was recorded, so that it does not
// disturb what it measures.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(time.Hour), 2) }

// run calls do in each goroutine until the time is over. do returns how long the part took that
// the scenario is about. The first error ends everything.
//
// At the end, run does not wait for goroutines that still wait: with a lock that loses a
// wake-up, that could take the rest of a lease's time.
func (l Load) run(ctx context.Context, do func(ctx context.Context, caller int) (time.Duration, error)) (report, error) {
	begin := time.Now().Add(l.Warm)
	end := begin.Add(l.Span)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := time.AfterFunc(time.Until(end), func() { cancel(errOver) })
	defer over.Stop()

	var all sync.WaitGroup
	took := make([]*hdrhistogram.Histogram, l.Callers) // each goroutine has its own
	for i := range took {
		took[i] = newHistogram()
		all.Go(func() {
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
					_ = took[i].RecordValue(int64(d)) // it is in range
				}
			}
		})
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, errOver) {
		return report{}, err
	}
	sum := report{l.Span, newHistogram()}
	for _, h := range took {
		sum.took.Merge(h)
	}
	return sum, nil
}

// figures are the usual ones of a load that did so much of something.
func (r report) figures(what string) ([]stats.Sample, error) {
	if r.took.TotalCount() == 0 {
		return nil, fmt.Errorf("%w: %v", errNothing, r.span)
	}
	return append([]stats.Sample{{Unit: what + "/s", Value: float64(r.took.TotalCount()) / r.span.Seconds()}}, latencies(r.took)...), nil
}

func latencies(took *hdrhistogram.Histogram) []stats.Sample {
	return []stats.Sample{micros("p50", float64(took.ValueAtQuantile(50))), micros("p99", float64(took.ValueAtQuantile(99)))}
}

func micros(what string, nanoseconds float64) stats.Sample {
	return stats.Sample{Unit: what + " µs", Value: nanoseconds / float64(time.Microsecond)}
}

// pair locks and unlocks. It returns how long the caller waited for the lock,
// and how long both took. It unlocks even when ctx has ended.
func pair(ctx context.Context, l *lock.Locker, key string) (waited, took time.Duration, err error) {
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

package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/proof/bench/lock"
	"github.com/keyturn/keyturn/proof/bench/stats"
)

// uncontended lets goroutines lock and unlock, each on keys that nobody else wants, in turn: what the
// lock costs when it is not needed, which is most of the time. A measurement lasts for the
// size's span, longest at most.
func uncontended(callers, keysEach int, longest time.Duration) func(context.Context, *place, string) ([]stats.Sample, error) {
	return func(ctx context.Context, p *place, system string) (_ []stats.Sample, err error) {
		load := p.load(callers, min(longest, p.size.Span))
		l, err := lock.Open(ctx, p.config(system, load.Callers))
		if err != nil {
			return nil, err
		}
		defer closing(&err, l.Close)
		keys := make([][]string, load.Callers)
		for i := range keys {
			for n := range keysEach {
				keys[i] = append(keys[i], fmt.Sprintf("user:status:%d:%d", i, n))
			}
		}
		next := make([]int, load.Callers)
		return p.metered(ctx, "pairs", load, func(_ context.Context, i int) (time.Duration, error) {
			next[i]++
			// Not the load's context: a statement that is cut off would cost its connection.
			_, took, err := pair(ctx, l, keys[i][next[i]%keysEach])
			return took, err
		})
	}
}

const (
	hotKey      = "group:members:7"
	hotCallers  = 64
	hotChildren = 4
)

// hotOneProcess lets all goroutines of a process take the same key for a section that does
// nothing. So only the speed of the lock matters.
func hotOneProcess(ctx context.Context, p *place, system string) (_ []stats.Sample, err error) {
	load := p.load(hotCallers, p.size.Span)
	l, err := lock.Open(ctx, p.config(system, load.Callers))
	if err != nil {
		return nil, err
	}
	defer closing(&err, l.Close)
	did, err := load.contend(ctx, l)
	if err != nil {
		return nil, err
	}
	return did.waits()
}

// contend has all goroutines wait for the same key.
func (l Load) contend(ctx context.Context, locker *lock.Locker) (report, error) {
	return l.run(ctx, func(ctx context.Context, _ int) (time.Duration, error) {
		waited, _, err := pair(ctx, locker, hotKey)
		return waited, err
	})
}

// waits are the figures of a key that all want. p99/p50 is how much longer the slowest waits are than
// the usual ones. For a strict queue it is a little more than 1.
func (r report) waits() ([]stats.Sample, error) {
	figures, err := r.figures("pairs")
	uneven := float64(r.took.ValueAtQuantile(99)) / float64(max(1, r.took.ValueAtQuantile(50)))
	return append(figures, stats.Sample{Unit: "p99/p50", Value: uneven}), err
}

// hotProcesses is the same for goroutines of several processes. It combines the waits of all.
func hotProcesses(ctx context.Context, p *place, system string) (_ []stats.Sample, err error) {
	load := p.load(hotCallers/hotChildren, p.size.Span)
	all, err := startChildren(ctx, p.config(system, load.Callers), hotChildren)
	if err != nil {
		return nil, err
	}
	defer closing(&err, all.Close)
	reports, err := all.contend(load)
	if err != nil {
		return nil, err
	}
	sum, most := report{load.Span, newHistogram()}, int64(0)
	for _, took := range reports {
		sum.took.Merge(took)
		most = max(most, took.TotalCount())
	}
	figures, err := sum.waits()
	share := 100 * float64(most) / float64(sum.took.TotalCount())
	return append(figures, stats.Sample{Unit: "largest share %", Value: share}), err
}

package send

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	firstPause = 5 * time.Millisecond
	maxPause   = 250 * time.Millisecond
)

// Backoff is the pauses between tries: 5 ms first, then each twice as long, at most 250 ms.
// The zero value is before the first. It is for one goroutine.
type Backoff struct{ last time.Duration }

func (b *Backoff) next() time.Duration {
	b.last = min(max(2*b.last, firstPause), maxPause)
	return b.last
}

// Pause waits, and reports whether it did so to the end, which is not when ctx ends first.
func (b *Backoff) Pause(ctx context.Context) bool { return sleep(ctx, b.next()) }

// Uneven is Pause for half as long to one and a half times as long, so that processes do
// not try in step.
func (b *Backoff) Uneven(ctx context.Context) bool {
	d := b.next()
	return sleep(ctx, d/2+rand.N(d))
}

// sleep reports whether it slept to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

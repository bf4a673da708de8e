package send

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/keyturn/keyturn/internal/waitloop"
)

const (
	firstPause = 5 * time.Millisecond
	maxPause   = 250 * time.Millisecond
)

// Backoff makes the pauses between attempts: 5 ms first, then each twice as long, at most 250
// ms. The zero value is before the first pause. One goroutine at a time may use it.
type Backoff struct{ last time.Duration }

func (b *Backoff) next() time.Duration {
	b.last = min(max(2*b.last, firstPause), maxPause)
	return b.last
}

// Pause waits for the next pause. It reports false if ctx ends first.
func (b *Backoff) Pause(ctx context.Context) bool { return waitloop.Sleep(ctx, b.next()) }

// Uneven is like Pause for a random time between half and one and a half of the pause, so that
// processes do not try at the same moments.
func (b *Backoff) Uneven(ctx context.Context) bool {
	d := b.next()
	return waitloop.Sleep(ctx, d/2+rand.N(d))
}

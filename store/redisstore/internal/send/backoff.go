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

// backoff makes the pauses between attempts: about 5 ms first, then each twice as long, at most about
// 250 ms. The zero value is before the first pause.
type backoff struct{ last time.Duration }

// pause waits for the next pause. It reports false if ctx ends first. The random part keeps processes from
// trying at the same moments.
func (b *backoff) pause(ctx context.Context) bool {
	b.last = min(max(2*b.last, firstPause), maxPause)
	return waitloop.Sleep(ctx, b.last/2+rand.N(b.last))
}

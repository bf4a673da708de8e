package watchdog

import (
	"context"
	"errors"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Extend asks the store now for another term with that TTL, which later renewals keep; 0: the
// present TTL. It first waits for a request that is under way. sent reports whether a request
// was sent. If its error matches [driver.ErrLeaseLost], the lease is lost. After any other
// error of a request that was sent, nobody knows what the store did: the earlier of both
// deadlines counts, and the old TTL stays. If nothing was sent, the error says how the lease
// ended, or is ctx's.
func (w *Watch) Extend(ctx context.Context, ttl time.Duration) (sent bool, err error) {
	return w.change(ctx, change{ttl: ttl})
}

// Downgrade asks the store now to change the claims' modes, which also gives a
// full TTL. From the sending on the lease has the new modes, because the holder cannot count on
// more. Until the store answers, the watchdog repeats the downgrade instead of renewing: a
// renewal in the wrong mode would look like a loss. The errors are those of [Watch.Extend].
func (w *Watch) Downgrade(ctx context.Context, claims []driver.Claim) (sent bool, err error) {
	return w.change(ctx, change{claims: claims})
}

// errDidNotReturn stands for the answer of a store that panicked.
var errDidNotReturn = errors.New("the store did not return")

// change sends one request, with a timeout of its own like a renewal.
func (w *Watch) change(ctx context.Context, ch change) (sent bool, err error) {
	r, err := w.reserve(ctx, ch)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.term/3)
	defer cancel()
	at := time.Now()
	err = errDidNotReturn
	defer func() { w.take(r, at, time.Now(), err); w.tell(err) }()
	err = w.shard.dog.send(ctx, r.convert, r.grant)[0]
	return true, err
}

// reserve waits until no request for the lease is under way, and then takes the place of the
// next one. The error says how the lease ended, or is ctx's.
func (w *Watch) reserve(ctx context.Context, ch change) (request, error) {
	for {
		r, busy, err := w.tryReserve(ch)
		if busy == nil {
			return r, err
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return request{}, ctx.Err()
		}
	}
}

// tryReserve is reserve without the wait. If a request is under way, it returns a channel that
// is closed when to try again.
func (w *Watch) tryReserve(ch change) (request, <-chan struct{}, error) {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	now := time.Now()
	if err := w.check(now); err != nil {
		return request{}, nil, err
	}
	if w.term.state == renewing {
		if w.answered == nil {
			w.answered = make(chan struct{})
		}
		return request{}, w.answered, nil
	}
	r := w.request(w.shard.dog.clock.moment(now), ch)
	w.reschedule()
	return r, nil, nil
}

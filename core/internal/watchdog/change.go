package watchdog

import (
	"context"
	"errors"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Extend asks the store for another term now, of that TTL, which later renewals keep;
// 0: the present one. It waits for a request that is under way. An error of a request
// that was sent leaves open what the store did, except one that matches
// [driver.ErrLeaseLost]: the earlier one of both ends counts then, and the old TTL goes
// on. The other errors are how the lease ended, and ctx's.
func (w *Watch) Extend(ctx context.Context, ttl time.Duration) (sent bool, err error) {
	return w.change(ctx, change{ttl: ttl})
}

// Downgrade has the holder ask the store now to take over the claims' modes, which
// gives a full TTL as well. From the sending on the lease has the new modes, as the
// holder can count on no more. Until the store answers, the watchdog repeats the
// downgrade instead of renewing: a renewal in the wrong mode would look like a loss.
// Otherwise it is as Extend.
func (w *Watch) Downgrade(ctx context.Context, claims []driver.Claim) (sent bool, err error) {
	return w.change(ctx, change{claims: claims})
}

// errDidNotReturn stands for the answer of a store that panicked.
var errDidNotReturn = errors.New("the store did not return")

// change has one request sent, within a bound of its own, as a renewal has.
func (w *Watch) change(ctx context.Context, ch change) (sent bool, err error) {
	r, err := w.reserve(ctx, ch)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.term/3)
	defer cancel()
	at := time.Now()
	err = errDidNotReturn
	defer func() { w.take(r, at, time.Now(), err) }()
	err = w.shard.dog.send(ctx, []request{r})[0]
	return true, err
}

// reserve waits until no request for the lease is under way and takes the place of the
// next one. The error is that of a lease that has ended, or ctx's.
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

// tryReserve gives a channel where it is not done yet: closed when to try again.
func (w *Watch) tryReserve(ch change) (request, <-chan struct{}, error) {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	if err := w.check(); err != nil {
		return request{}, nil, err
	}
	if w.term.state == renewing {
		if w.answered == nil {
			w.answered = make(chan struct{})
		}
		return request{}, w.answered, nil
	}
	r := w.request(time.Now(), ch)
	w.reschedule()
	return r, nil, nil
}

package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/proof/history"
)

// OncePrefix begins the keys of calls of Once.
const OncePrefix = "once:"

// retention is how long records are kept, unless a Worker says otherwise.
const retention = time.Minute

// run calls Once, for an id that others call at the same time, or one of the last few seconds.
func (w hand) run(ctx context.Context) {
	const each = 50 * time.Millisecond
	id := w.Recorder.Clock() / int64(each)
	if w.IntN(2) == 0 {
		id -= w.Int64N(40)
	}
	key := fmt.Sprint(OncePrefix, id)
	nr := w.Recorder.Begin(history.Event{What: history.Calling, Key: key})
	w.Recorder.Now(history.Event{Nr: nr, What: history.Asked, Claims: []driver.Claim{driver.Exclusive(key)}})
	out, err := w.Engine.Once(ctx, key, func(ctx context.Context) ([]byte, error) {
		lease, ok := core.LeaseFrom(ctx)
		if !ok {
			return nil, errors.New("an execution without a lease")
		}
		h := holding{w, nr, lease}
		h.note(history.Given)
		go h.listen()
		h.use()
		if err := lease.Err(); err != nil {
			return nil, err
		}
		w.Recorder.Now(history.Event{Nr: nr, What: history.Ran}) // the effect
		h.note(history.Returning)
		return []byte("done"), nil
	}, core.WithRetention(cmp.Or(w.Retention, retention)))
	var what history.What
	switch {
	case err == nil && out.Duplicate, errors.Is(err, core.ErrResultNotKept):
		what = history.Replayed
	case err == nil:
		what = history.Recorded
	default:
		what = w.fate(ctx, err)
	}
	w.Recorder.Now(history.Event{Nr: nr, What: what})
}

// refused notes an acquisition that was not granted.
func (w hand) refused(ctx context.Context, nr int, err error) {
	w.Recorder.Now(history.Event{Nr: nr, What: w.fate(ctx, err)})
	time.Sleep(w.upTo(20 * time.Millisecond)) // a refusal by an open circuit takes no time at all
}

// fate says whether something that failed may have happened nevertheless.
func (w *Worker) fate(ctx context.Context, err error) history.What {
	var out *driver.UnavailableError
	switch {
	case errors.Is(err, driver.ErrHeld), errors.Is(err, core.ErrTooManyWaiters), errors.Is(err, core.ErrCircuitOpen), errors.Is(err, core.ErrClosed),
		errors.As(err, &out) && out.Refused:
		return history.Denied
	case ctx.Err() == nil:
		w.typed(err)
	}
	return history.Unsure
}

// typed notes an error of which no caller could tell what it means.
func (w *Worker) typed(err error) {
	for _, known := range []error{
		core.ErrHeld, core.ErrTooManyWaiters, core.ErrLeaseLost, core.ErrUnavailable, core.ErrOutcomeUnknown, core.ErrClosed,
		context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, known) {
			return
		}
	}
	w.Recorder.Begin(history.Event{What: history.Untyped, Key: strings.ToValidUTF8(err.Error(), "?")})
}

package waitloop

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Grace is how long an answer may take when the wait is over. After that, the backend counts as
// one that does not answer.
const Grace = 500 * time.Millisecond

// questionGrace is the part of it that the last question may take.
const questionGrace = Grace / 2

// Terms are the conditions of a wait.
type Terms struct {
	// Wait and OnHeld are the fields of the [driver.Request].
	Wait   bool
	OnHeld func(driver.HeldError)
	// Life ends when the store closes. That ends a wait.
	Life context.Context
}

// Run asks until the answer is final or ctx ends. The error is [driver.ErrClosed] if the store
// closed, a [*driver.HeldError] if somebody held the key, and otherwise the request's own
// error. After an error the request holds nothing and waits for nothing (A9).
func Run[A, M any](ctx context.Context, t Terms, r Request[A, M]) (A, error) {
	a, s, err := r.Ask(ctx)
	if err != nil {
		if silent := unanswered(err); silent != nil {
			return failed[A](t, silent.Err)
		}
		return a, err
	}
	if s == nil {
		return a, nil
	}
	if !t.Wait {
		held := s.Held
		return a, &held
	}
	// If the store closes, that ends a wait. Most requests do not wait, so Run watches for it
	// only from here on.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.Life, cancel)()
	w := waiting[A, M]{Terms: t, r: r, last: *s}
	if !r.Enter(ctx) {
		if a, again, err := w.ask(ctx); !again {
			return a, err
		}
	}
	return w.run(ctx)
}

// waiting is a wait under way.
type waiting[A, M any] struct {
	Terms
	r    Request[A, M]
	last State
}

func (w *waiting[A, M]) run(ctx context.Context) (A, error) {
	for {
		if w.OnHeld != nil {
			w.OnHeld(w.last.Held)
		}
		m, told := w.sleep(ctx)
		if ctx.Err() != nil {
			return w.end(ctx, nil)
		}
		if told {
			if a, ok := w.r.Accept(m); ok {
				return a, nil
			}
		}
		if a, again, err := w.ask(ctx); !again {
			return a, err
		}
	}
}

// ask asks once, and reports whether the wait goes on.
func (w *waiting[A, M]) ask(ctx context.Context) (a A, again bool, err error) {
	a, s, err := w.r.Ask(ctx)
	if err != nil {
		if silent := unanswered(err); silent != nil {
			a, err = w.end(ctx, silent.Over)
		}
		return a, false, err
	}
	if s == nil {
		return a, false, nil
	}
	w.last = *s
	return a, true, nil
}

// unanswered returns err as an [Unanswered], or nil. It is called for errors only: [errors.As]
// makes its target escape, which would cost each acquisition an allocation.
func unanswered(err error) *Unanswered {
	var silent *Unanswered
	errors.As(err, &silent)
	return silent
}

// end withdraws the request, once its last question is over, and returns the error of a wait that was
// cut short. If the backend answers the withdrawal, a holder was in the way. If not, it is an outage.
// The last answer may be too old to tell.
func (w *waiting[A, M]) end(ctx context.Context, over <-chan struct{}) (A, error) {
	brief, cancel := context.WithTimeout(context.WithoutCancel(ctx), Grace)
	defer cancel()
	if over != nil {
		select {
		case <-over:
		case <-time.After(questionGrace): // its connection may hang; those behind it in the queue are not to wait for that
		}
	}
	if err := w.r.Withdraw(brief); err != nil {
		return failed[A](w.Terms, err)
	}
	held, ago := w.last.Held, time.Since(w.last.At)
	held.RetryAfter = max(held.RetryAfter-ago, 0)
	if held.HeldFor > 0 {
		held.HeldFor += ago
	}
	return failed[A](w.Terms, &held)
}

// sleep returns the message that ended it, if there was one.
func (w *waiting[A, M]) sleep(ctx context.Context) (m M, told bool) {
	pause, slept := w.r.Poll()
	defer slept()
	select {
	case m = <-w.r.Messages():
		return m, true
	case <-time.After(w.last.nap(pause)):
	case <-ctx.Done():
	}
	return m, false
}

// nap returns how long to sleep if no message comes.
func (s *State) nap(pause time.Duration) time.Duration {
	d := s.Within
	if pause > 0 {
		// The random part keeps processes from polling at the same moments.
		d = min(d, pause/2+rand.N(pause))
	}
	// The random part keeps the waiting processes from asking all at once.
	late := time.Millisecond + rand.N(20*time.Millisecond)
	for _, change := range s.Changes {
		if change >= 0 {
			d = min(d, change+late)
		}
	}
	return d
}

// failed returns ErrClosed if the store has closed, otherwise err.
func failed[A any](t Terms, err error) (none A, _ error) {
	if t.Life.Err() != nil {
		return none, driver.ErrClosed
	}
	return none, err
}

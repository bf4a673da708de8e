package waitloop

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Request is one Acquire or Begin under way. A is what it gets in the end, a grant or a
// record, and M is a message. All methods are called on the goroutine that called [Run].
type Request[A, M any] interface {
	// Ask puts the question once. A nil State says that the answer is final. Otherwise the
	// key is held, and the State is valid until the next Ask.
	//
	// If ctx ended before there was an answer the error is an [*Unanswered]. After any other
	// error, and after an Unanswered one, the request itself takes back what may have
	// come of the question, in the background if need be (A9).
	Ask(ctx context.Context) (A, *State, error)

	// Enter is called once, when it is clear that the request has to wait. It has messages
	// delivered from then on. It reports whether the question that was answered has joined the
	// queue already. Otherwise the next one does, and is put at once.
	Enter(ctx context.Context) (queued bool)

	// Messages has those that call for a look. Nil: there are none. Ask drops a message
	// that came before it, which it answers as well.
	Messages() <-chan M

	// Accept makes an answer of a message that grants the lease. False: it calls for a
	// question.
	Accept(m M) (A, bool)

	// Pace says how often the request has to look by itself because nobody tells it, and
	// what to call when it has slept. 0: it will be told.
	Pace() (every time.Duration, slept func())

	// Withdraw gives up the place in the queue and whatever the request has. Nil: the
	// backend has answered. What could not be said before ctx ended is said later.
	Withdraw(ctx context.Context) error
}

// State is what the backend said of a key that is held.
type State struct {
	Held driver.HeldError // as of At
	At   time.Time
	// Within is the longest time until the next question, even if nobody tells of
	// anything: the place in the queue, and what a set holds meanwhile, need a sign of life.
	Within time.Duration
	// Changes are the times until something may change that nobody tells of: a holder
	// that died or that sends no messages is over, for instance. Below 0: never.
	Changes [2]time.Duration
}

// Unanswered is the error of a question that had no answer when its context ended. Err is
// for the caller, if the backend has never answered the request at all; it matches
// [driver.ErrUnavailable].
type Unanswered struct{ Err error }

func (e *Unanswered) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Unanswered) Unwrap() error { return e.Err }

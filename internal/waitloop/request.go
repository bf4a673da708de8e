package waitloop

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Request is one Acquire or Begin under way. A is its answer, a grant or a record. M is a
// message. [Run] calls all methods on the goroutine that called it.
type Request[A, M any] interface {
	// Ask asks the backend once. A nil State says that the answer is final. Otherwise the key
	// is held, and the State is valid until the next Ask.
	//
	// If ctx ended before there was an answer, the error is an [*Unanswered]. After any error,
	// the request itself takes back what the question may have left at the backend, in the
	// background if need be (A9).
	Ask(ctx context.Context) (A, *State, error)

	// Enter is called once, when it is clear that the request has to wait. From then on the
	// request receives messages. Enter reports whether the question that was answered has
	// joined the queue already. If not, Run asks again at once, and that question joins it.
	Enter(ctx context.Context) (queued bool)

	// Messages delivers the messages that wake this request; nil: there are none. Ask drops a
	// message that came before it, because Ask answers that message as well.
	Messages() <-chan M

	// Accept makes an answer of a message that grants the lease. It returns false if the
	// message calls for a question.
	Accept(m M) (A, bool)

	// Poll returns about how long to pause before the request asks by itself, because no message
	// will reach it; 0: a message will. It also returns a function that Run calls when it has
	// slept.
	Poll() (pause time.Duration, slept func())

	// Withdraw gives up the place in the queue and all that the request has. It returns nil if
	// the backend has answered. If ctx ends first, the withdrawal goes on in the background.
	Withdraw(ctx context.Context) error
}

// State is what the backend said about a key that is held.
type State struct {
	Held driver.HeldError // as of At
	At   time.Time
	// Within is the longest time until the next question, even if no message comes. The backend
	// keeps the place in the queue, and what a set holds meanwhile, only while the request asks
	// from time to time.
	Within time.Duration
	// Changes are the times after which to ask although no message came. An example is the end
	// of a dead holder's lease. Negative: none.
	Changes [2]time.Duration
}

// Unanswered is the error of a question that had no answer when its context ended.
type Unanswered struct {
	// Err is for the caller, if the backend has never answered the request. It matches
	// [driver.ErrUnavailable].
	Err error
	// Over is closed when the question can no longer be carried out; nil: it can't. Run withdraws the
	// request after that. Otherwise the question could be carried out after the withdrawal, and the
	// request would be in the queue again.
	Over <-chan struct{}
}

func (e *Unanswered) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Unanswered) Unwrap() error { return e.Err }

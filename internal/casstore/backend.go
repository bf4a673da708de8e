package casstore

import (
	"context"
	"errors"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/keystate"
)

// Backend is what a store does itself.
type Backend struct {
	// Check refuses, before any I/O, a lease that the backend could not hold.
	Check func(owner string, claims []driver.Claim, ttl time.Duration) error

	// Acquire carries out a request that was checked: by an [Acquisition], unless there is a quicker way.
	Acquire func(context.Context, keystate.Request) (Answer, error)

	// Transact reads the keys of an aim, runs decide on them, and writes what has changed, unless somebody
	// else has written meanwhile. Then it begins anew, so decide may run several times. What decide returns
	// as an answer ([IsAnswer]) is returned as it is, and nothing is written. Afterwards Transact wakes
	// those that the decision has let in.
	//
	// unsure: an earlier attempt may have been carried out, because it had no answer.
	Transact func(ctx context.Context, a Aim, decide func(*keystate.State) error) (unsure bool, err error)

	// Explain finds out whether owner has lost a lease by force: see [keystate.Explain].
	Explain func(ctx context.Context, owner string, loss *driver.LeaseLostError) error

	// Show shows keys as they are, and changes nothing.
	Show func(ctx context.Context, keys []string) ([]driver.LockInfo, error)

	// Failure is the caller's error for a request that was not carried out.
	Failure func(op, key string, err error) error

	// Run carries out the work of a call, in a store that bounds how much is under way. keys are those that
	// the work may wait for. If ctx ends first, the work is not answered, and the error says why. late, if it
	// is not nil, is called when nothing of such work is under way any more. nil: on a goroutine of Calls.
	Run func(ctx context.Context, keys []string, work func(context.Context) error, late func()) (err error, answered bool)
}

// Aim says what a transaction is about.
type Aim struct {
	Keys    []string      // in order
	Owner   string        // whose request it is; "": nobody's
	Grant   *driver.Grant // that the request is about; nil: none
	Ends    bool          // the request only ends what there is
	Records bool          // records are read, too
	// Looks: the answer depends on what was read even if nothing is written, so that must not be older
	// than the question.
	Looks bool
	// Unsure: the same request was sent before, and had no answer. What is read must not be older.
	Unsure bool
	// Waits: the request waits, and has more patience with a server that does not answer.
	Waits bool
}

// IsAnswer reports whether err is the answer of a decision, and not a failure.
func IsAnswer(err error) bool {
	return errors.Is(err, driver.ErrHeld) || errors.Is(err, driver.ErrLeaseLost) || errors.Is(err, driver.ErrWouldDeadlock)
}

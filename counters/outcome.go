package counters

import (
	"errors"

	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/internal/refusal"
)

// outcomes has the words of package tracing for each kind of refusal.
var outcomes = map[refusal.Kind]string{
	refusal.Canceled: "canceled", refusal.DeadlineExceeded: "deadline", refusal.KeyInvalid: "error", refusal.Forbidden: "error",
	refusal.TooManyWaiters: "too_many_waiters", refusal.WaitTimeout: "wait_timeout", refusal.Held: "held",
	refusal.LeaseLost: "lost", refusal.LostByClose: "lost", refusal.FingerprintMismatch: "mismatch", refusal.ResultNotKept: "error",
	refusal.OutcomeUnknown: "unknown", refusal.RolledBack: "rolled_back", refusal.Unavailable: "unavailable", refusal.Closed: "closed",
	refusal.Deadlock: "error", refusal.Panicked: "error", refusal.Internal: "error",
}

func acquired(lease observe.Lease, err error) string {
	switch {
	case errors.Is(err, observe.ErrNotRehearsed):
		return "not_rehearsed"
	case err != nil:
		return outcomes[refusal.Of(err)]
	case lease == nil:
		return "duplicate"
	case lease.Depth() > 1:
		return "nested"
	}
	return "granted"
}

func ended(err error) string {
	if err == nil {
		return "released"
	}
	return outcomes[refusal.Of(err)]
}

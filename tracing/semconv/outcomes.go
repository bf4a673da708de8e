package semconv

// Values of [OutcomeKey].
const (
	OutcomeGranted        = "granted"
	OutcomeNested         = "nested"
	OutcomeReleased       = "released"
	OutcomeExecuted       = "executed"
	OutcomeDuplicate      = "duplicate"
	OutcomeHeld           = "held"
	OutcomeWaitTimeout    = "wait_timeout"
	OutcomeInFlight       = "in_flight"
	OutcomeTooManyWaiters = "too_many_waiters"
	OutcomeNotRehearsed   = "not_rehearsed"
	OutcomeMismatch       = "mismatch"
	OutcomeRolledBack     = "rolled_back"
	OutcomeCanceled       = "canceled"
	OutcomeDeadline       = "deadline"
	OutcomeUnavailable    = "unavailable"
	OutcomeClosed         = "closed"
	OutcomeLost           = "lost"
	OutcomeUnknown        = "unknown"
	OutcomeFailed         = "failed"
	OutcomeError          = "error"
)

// Values of [ErrorTypeKey].
const (
	ErrorUnavailable    = "unavailable"
	ErrorClosed         = "closed"
	ErrorLeaseLost      = "lease_lost"
	ErrorOutcomeUnknown = "outcome_unknown"
	ErrorInvalidKey     = "invalid_key"
	ErrorDeadlock       = "would_deadlock"
	ErrorHandler        = "handler"
	ErrorPanic          = "panic"
	ErrorOther          = "_OTHER"
)

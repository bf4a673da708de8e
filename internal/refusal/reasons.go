package refusal

// The reasons that clients are told. The middlewares export them under the same names, and say
// what each means to their callers.
const (
	ReasonLockHeld            = "LOCK_HELD"
	ReasonWaitTimeout         = "WAIT_TIMEOUT"
	ReasonTooManyWaiters      = "TOO_MANY_WAITERS"
	ReasonLeaseLost           = "LEASE_LOST"
	ReasonFingerprintMismatch = "FINGERPRINT_MISMATCH"
	ReasonResultNotKept       = "RESULT_NOT_KEPT"
	ReasonKeyInvalid          = "KEY_INVALID"
	ReasonStoreUnavailable    = "STORE_UNAVAILABLE"
	ReasonStopping            = "STOPPING"
	ReasonOutcomeUnknown      = "OUTCOME_UNKNOWN"
	ReasonCanceled            = "CANCELED"
	ReasonDeadlineExceeded    = "DEADLINE_EXCEEDED"
	ReasonInternal            = "INTERNAL"
)

// Package reasons has the reasons of refusals, as the middlewares tell them to clients: in the
// ErrorInfo of a gRPC status, and in the member "reason" of an HTTP answer. They are a part of a
// service's interface: clients decide by them. More may be added.
package reasons

// Reasons that all middlewares give.
const (
	// LockHeld: another request has the lock, and the rule says not to wait. Under Once: the
	// first request is still being processed.
	LockHeld = "LOCK_HELD"
	// WaitTimeout: another request still had the lock after the maximum wait.
	WaitTimeout = "WAIT_TIMEOUT"
	// TooManyWaiters: too many requests wait already.
	TooManyWaiters = "TOO_MANY_WAITERS"
	// LeaseLost: the lock was lost while the handler ran. Its work may have overlapped with
	// another request.
	LeaseLost = "LEASE_LOST"
	// FingerprintMismatch: the key was used before for other content.
	FingerprintMismatch = "FINGERPRINT_MISMATCH"
	// ResultNotKept: the request was processed before, and its answer was not kept: it was too
	// large, or streamed. A repeat gets the same answer.
	ResultNotKept = "RESULT_NOT_KEPT"
	// RolledBack: the database undid what the handler did, because of another transaction; or the
	// lock was lost before the handler ran. A repeat is safe.
	RolledBack = "ROLLED_BACK"
	// KeyInvalid: the request has not what makes the key, or it makes no valid one.
	KeyInvalid = "KEY_INVALID"
	// Forbidden: the rule's precheck refused the request before it asked for the lock.
	Forbidden = "FORBIDDEN"
	// StoreUnavailable: the store of the locks could not answer.
	StoreUnavailable = "STORE_UNAVAILABLE"
	// Stopping: this server is stopping; another one can serve the request.
	Stopping = "STOPPING"
	// OutcomeUnknown: the handler succeeded, and it is unknown whether that is on record. A
	// repeat is safe.
	OutcomeUnknown = "OUTCOME_UNKNOWN"
	// Canceled: the caller left while it waited. gRPC has a code for it and gives no reason.
	Canceled = "CANCELED"
	// DeadlineExceeded: the caller's deadline passed while it waited. gRPC has a code for it and
	// gives no reason.
	DeadlineExceeded = "DEADLINE_EXCEEDED"
	// Internal: something else is wrong in the server.
	Internal = "INTERNAL"
)

// Reasons that only HTTP has.
const (
	// BodyTooLarge: the body is over the limit.
	BodyTooLarge = "BODY_TOO_LARGE"
	// BodyTimeout: the body did not come in the time that the server allows.
	BodyTimeout = "BODY_TIMEOUT"
	// SpoolUnavailable: the server has no room for the body, which it reads before the request
	// waits for its turn.
	SpoolUnavailable = "SPOOL_UNAVAILABLE"
	// MediaType: the key comes from a JSON body, and the body is of another type.
	MediaType = "MEDIA_TYPE"
)

// Package refusal says why a request was not processed under its lock. It sorts the errors of
// package core into a few kinds. Each kind has the reason for clients, whether a
// repeat is safe, and whether the handler ran. The middlewares, tracing and counters have a
// table with one row for each kind, and a test that misses no row. So a new answer begins
// here, with a new Kind. The package knows nothing of gRPC, HTTP, asynq or OpenTelemetry.
//
// What gRPC, HTTP and asynq answer, in this order:
//
//   - waited too long, or fail-fast: ABORTED + ErrorInfo + RetryInfo; 409 + Retry-After,
//     problem+json; reschedule, or wait on the last attempt
//   - too many waiters: RESOURCE_EXHAUSTED; 429 + Retry-After; reschedule
//   - first execution still running (Once): ABORTED; 409; reschedule
//   - already executed (Once): the stored response; the stored response, Idempotent-Replayed:
//     true; success, handler not run
//   - already executed, result not kept (Once): ALREADY_EXISTS, reason RESULT_NOT_KEPT; 409,
//     RESULT_NOT_KEPT; success, handler not run
//   - same id, other content: FAILED_PRECONDITION; 422; archived, not retried
//   - key missing or invalid: INVALID_ARGUMENT; 400; archived, not retried
//   - the precheck refused: PERMISSION_DENIED; 403; tasks have no prechecks
//   - store down, or the engine closed: UNAVAILABLE; 503 + Retry-After; reschedule
//   - rolled back in the database (Once with fence.WithDatabase): ABORTED, reason ROLLED_BACK;
//     409, ROLLED_BACK + Retry-After; reschedule
//   - lease lost while running: ABORTED, reason LEASE_LOST; 409 or, once a byte was sent, the
//     connection ends; retried
//   - caller's own deadline: DEADLINE_EXCEEDED; 503; as asynq does
//
// No answer tells the caller who holds the lock. A rule can say that an outage runs the
// handler unlocked (WithRunUnlocked). The default never does, and nothing ever runs unlocked
// after a timeout.
package refusal

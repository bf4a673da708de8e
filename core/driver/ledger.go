package driver

import (
	"context"
	"time"
)

// Ledger is implemented by stores that remember finished executions, for
// Engine.Once, and versions, for Engine.Raise.
type Ledger interface {
	// Begin is Acquire, unless the key's execution has finished.
	//
	//  L1. If a record is in force it is returned, without a lease; the Grant
	//      is then zero. Lookup and claim are one atomic step.
	//  L2. A waiting Begin returns the record as soon as the key is released
	//      with one.
	//  L3. Otherwise A1 to A12 hold.
	Begin(ctx context.Context, req Request) (Grant, *Record, error)

	// Complete stores rec and releases the lease in one atomic step.
	//
	//  L4. ErrLeaseLost when the lease is not this owner's: nothing is stored.
	//  L5. Idempotent by owner: repeated after a lost reply, it says nil.
	//  L6. The record is in force for the retention, on the backend's clock.
	//  L7. Result, fingerprint and trace come back byte for byte, and ResultNotKept
	//      as it was given.
	//  L8. A store that has no room for the result stores the record without it,
	//      with ResultNotKept, and releases. The error then matches
	//      ErrResultNotKept, and so does a repetition's. After any other error
	//      nothing is stored.
	Complete(ctx context.Context, grant Grant, rec Record, retention time.Duration) error

	// Raise keeps the greatest version that key was given, and returns it.
	//
	//  L9. It returns the greatest of version and of all that were given before,
	//      by whatever process. That is one atomic step: what one call has returned
	//      no later one falls behind.
	//  L10. Versions are compared as numbers, up to the greatest uint64. Version 0 is
	//      only a question, and leaves nothing behind.
	//  L11. It is kept for the retention after the last Raise, except questions, on
	//      the backend's clock.
	//  L12. Leases and records of key neither change it nor are changed by it. It
	//      takes no lease, and waits for none.
	//  L13. A10 and A11 hold. After an error it may have been done, and repeating is
	//      safe.
	Raise(ctx context.Context, key string, version uint64, retention time.Duration) (newest uint64, err error)
}

// Record is what a store remembers of a finished execution.
type Record struct {
	// Fingerprint is the digest of what was executed; empty: not compared.
	Fingerprint []byte
	// Result is what the function returned.
	Result []byte
	// ResultNotKept: the function succeeded, and Result is empty because what it
	// returned was not kept.
	ResultNotKept bool
	// Trace is that of the execution, as in [Request].
	Trace string
}

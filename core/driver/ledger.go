package driver

import (
	"context"
	"time"
)

// Ledger is the part of a [Store] that remembers finished executions, for Engine.Once, and
// versions, for Engine.AdvanceVersion. It is optional: see [Description].
type Ledger interface {
	// Begin acquires the claims like Acquire, unless the key's execution has finished.
	//
	//  L1. If a record is in force, Begin returns it and no lease; the Grant is then zero.
	//      Lookup and claim are one atomic step.
	//  L2. A waiting Begin returns the record as soon as the key is released with one.
	//  L3. Otherwise A1 to A14 hold.
	Begin(ctx context.Context, req Request) (Grant, *Record, error)

	// Complete stores rec and releases the lease in one atomic step.
	//
	//  L4. If the lease is not this owner's, the error matches ErrLeaseLost and nothing is
	//      stored.
	//  L5. It is idempotent by owner: if it is repeated after a lost reply, it returns nil.
	//  L6. The record is in force for the retention, by the backend's clock. The engine asks for
	//      100 years at most, also in AdvanceVersion.
	//  L7. The store returns result, fingerprint and trace byte for byte, and ResultNotKept as
	//      it was given.
	//  L8. A store that has no room for the result stores the record without it, with
	//      ResultNotKept, and releases. The error then matches ErrResultNotKept, also if the
	//      call is repeated. After any other error nothing is stored.
	Complete(ctx context.Context, grant Grant, rec Record, retention time.Duration) error

	// AdvanceVersion keeps the greatest version that any call has given for key, and returns it.
	//
	//  L9. It returns the greatest of version and of all versions given before, by any process.
	//      This is one atomic step: no later call returns less than an earlier one returned.
	//  L10. Versions are compared as numbers, up to the greatest uint64. Version 0 only asks,
	//      and leaves nothing behind.
	//  L11. The version is kept for the retention after the last AdvanceVersion that was not a question,
	//      by the backend's clock.
	//  L12. Leases and records of key neither change the version nor are changed by it. AdvanceVersion
	//      takes no lease and waits for none.
	//  L13. A10 and A11 hold. After an error the version may have been raised; repeating is
	//      safe.
	AdvanceVersion(ctx context.Context, key string, version uint64, retention time.Duration) (newest uint64, err error)
}

// Record is what a store remembers of a finished execution.
type Record struct {
	// Fingerprint is the digest of what was executed. An empty one is not compared.
	Fingerprint []byte
	// Result is what the function returned.
	Result []byte
	// ResultNotKept: the function succeeded, but its result was not kept, so Result is empty.
	ResultNotKept bool
	// Trace is the trace of the execution, as in [Request].
	Trace string
}

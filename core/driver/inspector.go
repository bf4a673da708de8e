package driver

import (
	"context"
	"time"
)

// Inspector is implemented by stores that can show what they keep, and break
// it. The engine asserts it for Engine.Inspect, Engine.List,
// Engine.ForceRelease and Engine.Forget.
type Inspector interface {
	// Inspect shows one key.
	//
	//  I1. A key that nobody holds or waits for, and that has no record, gives a
	//      LockInfo that says just that; no error.
	//  I2. Holders are those whose leases are in force, in order of their tokens,
	//      each with what its request said of itself. A foreign client's lock is a
	//      holder, too.
	//  I3. Waiters are those who have not given up or died, in order of arrival.
	//  I4. The record is the one in force, if any, and says whether its result was
	//      kept.
	Inspect(ctx context.Context, key string) (LockInfo, error)

	// List shows the keys that begin with prefix, one page at a time: the first
	// for an empty cursor, each next one for the cursor that came with the one
	// before, until that is empty.
	//
	//  I5. A key that is held, waited for, or has a record, from before the first
	//      page until after the last, comes at least once. About limit keys come
	//      per page; possibly none, while the cursor is not empty.
	//  I6. The backend goes on serving others between any two pages and within
	//      one.
	List(ctx context.Context, prefix, cursor string, limit int) (page []LockInfo, next string, err error)

	// ForceRelease ends all leases on key, foreign ones too, and returns who had
	// them.
	//
	//  I7. Their owners' next renewal or release is a *LeaseLostError with
	//      LossForced and the reason. (A store may forget the reason after a while,
	//      and say LossTaken.)
	//  I8. The next grant's token is greater than any before, and the first waiter
	//      gets it, as after a release.
	//  I9. A set of which one key is forced is lost as N6 says.
	ForceRelease(ctx context.Context, key, reason string) ([]Holder, error)

	// Forget drops the record on key, and the version that Raise keeps for it, and
	// reports whether there was either.
	//
	//  I10. The next Begin is granted, and the next Raise is the first. A lease on key
	//      is not touched.
	Forget(ctx context.Context, key string) (bool, error)
}

// LockInfo is what a store knows of a key.
type LockInfo struct {
	Key string
	// Mode is that of the holders; without any it means nothing.
	Mode    Mode
	Holders []Holder
	Waiters []Waiter
	// Record is what Once remembers; nil: nothing.
	Record *RecordInfo
}

// Holder is who has a lease on a key.
type Holder struct {
	// Owner can be read by ParseOwner, except a foreign client's value. Show
	// it to operators; never send it to the caller of a service.
	Owner string
	// Token is that of the grant, 0 for a foreign client's. From the engine it is
	// the lease's fencing token, or the first one's if the lease was handed on
	// within its process since.
	Token uint64
	Rule  string
	Trace string
	// Since is how long ago the lease was granted, and Left how long it lasts
	// unless renewed; both by the backend's clock. Since is 0 and Left below 0
	// where it is not known, as of a foreign lock without an expiry.
	Since, Left time.Duration
}

// Waiter is who waits for a key.
type Waiter struct {
	Owner   string
	Mode    Mode
	Permits int // ModePermit only
	Rule    string
	Trace   string
	Since   time.Duration // how long it has waited
}

// RecordInfo describes a record, but for its content.
type RecordInfo struct {
	Owner         string // whose execution it was
	Size          int    // bytes of the result
	ResultNotKept bool   // as in [Record]
	Trace         string
	Left          time.Duration // how long it is in force
}

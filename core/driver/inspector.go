package driver

import (
	"context"
	"slices"
	"time"
)

// Inspector is the part of a [Store] that shows what it keeps, and breaks it. It is optional:
// see [Description]. Engine.Inspect, Engine.List, Engine.ForceRelease and Engine.Forget need
// it.
type Inspector interface {
	// Inspect shows one key.
	//
	//  I1. For a key without holder, waiter and record, it returns a LockInfo that says so, and
	//      no error.
	//  I2. Holders lists the leases in force, in order of their tokens, each with the notes of
	//      its request. A foreign client's lock is a holder, too.
	//  I3. Waiters lists the waiters that have neither given up nor died, in order of arrival. One
	//      that died may be shown until its place in the queue ends.
	//  I4. Record is the record in force, if there is one. It says whether its result was kept.
	Inspect(ctx context.Context, key string) (LockInfo, error)

	// List shows the keys that q asks for, one page at a time. The cursor that comes with a page
	// asks for the next one. An empty cursor ends the list.
	//
	//  I5. A key that q shows ([Listing.Shows]), from before the first page until after the last
	//      page, is listed at least once. Other keys are not listed. A page has about q.Limit
	//      keys. It may be empty although the cursor is not.
	//  I6. The backend goes on serving other clients between two pages and within a page.
	//  I12. Without q.Records, a store that can tell from names or columns that a key has only a
	//      record does not read it: there may be a record of each message of a day.
	List(ctx context.Context, q Listing) (page []LockInfo, next string, err error)

	// ForceRelease ends leases on key, including foreign ones, and returns their holders.
	// Without only, it ends all of them.
	//
	//  I7. The next renewal or release by an owner of such a lease gets a *LeaseLostError with
	//      LossForced and the reason. (A store may forget the reason after a while, and then
	//      return LossTaken.)
	//  I8. The token of the next grant is greater than any before. The first waiter gets that
	//      grant, as after a release.
	//  I9. If one key of a set is forced, the set is lost as N6 says.
	//  I11. With only, it ends only the leases that an entry of only names (Holder.Names).
	//      Looking and ending are one atomic step. If there is none, and others hold the key,
	//      the error is a *HeldError. If nobody holds the key, that is no error.
	ForceRelease(ctx context.Context, key, reason string, only ...Holder) ([]Holder, error)

	// Forget drops the record on key and the version that AdvanceVersion keeps for it. It reports
	// whether there was either.
	//
	//  I10. The next Begin is granted, and the next AdvanceVersion is the first. A lease on key is not
	//      touched.
	Forget(ctx context.Context, key string) (bool, error)
}

// Listing says which keys List shows.
type Listing struct {
	Prefix string // of the keys; "" is that of all
	Cursor string // of the page; "" asks for the first one
	Limit  int    // about how many keys a page has; 0 or less: the store decides
	// Records: the keys that only have a record are shown, too.
	Records bool
}

// Shows reports whether the listing has a key that is in that state: somebody holds it or waits for it,
// or it has a record and q asks for records.
func (q Listing) Shows(i LockInfo) bool {
	return len(i.Holders)+len(i.Waiters) > 0 || q.Records && i.Record != nil
}

// LockInfo is what a store knows of a key.
type LockInfo struct {
	Key string
	// Mode is the mode of the holders. It means nothing without a holder.
	Mode    Mode
	Holders []Holder
	Waiters []Waiter
	// Record is what Once remembers; nil if there is no record.
	Record *RecordInfo
}

// IsFree reports whether nobody holds the key or waits for it, and it has no record.
func (i LockInfo) IsFree() bool { return len(i.Holders)+len(i.Waiters) == 0 && i.Record == nil }

// Holder is a lease in force, with its owner.
type Holder struct {
	// Owner is readable by [ParseOwner], unless a foreign client wrote it. It has
	// [MaxOwnerBytes] at most, as in [HeldError], and the same text names it in ForceRelease.
	// Show it to operators. Never send it to the caller of a service.
	Owner string
	// Token is the token of the grant; 0 for a foreign client's lock. If the lease was handed
	// on within its process since the grant, the present holder's token is greater.
	Token uint64
	Rule  string
	Trace string
	// HeldFor is how long ago the lease was granted; 0 for a foreign lock, which does not say.
	// Left is how long it lasts unless it is renewed; below 0 for a foreign lock without an
	// expiry. Both go by the backend's clock.
	HeldFor, Left time.Duration
	// Lingers: the holder's engine may keep the lease although nobody uses it, until somebody asks
	// for the key (core.WithLinger). Nobody else can see whether it is in use at this moment.
	Lingers bool
}

// Names reports whether h is the lease of owner with that token. If h has the token 0, it names
// owner's lease whatever its token.
func (h Holder) Names(owner string, token uint64) bool {
	return h.Owner == owner && (h.Token == 0 || h.Token == token)
}

// NamedHolders returns the holders that an entry of only names ([Holder.Names]), or all if only is
// empty.
func NamedHolders(holders, only []Holder) []Holder {
	if len(only) == 0 {
		return holders
	}
	var named []Holder
	for _, h := range holders {
		if slices.ContainsFunc(only, func(o Holder) bool { return o.Names(h.Owner, h.Token) }) {
			named = append(named, h)
		}
	}
	return named
}

// Waiter is a request that waits for a key.
type Waiter struct {
	Owner   string
	Mode    Mode
	Permits int // ModePermit only
	Rule    string
	Trace   string
	Waited  time.Duration // how long it has waited
}

// RecordInfo describes a record without its content.
type RecordInfo struct {
	Owner         string // the owner of the execution
	Size          int    // bytes of the result
	ResultNotKept bool   // as in [Record]
	Trace         string
	Left          time.Duration // how long it stays in force
}

package script

import (
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
)

// Acquire asks for a lease, or for a record that makes the lease unnecessary. The store sends
// its times in milliseconds.
type Acquire struct {
	Owner  string
	Claims []driver.Claim // one group of [Names.Groups]
	TTL    time.Duration
	Notes  string // see [Notes]
	Once   bool   // a record will do as well

	Wait        bool          // get in line if a claim is held
	WaiterLease time.Duration // how long the place in line is kept without a request of the waiter
	ClaimTime   time.Duration // how long the lock is kept for the waiter when it is its turn
	Waited      time.Duration // how long the owner has waited so far
	Stuck       int           // the claim that it waited for last, counted from 1; 0: none
	Question    uint64        // its number; 0: no message may grant what it asks for
	Inbox       string        // where the waiter gets messages; "": nowhere
	Part        bool          // the claims are a part of a set: a lease that the owner has keeps its TTL until [Names.Seal]
	HandOffs    uint64        // how many tokens to reserve for hand-offs at most
}

// Acquire makes c the call for q. [Call.Acquired] reads the answer.
func (n Names) Acquire(c *Call, q Acquire) {
	if isPlain(q.Claims) {
		kind := acquires
		if q.Once {
			kind = onces
		}
		c.short(kind, q.Claims, q.Owner, 0)
		c.plain.asks = q
		c.plain.asks.Claims = nil // the caller's, who may leave before the call does
		return
	}
	n.call(c, acquireScript, q.Owner, q.Claims,
		q.TTL.Milliseconds(), q.Wait, q.WaiterLease.Milliseconds(), q.ClaimTime.Milliseconds(), q.Inbox, q.Once,
		q.Notes, q.Waited.Milliseconds(), q.Stuck, q.Question, q.HandOffs, q.Part)
}

// Release makes c the call that ends what owner has, or waits for, among claims. Token 0 means
// any token. [Call.Verdict] reads the answer.
func (n Names) Release(c *Call, owner string, claims []driver.Claim, token uint64) {
	if isPlain(claims) {
		c.short(ends, claims, owner, token)
		return
	}
	n.call(c, releaseScript, owner, claims, token)
}

// MinHold makes c the call that ends claims of g for their owner and keeps them for g.MinHold.
// [Call.Verdict] reads the answer.
func (n Names) MinHold(c *Call, g driver.Grant, claims []driver.Claim) {
	n.call(c, minHoldScript, g.Owner, claims, g.Token, g.MinHold.Milliseconds())
}

// Renew makes c the call that gives claims of g a full TTL again. [Call.Verdict] reads
// the answer.
func (n Names) Renew(c *Call, g driver.Grant, claims []driver.Claim) {
	*c = Call{}
	c.set(renewScript, n.ofRenewal(claims), g.Owner, g.TTL.Milliseconds(), g.Token, modes(claims), g.Borrowed, g.HandedOn)
}

// Downgrade makes c the call that gives claims of g their modes and a full TTL again.
// [Call.Verdict] reads the answer.
func (n Names) Downgrade(c *Call, g driver.Grant, claims []driver.Claim) {
	n.call(c, sharingScript, g.Owner, claims, g.TTL.Milliseconds(), g.Token)
}

// Seal makes c the call that gives one part of a complete set the set's token and a full TTL.
// [Call.Verdict] reads the answer.
func (n Names) Seal(c *Call, owner string, claims []driver.Claim, ttl time.Duration, token uint64, notes string) {
	n.call(c, sealScript, owner, claims, ttl.Milliseconds(), token, notes)
}

// Complete makes c the call that stores a record and ends the lease. [Call.Verdict] reads
// the answer.
func (n Names) Complete(c *Call, g driver.Grant, rec driver.Record, retention time.Duration) {
	c.short(completes, g.Claims, g.Owner, g.Token)
	c.plain.record = plainRecord{head(g.Owner, rec), about(rec), string(rec.Result), retention.Milliseconds()}
}

// Inspect makes c the call that reads the state of a key. [Call.Info] reads the answer.
func (n Names) Inspect(c *Call, key string) {
	n.call(c, inspectScript, "", []driver.Claim{driver.Exclusive(key)})
}

// ForceRelease makes c the call that ends the leases on key that only names, or all if it names
// none. For the time remembered, their owners can learn the reason. [Call.Info] reads the
// answer: the key as it was before.
func (n Names) ForceRelease(c *Call, key, reason string, remembered time.Duration, only []driver.Holder) {
	args := []any{reason, remembered.Milliseconds(), len(only)}
	for _, h := range only {
		args = append(args, h.Owner, h.Token)
	}
	n.call(c, forceScript, "", []driver.Claim{driver.Exclusive(key)}, args...)
}

// Forget makes c the call that drops a key's record and version. [Call.Count] reads how many of
// these there were.
func (n Names) Forget(c *Call, key string) {
	n.call(c, dropScript, "", []driver.Claim{driver.Exclusive(key)})
	c.keys = append(c.keys, n.version(key))
}

// AdvanceVersion makes c the call that raises a key's version. [Call.Version] reads the answer.
func (n Names) AdvanceVersion(c *Call, key string, version uint64, retention time.Duration) {
	*c = Call{}
	c.set(advanceScript, []string{n.version(key)}, strconv.FormatUint(version, 10), retention.Milliseconds())
}

// short makes c a plain call. It sets the fields one by one: a second Call on the stack of each caller
// that waits would be a kilobyte.
func (c *Call) short(kind plainKind, claims []driver.Claim, owner string, token uint64) {
	*c = Call{}
	c.plain.kind, c.plain.key, c.plain.owner, c.plain.token = kind, claims[0].Key, owner, token
}

// call makes c a call of one of the scripts that share common.lua.
func (n Names) call(c *Call, script *redis.Script, owner string, claims []driver.Claim, args ...any) {
	all := make([]any, 0, 4+len(args)+1)
	all = append(all, owner, n.topology == Single, n.counterTTL(), modes(claims))
	*c = Call{}
	c.set(script, n.ofAll(claims), append(all, args...)...)
}

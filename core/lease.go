package core

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/carried"
	"github.com/keyturn/keyturn/core/internal/handoff"
	"github.com/keyturn/keyturn/core/internal/watchdog"
)

// Lease is a granted claim, or set of claims. It belongs to one acquisition, and must be released
// when the work is done ([Lease.Release]). It is safe for concurrent use. The zero value is not
// usable.
//
// A nested lease, acquired in a context that holds its keys already, is a count on the outer
// lease: see [Engine.Acquire].
type Lease struct {
	engine   *Engine
	grant    handoff.Grant // as it was granted; see current
	terms    terms
	granted  time.Time
	watch    watchdog.Watch // for a lease with a grant of its own
	finished doneSignal
	nest     *nest          // nil: the lease has a grant of its own
	depth    int32          // how many times over the context holds the keys: see observe.Lease
	state    atomic.Uint32  // told and early; one word, because there may be a hundred thousand leases
	borrowed *carried.Lease // not nil: another process holds the lease, and releases it
	own      leaseContext
	ctx      context.Context // own, or what a hook made of it

	release struct {
		boundedMutex       // one release at a time; later ones get its answer
		begun        bool  // the lease has left the watchdog
		concluded    bool  // err is final
		handedOn     bool  // it went to the next in line
		err          error // the result of Release
	}

	register   *register // the engine's list of held leases
	prev, next *Lease
}

// Bits of a lease's state.
const (
	told  = 1 << iota // the hooks were told of the end
	early             // it was released early: its context goes on until its function returns
)

func (l *Lease) releasedEarly() bool { return l.state.Load()&early != 0 }

// terms is what a lease needs of its call's settings. It is less than a third of them, and
// there may be a hundred thousand leases.
type terms struct {
	rule        string
	linger      time.Duration
	keepContext bool
	shadow      bool
	once        bool   // it is for an execution of Once
	old         *Lease // as in settings
}

func (s *settings) terms() terms {
	return terms{rule: s.rule, linger: s.linger, keepContext: s.keepContext, shadow: s.shadow != notShadow, once: s.once, old: s.old}
}

// Context returns the context to work under. It descends from the context of the acquisition and
// ends with the lease. Then context.Cause is ErrReleased, an error that matches ErrLeaseLost, or
// the parent's cause. It ends before the store admits the next holder, by a margin of 1 % of the
// TTL and 2 ms. Work that must not overlap at all also needs the token.
func (l *Lease) Context() context.Context { return l.ctx }

// Token returns the fencing token. It is greater than the token of every earlier lease on the same
// keys, with two exceptions after a loss of data or a forced release (docs/guarantees.md). It is
// below 1<<53 until the year 2255, so it survives a client that reads doubles. A resource that
// refuses smaller tokens than it has seen is safe from holders that were paused past their lease.
func (l *Lease) Token() uint64 { return l.grant.FencingToken() }

// Owner returns the value that the store keeps for the lease: host, process and 128 random bits
// ([driver.ParseOwner]). Operators see it in [Engine.Inspect], and waiters in [HeldError].
func (l *Lease) Owner() string { return l.grant.Owner }

// Claims returns what the token is good for: the claims that are held, in key order and in their
// present modes ([Lease.Downgrade]). If the acquisition's context held a part of a set, those
// claims are not among them; they have the tokens of their own leases. Do not change the slice.
func (l *Lease) Claims() []Claim {
	if l.nest != nil {
		return l.grant.Claims
	}
	return l.current().Claims
}

// current returns the grant with what has changed since.
func (l *Lease) current() handoff.Grant {
	g := l.grant
	g.Grant, g.Longest = l.watch.Grant()
	return g
}

// Key returns the key of the first claim, which for most leases is the only one.
func (l *Lease) Key() string { return l.grant.Claims[0].Key }

// TTL returns how long the store keeps the lease after a renewal: the TTL of [WithTTL] or
// [Lease.Extend], rounded up to what the store can keep. A lease that was handed on within its
// process begins with what is left of its predecessor's time, so use [Lease.Deadline] for the
// time that is left. A nested lease has the shortest TTL of the leases that it depends on.
func (l *Lease) TTL() time.Duration {
	if l.nest == nil {
		return l.current().TTL
	}
	return slices.MinFunc(l.nest.outer, func(a, b *Lease) int { return cmp.Compare(a.TTL(), b.TTL()) }).TTL()
}

// Deadline returns when the lease counts as lost unless a renewal comes through. It is a little
// before the store's own end of the lease. Each renewal moves it. A nested lease has the first deadline
// of the leases that it depends on.
func (l *Lease) Deadline() time.Time {
	if l.nest == nil {
		return l.watch.Deadline()
	}
	return slices.MinFunc(l.nest.outer, func(a, b *Lease) int { return a.Deadline().Compare(b.Deadline()) }).Deadline()
}

// Err returns nil while the lease is in force, an error that matches ErrLeaseLost once it is lost
// (a [*LeaseLostError]), and ErrReleased after a release. It checks the clock itself, so it is
// right also just after a pause of the process, when the watchdog has not run yet.
//
// A nested lease reports the loss of the outer one as it is, and driver.LossOuter if the outer one
// was released before it. With [WithMoveFrom], the lease also reports the loss of the old store's lease.
func (l *Lease) Err() error {
	err := l.ownErr()
	if err == nil && l.terms.old != nil {
		return l.terms.old.outerLoss()
	}
	return err
}

// ownErr is Err, whatever has become of the old store's lease.
func (l *Lease) ownErr() error {
	if l.nest != nil {
		return l.nest.err()
	}
	err := l.watch.Err()
	if errors.Is(err, ErrLeaseLost) { // the release itself reports how it ends
		l.end(err)
	}
	return err
}

// cancel ends the lease's context, and those that [Lease.Attach] made.
func (l *Lease) cancel(cause error) { l.own.end(cause) }

// lose ends the lease as lost, if it has not ended.
func (l *Lease) lose(reason driver.LossReason) {
	if err := l.watch.Lose(l.lossError(reason)); errors.Is(err, ErrLeaseLost) {
		l.end(err)
	}
}

// stop tells the context and the channel of Done how the lease ended.
func (l *Lease) stop(err error) {
	l.finished.signal()
	if errors.Is(err, ErrLeaseLost) && !l.terms.keepContext {
		l.cancel(err)
	}
}

// end is stop, and tells the hooks and the log, once.
func (l *Lease) end(err error) {
	if err != nil { // otherwise beginRelease has told them
		l.stop(err)
	}
	if l.state.Or(told)&told != 0 {
		return
	}
	if !l.release.handedOn {
		l.engine.lines.Ended(l.grant)
	}
	if l.borrowed == nil { // this process does not see how long a borrowed lease is held
		l.engine.holds.Add(l.terms.rule, l.grant.Claims, time.Since(l.granted), err == nil)
	}
	if errors.Is(err, ErrLeaseLost) {
		l.engine.log.lost(l, err)
	}
	if h := l.engine.hooks; h != nil {
		h.holdEnd(l.ctx, l, err)
	}
}

func (l *Lease) lossError(reason driver.LossReason) *LeaseLostError {
	if l.borrowed != nil && reason == driver.LossTaken {
		reason = driver.LossOuter // most likely its holder released it
	}
	return &LeaseLostError{Key: l.engine.ShowKey(l.Key()), Token: l.Token(), Reason: reason}
}

// taken makes a loss of the store's error, which may also say who took the lease away, and why.
func (l *Lease) taken(said error) *LeaseLostError {
	lost := l.lossError(driver.LossTaken)
	if told := (*LeaseLostError)(nil); errors.As(said, &told) && told.Reason != "" && told.Reason != driver.LossTaken {
		lost.Reason, lost.Detail = told.Reason, told.Detail
	}
	return lost
}

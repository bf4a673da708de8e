package core_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/experimental/carry"
	"github.com/keyturn/keyturn/core/internal/carried"
)

// caller and callee are two processes on one store; here is a lease of the
// caller's on claims, and the context in which the callee hears of it.
type twoProcesses struct {
	spy            *spy // the callee's
	caller, callee *core.Engine
	outer          *core.Lease
	ctx            context.Context
}

func callerHolds(t *testing.T, claims []core.Claim, opts ...core.CallOption) *twoProcesses {
	t.Helper()
	two := &twoProcesses{spy: newSpy()}
	two.caller, two.callee = newEngine(t, two.spy.Peer()), newEngine(t, two.spy)
	var err error
	two.outer, err = two.caller.AcquireAll(bg, claims, opts...)
	must(t, err)
	two.ctx = carry.Accept(bg, carry.Leases(two.outer.Context()))
	return two
}

// stranger is an owner that no engine made.
var stranger = driver.Owner{Host: "h", PID: 1, Instance: 1, Start: time.Unix(1, 0), ID: strings.Repeat("0", 32)}.String()

func TestBorrowedLease(t *testing.T) {
	two := callerHolds(t, exclusive("user:1"))
	defer mustRelease(t, two.outer)
	l, err := two.callee.TryAcquire(two.ctx, "user:1", core.WithRule("callee"))
	must(t, err)
	check(t, l.Token() == two.outer.Token() && l.Owner() == two.outer.Owner() && l.TTL() == two.outer.TTL() && core.Observed(l).Depth() == 2 && l.Key() == "user:1", "%+v", l)
	inner := within(t, two.callee, l)
	check(t, core.Observed(inner).Depth() == 3 && two.spy.renewals() == 1, "verified %d times", two.spy.renewals())
	wantNil(t, core.AssertHeld(inner.Context(), core.Exclusive("user:1")))
	wantOnly(t, errOf(two.callee.Once(two.ctx, "user:1", neverRuns)), core.ErrWouldDeadlock)
	wantOnly(t, two.callee.Mutex("user:1").Lock(two.ctx), core.ErrWouldDeadlock)
	for _, l := range []*core.Lease{inner, l, l} {
		mustRelease(t, l)
	}
	wantOnly(t, l.Err(), core.ErrReleased)
	wantEqual(t, "releases at the store", two.spy.releases(), 0)
	wantNothingLeft(t, two.callee)
	wantOnly(t, errOf(two.callee.TryAcquire(bg, "user:1")), core.ErrHeld) // a caller that carries nothing
}

// Strangers are all those whom the store does not know, whatever they say.
func TestForgedStaleAndReplayed(t *testing.T) {
	// The fields are owner, token, hand-offs, TTL, claims.
	with := func(i int, other string) func([]string) { return func(fields []string) { fields[i] = other } }
	claimOn := func(mode, key string) string { return mode + carried.HashKey(key) }
	for name, tc := range map[string]struct {
		shared bool // not exclusive
		over   bool // released, and had again
		forge  func(fields []string)
	}{
		"random owner": {forge: with(0, stranger)},
		"wrong token": {forge: func(fields []string) {
			token, _ := strconv.Atoi(fields[1])
			fields[1] = strconv.Itoa(token + 1)
		}},
		"handed on more often than it can be": {forge: with(2, "1001")},
		"key that it does not have":           {forge: with(4, claimOn("e", "other"))},
		"upgraded":                            {shared: true, forge: with(4, claimOn("e", "k"))},
		"downgraded":                          {forge: with(4, claimOn("s", "k"))},
		"released":                            {over: true, forge: func([]string) {}},
		"shared, forged, exclusive wanted": {forge: func(fields []string) {
			fields[0], fields[4] = stranger, claimOn("s", "k") // no DeadlockError: it would wait for another
		}},
	} {
		inBubble(t, name, func(t *testing.T) {
			held := core.Exclusive("k")
			if tc.shared {
				held = core.Shared("k")
			}
			two := callerHolds(t, []core.Claim{held})
			fields := strings.Split(carry.Leases(two.outer.Context()), ";")
			tc.forge(fields)
			if tc.over {
				mustRelease(t, two.outer)
				two.outer = mustAcquire(t, two.caller, "k")
			}
			ctx := carry.Accept(bg, strings.Join(fields, ";"))
			wantOnly(t, errOf(two.callee.TryAcquire(ctx, "k")), core.ErrHeld)
			wantOnly(t, errOf(two.callee.Once(ctx, "k", neverRuns, core.WithFailFast())), core.ErrHeld)
			mustRelease(t, two.outer)
			l := acquireIn(t, ctx, two.callee, "k") // and in line as anybody
			wantEqual(t, "depth", core.Observed(l).Depth(), 1)
			mustRelease(t, l)
		})
	}
}

// What a borrowed lease covers goes by its mode, as of any (TestWhatALeaseCovers).
func TestCarriedModes(t *testing.T) {
	two := callerHolds(t, []core.Claim{core.Shared("k"), core.Permit("p", 3)})
	defer mustRelease(t, two.outer)
	wantOnly(t, errOf(two.callee.Acquire(two.ctx, "k")), core.ErrWouldDeadlock)
	l := acquireIn(t, two.ctx, two.callee, "p", core.WithPermits(2))
	check(t, core.Observed(l).Depth() == 2 && l.Claims()[0] == core.Permit("p", 2), "%v", l.Claims())
	mustRelease(t, l)
}

// Onwards goes all that the caller holds, and not just what was borrowed of it on
// the way.
func TestCarriedOnwards(t *testing.T) {
	two := callerHolds(t, exclusive("a", "b"))
	defer mustRelease(t, two.outer)
	third := newEngine(t, two.spy.Peer())
	// By one that has nothing to do with it,
	wantEqual(t, "carried", carry.Leases(two.ctx), carry.Leases(two.outer.Context()))
	// and by one that has borrowed a part, also from a goroutine of its own.
	wantNil(t, two.callee.Do(two.ctx, "a", func(ctx context.Context) error {
		lease, _ := core.LeaseFrom(ctx)
		elsewhere, cancel := lease.Attach(bg)
		defer cancel()
		for _, ctx := range []context.Context{ctx, elsewhere} {
			carried := carry.Leases(ctx)
			check(t, strings.Count(carried, ",") == 0, "the same lease twice: %s", carried)
			for _, key := range []string{"a", "b"} {
				mustRelease(t, acquireIn(t, carry.Accept(bg, carried), third, key, core.WithFailFast()))
			}
		}
		return nil
	}))
}

// Two processes that renew one lease with different TTLs would each count on a
// term that the other one cuts short.
func TestCarriedLeaseKeepsItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		two := callerHolds(t, exclusive("k"), core.WithTTL(9*time.Second))
		borrowed := acquireIn(t, two.ctx, two.callee, "k")
		for _, l := range []*core.Lease{borrowed, two.outer} {
			for _, ttl := range []time.Duration{time.Second, time.Hour} {
				wantOnly(t, l.Extend(bg, ttl), core.ErrInvalidOption)
			}
			must(t, l.Extend(bg, 0))
			wantEqual(t, "TTL", l.TTL(), 9*time.Second)
			mustRelease(t, l)
		}
	})
}

// Nobody knows which TTL the store has while an Extend is under way, or unanswered. A
// lease that is carried then can be borrowed all the same, and is kept by both sides.
func TestCarriedDuringAnExtend(t *testing.T) {
	const before = 9 * time.Second
	for _, ttl := range []time.Duration{time.Second, time.Hour} {
		for _, answered := range []bool{true, false} {
			inBubble(t, fmt.Sprint(ttl, answered), func(t *testing.T) {
				spy := newSpy()
				caller, callee := newEngine(t, spy), newEngine(t, spy.Peer())
				l := mustAcquire(t, caller, "k", core.WithTTL(before))
				var text string
				spy.onRenew = func(ctx context.Context, g driver.Grant) error {
					text = carry.Leases(l.Context())
					if err := errors.Join(spy.Store.Renew(ctx, []driver.Grant{g})...); err != nil || answered {
						return err
					}
					return errDown
				}
				wantEqual(t, "extended", l.Extend(bg, ttl) == nil, answered)
				spy.change(func() { spy.onRenew = nil })
				borrowed := acquireIn(t, carry.Accept(bg, text), callee, "k", core.WithFailFast())
				wantEqual(t, "TTL", borrowed.TTL(), min(ttl, before))
				time.Sleep(time.Minute)
				said := driver.Grant{Owner: l.Owner(), Token: l.Token(), Claims: l.Claims(), Borrowed: true}
				for said.TTL = before; said.TTL <= before+time.Millisecond; said.TTL += time.Millisecond {
					if err := spy.Store.Renew(bg, []driver.Grant{said})[0]; (err == nil) != (said.TTL == before) {
						t.Errorf("borrowed for %v: %v", said.TTL, err)
					}
				}
				mustRelease(t, borrowed)
				mustRelease(t, l)
			})
		}
	}
}

package core_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/watchdog"
	"github.com/keyturn/keyturn/core/observe"
)

// reason says how the lease's context came to its end.
func reason(l *core.Lease) driver.LossReason {
	var lost *core.LeaseLostError
	if l.Context().Err() == nil || !errors.As(context.Cause(l.Context()), &lost) {
		return ""
	}
	return lost.Reason
}

// With a store that does not answer, the holder's time is over before the store's is, and the holder learns it. The last
// good renewal counts from before it was sent. (redisson#4698, etcd#6127) A store that answers for fewer leases than it was
// asked about has not said anything of the others. An answer that comes later does not bring the lease back.
func TestLostBeforeTheServerLetsTheNextOneIn(t *testing.T) {
	for name, renew := range map[string]func(ctx context.Context, s *spy, grants []driver.Grant) []error{
		"renewals fail": func(context.Context, *spy, []driver.Grant) []error { return []error{errDown} },
		"renewals hang": func(ctx context.Context, _ *spy, _ []driver.Grant) []error { <-ctx.Done(); return []error{errDown} },
		"no answers":    func(context.Context, *spy, []driver.Grant) []error { return nil },
		"late answers": func(ctx context.Context, s *spy, grants []driver.Grant) []error {
			errs := s.Renew(ctx, grants)
			time.Sleep(10 * time.Second)
			return errs
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			const ttl, margin = 10 * time.Second, 102 * time.Millisecond // for clocks of different speeds
			eng := newEngine(t, renewing{newSpy(), renew}, core.WithTTL(ttl))
			start := time.Now()
			l := mustAcquire(t, eng, "k")
			deadline := l.Deadline()
			<-l.Context().Done()
			wantTook(t, start, ttl-margin)
			check(t, reason(l) == driver.LossExpired, "cause %v", context.Cause(l.Context()))
			next := mustAcquire(t, eng, "k") // the store's own clock frees it
			got := time.Since(start)
			check(t, got >= ttl, "next one let in after %v", got)
			mustRelease(t, next)
			time.Sleep(time.Minute)
			check(t, l.Deadline() == deadline, "the deadline moved by %v after the loss", l.Deadline().Sub(deadline))
			wantOnly(t, l.Release(bg), core.ErrLeaseLost)
		})
	}
}

// renewing is a spy whose renewals a function answers.
type renewing struct {
	*spy
	renew func(context.Context, *spy, []driver.Grant) []error
}

func (r renewing) Renew(ctx context.Context, grants []driver.Grant) []error {
	return r.renew(ctx, r.spy, grants)
}

// Hooks may take their time with one lease: the others are renewed, and their contexts end, in time all the same.
func TestSlowHooksCostNoOtherLease(t *testing.T) {
	const ttl, margin, leases = 10 * time.Second, 102 * time.Millisecond, 6
	for name, tc := range map[string]struct {
		err  error // of each renewal
		ends time.Duration
	}{"renewed": {nil, 3 * ttl}, "forgotten": {core.ErrLeaseLost, ttl / 3}, "unanswered": {errDown, ttl - margin}} {
		inBubble(t, name, func(t *testing.T) {
			spy, eng := newSpied(t, core.WithTTL(ttl), core.WithHooks(observe.Hooks{
				Renewed: func(observe.Lease, time.Duration, error) { time.Sleep(ttl / 4) },
				HoldEnd: func(context.Context, observe.Lease, error) { time.Sleep(ttl / 4) },
			}))
			spy.onRenew = func(context.Context, driver.Grant) error { return tc.err }
			var all []*core.Lease
			for i := range leases {
				began, l := time.Now(), mustAcquire(t, eng, fmt.Sprint(i))
				context.AfterFunc(l.Context(), func() { check(t, time.Since(began) <= tc.ends, "%d ended after %v", i, time.Since(began)) })
				all = append(all, l)
				time.Sleep(time.Duration(i%2) * time.Millisecond) // two at a time
			}
			time.Sleep(ttl * 5 / 4)
			for _, l := range all {
				check(t, (l.Err() == nil) == (tc.err == nil), "%v", l.Err())
				_ = l.Release(bg)
			}
		})
	}
}

func TestMaxHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := newEngine(t, newSpy(), core.WithTTL(3*time.Second), core.WithMaxHold(10*time.Second+300*time.Millisecond))
		start := time.Now()
		l := mustAcquire(t, eng, "k")
		<-l.Context().Done()
		if got := time.Since(start); got != 10*time.Second+300*time.Millisecond { // between two looks
			t.Errorf("ended after %v", got)
		}
		check(t, reason(l) == driver.LossMaxHold, "cause %v", context.Cause(l.Context()))
		wantOnly(t, errOf(eng.TryAcquire(bg, "k")), core.ErrHeld) // the rest of the TTL is for stopping
		wantOnly(t, l.Release(bg), core.ErrLeaseLost)
		isFree(t, eng, "k") // and a handler that stops frees it at once

		hung := mustAcquire(t, eng, "k")
		next := mustAcquire(t, eng, "k") // one that never stops: by the TTL
		if got := time.Since(start); got > 10*time.Second+14*time.Second {
			t.Errorf("a handler that hangs kept the key for %v", got)
		}
		mustRelease(t, next)
		_ = hung.Release(bg)

		forever := mustAcquire(t, eng, "k", core.WithMaxHold(core.Forever))
		time.Sleep(time.Hour)
		check(t, forever.Err() == nil, "no max hold: %v", forever.Err())
		mustRelease(t, forever)
	})
}

// Ended leases are garbage, with what their callers' contexts carry, even if other leases live on, and though
// somebody asked for their Done.
func TestEndedLeasesAreFreed(t *testing.T) {
	type request struct{ _ [64]byte }
	eng := newEngine(t, newSpy())
	stays := mustAcquire(t, eng, "stays")
	use := func(ctx context.Context, key string) (weak.Pointer[core.Lease], weak.Pointer[request]) {
		r := new(request)
		l := acquireIn(t, context.WithValue(ctx, marked{}, r), eng, key)
		check(t, !isDone(l), "closed from the start")
		mustRelease(t, l)
		return weak.Make(l), weak.Make(r)
	}
	lease, carried := use(bg, "goes")
	nested, _ := use(stays.Context(), "stays")
	for range 3 {
		runtime.GC()
	}
	if lease.Value() != nil || carried.Value() != nil || nested.Value() != nil {
		t.Errorf("something holds on to the lease: %v, to the request: %v, to the nested lease: %v", lease.Value() != nil, carried.Value() != nil, nested.Value() != nil)
	}
	mustRelease(t, stays)
}

// If the holder asks for another TTL in the first term, it gets a full one. If there is no
// answer, the first term stays.
func TestExtendInTheFirstTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := brief{spy: newSpy()}
		l := mustAcquire(t, newEngine(t, store, core.WithTTL(30*time.Second)), "k")
		store.change(func() { store.onRenew = func(context.Context, driver.Grant) error { return errDown } })
		before := l.Deadline()
		wantOnly(t, l.Extend(bg, 0), core.ErrOutcomeUnknown, core.ErrUnavailable)
		check(t, l.Deadline().Equal(before), "the deadline is %v, was %v", l.Deadline(), before)
		store.change(func() { store.onRenew = nil })
		must(t, l.Extend(bg, 0))
		wantEqual(t, "left", leftOf(l, 30*time.Second), 30*time.Second)
		time.Sleep(time.Minute)
		mustRelease(t, l)
	})
}

// An answer that comes after the lease's time, or its first term, is no lease: by then the key may be somebody
// else's. (The process was paused or asleep between request and reply; etcd#11456.) Nothing runs without a lock for that.
func TestAnswerAfterTheLeaseIsOver(t *testing.T) {
	const ttl = 30 * time.Second
	for name, asleep := range map[string]bool{"paused": false, "asleep": true} {
		for _, term := range []time.Duration{ttl, firstTerm} {
			inBubble(t, fmt.Sprint(name, " for ", term), func(t *testing.T) {
				wall, spy := &core.Wall{}, newSpy()
				pause := func() {
					if asleep {
						time.Sleep(time.Millisecond)
						wall.Jump(term)
					} else {
						time.Sleep(term)
					}
				}
				var store driver.Store = &late{spy, pause}
				if term == firstTerm {
					store = brief{spy: spy, then: pause}
				}
				var seen observe.Lease
				var ends []error
				eng := newEngine(t, store, wall, core.WithTTL(ttl), core.WithHooks(observe.Hooks{HoldEnd: func(_ context.Context, l observe.Lease, err error) { seen, ends = l, append(ends, err) }}))
				wantOnly(t, eng.Do(bg, "k", func(context.Context) error { t.Error("it ran"); return nil }, core.WithRunUnlocked()), core.ErrUnavailable)
				synctest.Wait()
				check(t, len(ends) == 1 && errors.Is(ends[0], core.ErrUnavailable) && seen.Context().Err() != nil, "the observer was told of the ends %v, context %v", ends, seen.Context().Err())
				l, _ := core.LeaseFrom(seen.Context())
				wantOnly(t, l.Release(bg), core.ErrUnavailable)
				wantEqual(t, "releases of what was granted too late", len(spy.released), 1)
			})
		}
	}
}

// The deadline counts from before the request was sent, never from the reply. The reply comes before a
// third of the TTL is over, when the lease would be renewed at once.
func TestDeadlineCountsFromBeforeTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := lateBy(200 * time.Millisecond)
		eng := newEngine(t, late)
		asked := time.Now()
		l := mustAcquire(t, eng, "k", core.WithTTL(time.Second))
		got, want := l.Deadline().Sub(asked), time.Second-watchdog.Margin(time.Second)
		check(t, got == want, "deadline %v after asking, want %v", got, want)
		mustRelease(t, l)
	})
}

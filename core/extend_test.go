package core_test

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/watchdog"
)

// left is how long the lease is good without a renewal.
func left(l *core.Lease) time.Duration { return time.Until(l.Deadline()) }

// term is what left is right after a renewal for ttl.
func term(ttl time.Duration) time.Duration { return ttl - watchdog.Margin(ttl) }

func TestExtendRenewsNowAndFromNowOn(t *testing.T) {
	for name, tc := range map[string]struct{ ttl, want time.Duration }{
		"shorter":             {3 * time.Second, 3 * time.Second},
		"the same":            {0, defaultTTL},
		"the least":           {driver.MinTTL, driver.MinTTL},
		"odd, and rounded up": {time.Second + 1, time.Second + time.Millisecond},
	} {
		inBubble(t, name, func(t *testing.T) {
			spy, eng := newSpied(t)
			l := mustAcquire(t, eng, "k", core.WithMaxHold(core.Forever))
			time.Sleep(4 * time.Second)
			must(t, l.Extend(bg, tc.ttl))
			check(t, l.TTL() == tc.want && left(l) == term(tc.want), "TTL %v, %v left", l.TTL(), left(l))
			extended := time.Now()
			time.Sleep(2*tc.want + tc.want/10)
			synctest.Wait()
			got := since(extended, spy.renewedAt)
			check(t, len(got) >= 6 && got[1] == tc.want/3, "renewed at %v", got)
			wantEqual(t, "renewed for", spy.batches[len(spy.batches)-1][0].TTL, tc.want)
			mustRelease(t, l)
		})
	}
}

func TestExtendRefusesWhatCanNotBe(t *testing.T) {
	spy := newSpy()
	l := mustAcquire(t, newEngine(t, spy), "k")
	for _, ttl := range []time.Duration{-1, 1, driver.MinTTL - 1, driver.MaxTTL + 1} {
		wantOnly(t, l.Extend(bg, ttl), core.ErrInvalidOption)
	}
	wantEqual(t, "TTL", l.TTL(), defaultTTL)
	mustRelease(t, l)
	wantOnly(t, l.Extend(bg, time.Hour), core.ErrReleased)
	check(t, spy.renewals() == 0, "the store was asked")
}

// An extension brings no lease back that is over by the clock, and leaves the end of a max hold where it is.
func TestExtendDoesNotBringBack(t *testing.T) {
	inBubble(t, "over by the clock", func(t *testing.T) {
		spy := newSpy()
		spy.change(func() { spy.onRenew = func(context.Context, driver.Grant) error { return errDown } })
		l := mustAcquire(t, newEngine(t, spy), "k")
		time.Sleep(defaultTTL)
		spy.change(func() { spy.onRenew = nil })
		asked := spy.renewals()
		wantOnly(t, l.Extend(bg, time.Hour), core.ErrLeaseLost)
		check(t, spy.renewals() == asked, "the store was asked")
		wantOnly(t, l.Release(bg), core.ErrLeaseLost)
	})
	inBubble(t, "max hold", func(t *testing.T) {
		l := mustAcquire(t, newEngine(t, newSpy()), "k", core.WithMaxHold(time.Minute))
		must(t, l.Extend(bg, time.Hour))
		time.Sleep(time.Minute)
		wantLost(t, l.Release(bg), driver.LossMaxHold)
	})
}

// An extension that went unanswered may be in force or not: the shorter term
// counts, and the TTL that the store is known to have had goes on.
func TestUnansweredExtension(t *testing.T) {
	hang := func(ctx context.Context, _ driver.Grant) error { <-ctx.Done(); return ctx.Err() }
	out := func(ctx context.Context, _ driver.Grant) error { <-ctx.Done(); return errDown }
	refuse := func(context.Context, driver.Grant) error { return errDown }
	unknown := func(why ...error) []error { return append(why, core.ErrOutcomeUnknown) }
	for name, tc := range map[string]struct {
		deadline, hangsUp time.Duration
		store             func(context.Context, driver.Grant) error
		ttl               time.Duration // 0: an hour
		want              []error
		took              time.Duration
	}{
		"longer":                    {store: hang, want: unknown(core.ErrUnavailable), took: 5 * time.Second},
		"shorter":                   {store: hang, ttl: 3 * time.Second, want: unknown(core.ErrUnavailable), took: time.Second},
		"refused":                   {store: refuse, want: unknown(core.ErrUnavailable)},
		"another error":             {store: func(context.Context, driver.Grant) error { return errors.New("?") }, want: unknown()},
		"hangs up":                  {hangsUp: time.Second, store: hang, want: unknown(context.Canceled), took: time.Second},
		"own deadline":              {deadline: 2 * time.Second, store: hang, want: unknown(context.DeadlineExceeded), took: 2 * time.Second},
		"own deadline in an outage": {deadline: 2 * time.Second, store: out, want: unknown(core.ErrUnavailable), took: 2 * time.Second},
		// Too little time to say anything about the store.
		"own short deadline": {deadline: 20 * time.Millisecond, store: out, want: unknown(context.DeadlineExceeded), took: 20 * time.Millisecond},
		"gone before it":     {deadline: -1, want: []error{context.DeadlineExceeded}},
	} {
		inBubble(t, name, func(t *testing.T) {
			spy, eng := newSpied(t, core.WithReleaseTimeout(time.Minute)) // the wait is a third of the shorter TTL
			l := mustAcquire(t, eng, "k")
			spy.change(func() { spy.onRenew = tc.store })
			ttl, began := cmp.Or(tc.ttl, time.Hour), time.Now()
			wantOnly(t, l.Extend(callerFor(t, tc.deadline, tc.hangsUp), ttl), tc.want...)
			wantTook(t, began, tc.took)
			wantEqual(t, "left", left(l), term(min(ttl, defaultTTL))-tc.took)
			wantEqual(t, "TTL", l.TTL(), defaultTTL)
			spy.change(func() { spy.onRenew = nil })
			time.Sleep(time.Minute)
			mustRelease(t, l)
		})
	}
}

// A nested lease has the outer one's time, as long as it lasts itself.
func TestExtendNested(t *testing.T) {
	eng := newEngine(t, newSpy())
	outer := mustAcquire(t, eng, "k")
	inner := within(t, eng, outer)
	must(t, inner.Extend(bg, time.Hour))
	check(t, outer.TTL() == time.Hour && inner.TTL() == time.Hour, "TTL %v and %v", outer.TTL(), inner.TTL())
	mustRelease(t, inner)
	wantOnly(t, inner.Extend(bg, time.Minute), core.ErrReleased)
	mustRelease(t, outer)
}

// A caller that waits for a renewal that hangs, and gives up, has sent nothing. So nothing is
// unknown. That wait is bounded, too.
func TestExtendBehindARenewalThatHangs(t *testing.T) {
	for deadline, want := range map[time.Duration]error{time.Second: context.DeadlineExceeded, 0: core.ErrUnavailable} {
		inBubble(t, want.Error(), func(t *testing.T) {
			spy, eng := newSpied(t, core.WithTTL(30*time.Second))
			l := mustAcquire(t, eng, "k")
			spy.change(func() { spy.onRenew = func(ctx context.Context, _ driver.Grant) error { <-ctx.Done(); return errDown } })
			time.Sleep(11 * time.Second)
			began := time.Now()
			wantOnly(t, l.Extend(callerFor(t, deadline, 0), time.Hour), want)
			wantTook(t, began, cmp.Or(deadline, defaultReleaseTimeout))
			wantEqual(t, "renewals", spy.renewals(), 1)
			mustRelease(t, l)
		})
	}
}

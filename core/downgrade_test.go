package core_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/memstore"
)

// tryAll asks without waiting and releases what it gets.
func tryAll(eng *core.Engine, claims ...core.Claim) error {
	l, err := eng.AcquireAll(bg, claims, core.WithFailFast())
	if err == nil {
		err = l.Release(bg)
	}
	return err
}

func TestDowngradeLetsReadersInAndKeepsWritersOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy, seen := newSpy(), &recorder{}
		eng, other := newEngine(t, spy, core.WithHooks(seen.hooks(t, ""))), newEngine(t, spy.Peer())
		l := acquireAll(t, eng, core.Exclusive("a"), core.Shared("b"), core.Exclusive("c"))
		token := l.Token()
		wantOnly(t, tryAll(other, core.Shared("a")), core.ErrHeld)
		must(t, l.Downgrade(bg))
		want := []core.Claim{core.Shared("a"), core.Shared("b"), core.Shared("c")}
		check(t, slices.Equal(l.Claims(), want) && l.Token() == token, "claims %v, token %d after %d", l.Claims(), l.Token(), token)
		wantNil(t, tryAll(other, core.Shared("a"), core.Shared("c")))
		wantOnly(t, tryAll(other, core.Exclusive("a")), core.ErrHeld)
		time.Sleep(2 * time.Minute)
		check(t, l.Err() == nil && spy.renewals() >= 10, "%d renewals, %v", spy.renewals(), l.Err())
		wantOnly(t, tryAll(other, core.Exclusive("c")), core.ErrHeld)
		wantNil(t, l.Downgrade(bg))
		mustRelease(t, l)
		wantNil(t, tryAll(other, core.Exclusive("a"), core.Exclusive("b"), core.Exclusive("c")))
		check(t, seen.count("Extended ok") == 2, "seen %q", seen.events)
		wantOnly(t, l.Downgrade(bg), core.ErrReleased)
	})
}

func TestDowngradeRefusesWhatCanNotBe(t *testing.T) {
	eng := newEngine(t, newSpy())
	outer := mustAcquire(t, eng, "k")
	for _, l := range []*core.Lease{
		acquireAll(t, eng, core.Shared("a")), acquireAll(t, eng, core.Permit("b", 3)), within(t, eng, outer),
	} {
		wantOnly(t, l.Downgrade(bg), core.ErrInvalidClaim)
		mustRelease(t, l)
	}
	mustRelease(t, outer)
	l := mustAcquire(t, newEngine(t, plain{memstore.New()}), "k")
	wantOnly(t, l.Downgrade(bg), errors.ErrUnsupported)
	check(t, l.Claims()[0].Mode == driver.ModeExclusive, "shared all the same")
	mustRelease(t, l)
}

// downgrades breaks downgrades, on their way to the store and back. A break that returns nil lets them through.
type downgrades struct {
	*spy
	there, back func(context.Context) error
}

func newDowngrades() *downgrades { return &downgrades{newSpy(), noWork, noWork} }

func (d *downgrades) Downgrade(ctx context.Context, g driver.Grant) error {
	d.mu.Lock()
	there, back := d.there, d.back
	d.mu.Unlock()
	if err := there(ctx); err != nil {
		return err
	}
	if err := d.spy.Downgrade(ctx, g); err != nil {
		return err
	}
	return back(ctx)
}

// A downgrade that went unanswered may be in force or not. Either way the lease is
// kept, by repeating it, and nobody is told of a loss that is none.
func TestUnansweredDowngrade(t *testing.T) {
	lost := func(context.Context) error { return errDown }
	never := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, breaks := range map[string]struct{ there, back func(context.Context) error }{
		"lost on the way": {lost, noWork}, "lost on the way back": {noWork, lost},
		"the store hangs": {never, noWork}, "its answer never comes": {noWork, never},
	} {
		for _, repeated := range []bool{false, true} {
			inBubble(t, name, func(t *testing.T) {
				d, seen := newDowngrades(), &recorder{}
				eng, other := newEngine(t, d, core.WithHooks(seen.hooks(t, ""))), newEngine(t, d.Peer())
				l := mustAcquire(t, eng, "k")
				d.change(func() { d.there, d.back = breaks.there, breaks.back })
				wantOnly(t, l.Downgrade(bg), core.ErrOutcomeUnknown, core.ErrUnavailable)
				check(t, l.Claims()[0].Mode == driver.ModeShared, "the holder may believe that it has the key exclusively")
				time.Sleep(5 * time.Second)
				wantOnly(t, tryAll(other, core.Exclusive("k")), core.ErrHeld)
				check(t, l.Err() == nil && d.renewals() == 0, "%v, %d renewals in a mode that may not be right", l.Err(), d.renewals())
				d.change(func() { d.there, d.back = noWork, noWork })
				if repeated {
					wantNil(t, l.Downgrade(bg))
				}
				time.Sleep(time.Minute)
				wantNil(t, tryAll(other, core.Shared("k")))
				wantEqual(t, "losses told", seen.count("Renewed lost")+seen.count("HoldEnd lost"), 0)
				check(t, d.renewals() > 0, "not renewed afterwards")
				mustRelease(t, l)
				wantNil(t, tryAll(other, core.Exclusive("k")))
			})
		}
	}
}

// A release does not wait for a downgrade that hangs, and one that comes through during or after the
// release leaves nothing behind: that the lease was lost would not be true.
func TestDowngradeBesideARelease(t *testing.T) {
	for name, tc := range map[string]struct {
		downgrade, release time.Duration
		answer             error // to the downgrade
	}{
		"carried out late":      {downgrade: time.Second},
		"late and unheard of":   {downgrade: time.Second, answer: errDown},
		"overtakes the release": {downgrade: 100 * time.Millisecond, release: 200 * time.Millisecond},
	} {
		inBubble(t, name, func(t *testing.T) {
			d := newDowngrades()
			eng, other := newEngine(t, d), newEngine(t, d.Peer())
			l := mustAcquire(t, eng, "k")
			d.change(func() {
				d.there = func(context.Context) error { time.Sleep(tc.downgrade); return nil }
				d.back = func(context.Context) error { return tc.answer }
				d.onRelease = func(context.Context, driver.Grant) error { time.Sleep(tc.release); return nil }
			})
			var all sync.WaitGroup
			all.Go(func() { wantOnly(t, l.Downgrade(bg), core.ErrReleased) })
			synctest.Wait()
			began := time.Now()
			mustRelease(t, l)
			wantTook(t, began, tc.release)
			all.Wait()
			time.Sleep(time.Second) // what is sent again has arrived
			isFree(t, other, "k")
		})
	}
}

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
		if want := []core.Claim{core.Shared("a"), core.Shared("b"), core.Shared("c")}; !slices.Equal(l.Claims(), want) || l.Token() != token {
			t.Errorf("claims %v, token %d after %d", l.Claims(), l.Token(), token)
		}
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
	inner := acquireIn(t, outer.Context(), eng, "k")
	for name, l := range map[string]*core.Lease{
		"shared":   acquireAll(t, eng, core.Shared("a")),
		"a permit": acquireAll(t, eng, core.Permit("b", 3)),
		"nested":   inner,
	} {
		t.Run(name, func(t *testing.T) {
			wantOnly(t, l.Downgrade(bg), core.ErrInvalidClaim)
			mustRelease(t, l)
		})
	}
	mustRelease(t, outer)
	t.Run("not supported", func(t *testing.T) {
		l := mustAcquire(t, newEngine(t, plain{memstore.New()}), "k")
		wantOnly(t, l.Downgrade(bg), errors.ErrUnsupported)
		check(t, l.Claims()[0].Mode == driver.ModeExclusive, "shared all the same")
		mustRelease(t, l)
	})
}

// downgrades breaks downgrades.
type downgrades struct {
	*spy
	asked  []time.Time
	before func(ctx context.Context, g driver.Grant) error // nil: let it through
	after  func(ctx context.Context) error                 // nil: let the answer through
}

func (d *downgrades) Downgrade(ctx context.Context, g driver.Grant) error {
	d.mu.Lock()
	d.asked = append(d.asked, time.Now())
	before, after := d.before, d.after
	d.mu.Unlock()
	if before != nil {
		if err := before(ctx, g); err != nil {
			return err
		}
	}
	err := d.spy.Downgrade(ctx, g)
	if err == nil && after != nil {
		err = after(ctx)
	}
	return err
}

func (d *downgrades) mend() { d.change(func() { d.before, d.after = nil, nil }) }

// A downgrade that went unanswered may be in force or not. Either way the lease is
// kept, by repeating it, and nobody is told of a loss that is none.
func TestUnansweredDowngrade(t *testing.T) {
	for name, breaks := range map[string]func(*downgrades){
		"lost on the way":      func(d *downgrades) { d.before = func(context.Context, driver.Grant) error { return errDown } },
		"lost on the way back": func(d *downgrades) { d.after = func(context.Context) error { return errDown } },
		"the store hangs": func(d *downgrades) {
			d.before = func(ctx context.Context, _ driver.Grant) error { <-ctx.Done(); return errDown }
		},
		"its answer never comes": func(d *downgrades) { d.after = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() } },
	} {
		for _, repeated := range []bool{false, true} {
			inBubble(t, name, func(t *testing.T) {
				d := &downgrades{spy: newSpy()}
				seen := &recorder{}
				eng, other := newEngine(t, d, core.WithHooks(seen.hooks(t, ""))), newEngine(t, d.Peer())
				l := mustAcquire(t, eng, "k")
				d.change(func() { breaks(d) })
				wantOnly(t, l.Downgrade(bg), core.ErrOutcomeUnknown, core.ErrUnavailable)
				check(t, l.Claims()[0].Mode == driver.ModeShared, "the holder may believe that it has the key exclusively")
				time.Sleep(5 * time.Second)
				wantOnly(t, tryAll(other, core.Exclusive("k")), core.ErrHeld)
				if l.Err() != nil || d.renewals() > 0 {
					t.Errorf("%v, %d renewals in a mode that may not be right", l.Err(), d.renewals())
				}
				d.mend()
				if repeated {
					wantNil(t, l.Downgrade(bg))
				}
				time.Sleep(time.Minute)
				wantNil(t, tryAll(other, core.Shared("k")))
				if l.Err() != nil || d.renewals() == 0 || seen.count("Renewed lost")+seen.count("HoldEnd lost") > 0 {
					t.Errorf("%v, %d renewals, seen %q", l.Err(), d.renewals(), seen.events)
				}
				mustRelease(t, l)
				wantNil(t, tryAll(other, core.Exclusive("k")))
			})
		}
	}
}

// A downgrade brings back nothing that is gone, and leaves nothing behind.
func TestDowngradeDoesNotBringBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy, eng := newSpied(t)
		for _, stolen := range []bool{false, true} {
			l, other := mustAcquire(t, eng, "k"), newEngine(t, spy.Peer())
			breakLock(t, spy, l)
			if stolen {
				defer mustRelease(t, mustAcquire(t, other, "k"))
			}
			wantOnly(t, l.Downgrade(bg), core.ErrLeaseLost)
			wantEqual(t, "lost", reason(l), driver.LossTaken)
			if !stolen {
				isFree(t, other, "k")
			}
			wantOnly(t, l.Release(bg), core.ErrLeaseLost)
		}
	})
}

// A release does not wait for a downgrade that hangs, and one that comes through during or after the
// release leaves nothing behind: that the lease was lost would not be true.
func TestDowngradeBesideARelease(t *testing.T) {
	slowly := func(d time.Duration) func(context.Context, driver.Grant) error {
		return func(context.Context, driver.Grant) error { time.Sleep(d); return nil }
	}
	for name, tc := range map[string]struct {
		downgrade, release time.Duration
		answer             error // to the downgrade
	}{
		"carried out late":      {downgrade: time.Second},
		"late and unheard of":   {downgrade: time.Second, answer: errDown},
		"overtakes the release": {downgrade: 100 * time.Millisecond, release: 200 * time.Millisecond},
	} {
		inBubble(t, name, func(t *testing.T) {
			d := &downgrades{spy: newSpy()}
			eng, other := newEngine(t, d), newEngine(t, d.Peer())
			l := mustAcquire(t, eng, "k")
			d.change(func() {
				d.before, d.onRelease = slowly(tc.downgrade), slowly(tc.release)
				d.after = func(context.Context) error { return tc.answer }
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

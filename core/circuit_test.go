package core_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// outage breaks a spy in one of the ways in which stores break, until mended.
type outage struct{ *spy }

func (o *outage) hang() { o.set(func(ctx context.Context) error { <-ctx.Done(); return errDown }) }

func (o *outage) mend() { o.set(noWork) }

func (o *outage) set(what func(context.Context) error) {
	o.change(func() { o.onAcquire = func(ctx context.Context, _ driver.Request) error { return what(ctx) } })
}

// attempt asks once and says how long that took.
func attempt(eng *core.Engine, key string, opts ...core.CallOption) (time.Duration, error) {
	began := time.Now()
	l, err := eng.Acquire(bg, key, opts...)
	took := time.Since(began)
	if err == nil {
		err = l.Release(bg)
	}
	return took, err
}

// trip has the circuit open: a store that hangs for as long as it takes.
func trip(t *testing.T, eng *core.Engine, o *outage) {
	t.Helper()
	o.hang()
	wantOnly(t, errOf(attempt(eng, "tripping", core.WithMaxWait(defaultCircuit))), core.ErrUnavailable)
	wantOnly(t, errOf(attempt(eng, "tripping")), core.ErrUnavailable, core.ErrCircuitOpen)
}

// An open circuit refuses each call at once, without a request, and is an outage to run unlocked in. Leases that are
// held stay held, and are released. A probe that has to wait for a holder is answered, too: the store is back.
func TestCircuitRefusesAtOnceAndRecoversByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outage{newSpy()}
		eng := newEngine(t, o)
		held, busy := mustAcquire(t, eng, "held"), mustAcquire(t, eng, "busy")
		trip(t, eng, o)
		asked := o.requests()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				took, err := attempt(eng, "k")
				wantOnly(t, err, core.ErrUnavailable, core.ErrCircuitOpen)
				wantEqual(t, "waited", took, 0)
			})
		}
		all.Wait()
		wantOnly(t, errOf(eng.TryAcquire(bg, "k")), core.ErrUnavailable, core.ErrCircuitOpen)
		ran := false
		err := eng.Do(bg, "k", func(context.Context) error { ran = true; return nil }, core.WithRunUnlocked())
		check(t, err == nil && ran && o.requests() == asked, "ran %v, error %v, %d requests", ran, err, o.requests()-asked)
		time.Sleep(50 * time.Second)
		check(t, o.renewals() >= 8, "%d renewals", o.renewals())
		mustRelease(t, held)
		wantEqual(t, "releases", o.releases(), 1)
		o.mend()
		all.Go(func() { wantNil(t, errOf(attempt(eng, "busy"))) })
		synctest.Wait()
		for range 3 {
			wantNil(t, errOf(attempt(eng, "k")))
		}
		mustRelease(t, busy)
		all.Wait()
	})
}

func nothing(context.Context) ([]byte, error) { return nil, nil }

// A probe that has to wait for a holder has closed the circuit. When it ends, a
// later outage's probe may be under way: there is still one at a time.
func TestAnOldProbeIsNotTakenForALaterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outage{newSpy()}
		eng := newEngine(t, o)
		trip(t, eng, o)
		o.change(func() {
			o.onAcquire = func(_ context.Context, req driver.Request) error {
				req.OnHeld(core.HeldError{Key: "held"})
				time.Sleep(10 * time.Second)
				return errDown
			}
		})
		time.Sleep(100 * time.Millisecond)
		var all sync.WaitGroup
		all.Go(func() { _, _ = attempt(eng, "held") })
		synctest.Wait()
		trip(t, eng, o)
		time.Sleep(7 * time.Second)
		all.Go(func() { _, _ = attempt(eng, "k") }) // two seconds: past the end of the old one
		synctest.Wait()
		time.Sleep(1500 * time.Millisecond)
		before := o.requests()
		wantOnly(t, errOf(attempt(eng, "k")), core.ErrUnavailable, core.ErrCircuitOpen)
		check(t, o.requests() == before, "two probes at a time")
		all.Wait()
	})
}

// A caller that has waited long behind others has not waited for a store that was asked just
// now: it must not run unlocked.
func TestStoreThatWasJustAskedIsNotSilent(t *testing.T) {
	const patience, roundTrip = time.Second, 50 * time.Millisecond
	set := exclusive("a", "b")
	for name, tc := range map[string]struct {
		held  string         // until just before the patience ends
		front [][]core.Claim // in line, in this order, when it is
		late  []core.Claim   // comes just then, too
		who   []core.Claim
		want  []error
	}{
		"in its second line":      {"a", [][]core.Claim{exclusive("a")}, exclusive("b"), set, []error{core.ErrHeld, core.ErrWaitTimeout}},
		"behind one in two lines": {"b", [][]core.Claim{exclusive("b"), set}, nil, exclusive("a"), []error{core.ErrHeld, core.ErrWaitTimeout}},
	} {
		inBubble(t, name, func(t *testing.T) {
			spy, eng := newSpied(t, nothingUnlocked(t))
			holder := mustAcquire(t, eng, tc.held)
			var all sync.WaitGroup
			wait := func(claims []core.Claim) {
				all.Go(func() { wantNil(t, eng.DoAll(bg, claims, noWork)) })
				synctest.Wait()
			}
			for _, claims := range tc.front {
				wait(claims)
			}
			all.Go(func() {
				wantOnly(t, eng.DoAll(bg, tc.who, noWork, core.WithMaxWait(patience), core.WithRunUnlocked()), tc.want...)
			})
			time.Sleep(patience - roundTrip/2)
			spy.change(func() { spy.onAcquire = taking(roundTrip) })
			if tc.late != nil {
				wait(tc.late)
			}
			mustRelease(t, holder)
			all.Wait()
		})
	}
}

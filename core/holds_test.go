package core_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/memstore"
)

// The average hold of a key says nothing of a holder that has been at it for a
// thousand times that: it was "retry after 2 ms", for as long as it took.
func TestRetryAfterGoesByTheHolder(t *testing.T) {
	const usual, unusual, ttl = 2 * time.Millisecond, 6 * time.Second, 30 * time.Second
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		here, there, stranger := newEngine(t, store, core.WithTTL(ttl)), newEngine(t, store.Peer()), newEngine(t, store.Peer())
		for _, eng := range []*core.Engine{here, there} {
			l := mustAcquire(t, eng, "k")
			_, _ = eng.TryAcquire(bg, "k") // holds are counted from the first refusal on
			time.Sleep(usual)
			mustRelease(t, l)
		}
		holder := mustAcquire(t, here, "k")
		for _, step := range []struct {
			what        string
			after       time.Duration // the step before
			who         *core.Engine
			opt         core.CallOption
			least, most time.Duration
		}{
			{"at once", 0, here, core.WithFailFast(), usual, 2 * usual},
			{"at once, there", 0, there, core.WithFailFast(), usual, 2 * usual},
			{"here", unusual, here, core.WithFailFast(), unusual, unusual},
			{"there", 0, there, core.WithFailFast(), unusual, unusual},
			{"here, in line", 0, here, core.WithMaxWait(time.Second), unusual + time.Second, unusual + time.Second},
			{"there, in line", 0, there, core.WithMaxWait(time.Second), unusual + 2*time.Second, unusual + 2*time.Second},
			{"an engine that knows of no lease that has ended", 0, stranger, core.WithFailFast(), unusual, unusual + 2*time.Second},
			{"never beyond the lease", 5 * time.Minute, there, core.WithFailFast(), ttl / 2, ttl},
		} {
			time.Sleep(step.after)
			_, err := step.who.Acquire(bg, "k", step.opt)
			var held *core.HeldError
			check(t, errors.As(err, &held) && held.RetryAfter >= step.least && held.RetryAfter <= step.most, "%s: %v, retry after %v, want %v to %v", step.what, err, held.RetryAfter, step.least, step.most)
		}
		mustRelease(t, holder)
	})
}

// A lease that goes from hand to hand is one to the store; but each hand counts for
// itself to those of its process.
func TestRetryAfterGoesByTheHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := newEngine(t, memstore.New())
		holder, heir := mustAcquire(t, eng, "k"), make(chan *core.Lease)
		time.Sleep(80 * time.Millisecond)
		go func() { heir <- mustAcquire(t, eng, "k") }()
		synctest.Wait()
		mustRelease(t, holder)
		second := <-heir
		if !core.Observed(second).HandedOff() {
			t.Fatal("not handed on")
		}
		time.Sleep(time.Second)
		_, tried := eng.TryAcquire(bg, "k")
		_, waited := eng.Acquire(bg, "k", core.WithMaxWait(time.Second))
		for err, want := range map[error]time.Duration{tried: time.Second, waited: 2 * time.Second} {
			held := (*core.HeldError)(nil)
			check(t, errors.As(err, &held) && held.HeldFor == want, "error %#v, want one that is held for %v", err, want)
		}
		mustRelease(t, second)
	})
}

// Where the store can't say when to come back, the average of the holds can; and
// a caller that found the line full is told, too.
func TestRetryAfterWithoutTheStoresHelp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy, eng := newSpied(t, core.WithMaxWaiters(1))
		l := mustAcquire(t, eng, "k")
		_, _ = eng.TryAcquire(bg, "k")
		time.Sleep(time.Second)
		mustRelease(t, l)
		spy.onAcquire = func(context.Context, driver.Request) error { return &core.HeldError{Key: "k"} }
		_, err := eng.TryAcquire(bg, "k")
		held := (*core.HeldError)(nil)
		check(t, errors.As(err, &held) && held.RetryAfter == time.Second, "%+v", held)
		spy.onAcquire = func(context.Context, driver.Request) error {
			_, err := eng.Acquire(bg, "k")
			full := (*core.TooManyWaitersError)(nil)
			check(t, errors.As(err, &full) && full.RetryAfter == time.Second, "%+v", full)
			return nil
		}
		mustRelease(t, mustAcquire(t, eng, "k"))
	})
}

func TestMinHoldIsRefused(t *testing.T) {
	spy := newSpy()
	brief := described{spy, func(d *driver.Description) { d.TTLs.Most = time.Minute }}
	never := described{spy, func(d *driver.Description) { d.MinHold = false }}
	for name, tc := range map[string]struct {
		store driver.Store
		d     time.Duration
		want  error
	}{
		"negative":          {spy, -1, core.ErrInvalidOption},
		"too long":          {spy, 25 * time.Hour, core.ErrInvalidOption},
		"for this store":    {brief, time.Hour, core.ErrInvalidOption},
		"a store can't":     {never, time.Second, errors.ErrUnsupported},
		"none, which it is": {never, 0, nil},
	} {
		eng := newEngine(t, tc.store)
		l, err := eng.Acquire(bg, "k", core.WithMinHold(tc.d))
		wantIs(t, name, err, tc.want)
		if err == nil {
			mustRelease(t, l)
		}
	}
	wantOnly(t, errOf(newEngine(t, spy).Once(bg, "k", nothing, core.WithMinHold(time.Second))), core.ErrInvalidOption)
}

// A lease with a min hold keeps its key after its release, for others of this process and of another. If the
// release is sent again, the key stays for what is left by then.
func TestMinHoldKeepsTheKey(t *testing.T) {
	for name, answer := range map[string]error{"answered": nil, "unanswered": errDown} {
		inBubble(t, name, func(t *testing.T) {
			spy := newSpy()
			eng, other := newEngine(t, spy), newEngine(t, spy.Peer())
			began := time.Now()
			l := mustAcquire(t, eng, "k", core.WithMinHold(10*time.Second))
			time.Sleep(3 * time.Second)
			spy.change(func() { spy.onRelease = func(context.Context, driver.Grant) error { return answer } })
			if err := l.Release(bg); errors.Is(err, core.ErrOutcomeUnknown) != (answer != nil) || time.Since(began) != 3*time.Second {
				t.Errorf("released after %v: %v", time.Since(began), err)
			}
			time.Sleep(4 * time.Second)
			spy.mend()
			time.Sleep(2 * time.Second)
			for _, e := range []*core.Engine{eng, other} {
				wantOnly(t, errOf(e.TryAcquire(bg, "k")), core.ErrHeld)
			}
			next := mustAcquire(t, eng, "k", core.WithMinHold(time.Second))
			got := time.Since(began)
			check(t, got >= 10*time.Second && got <= 10100*time.Millisecond && next.Token() > l.Token(), "the next one came after %v, with token %d after %d", got, next.Token(), l.Token())
			time.Sleep(2 * time.Second)
			mustRelease(t, next)
			isFree(t, other, "k") // its min hold was over
		})
	}
}

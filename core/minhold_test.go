package core_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// TestMinHoldKeepsTheKey for others of this process and of another, however short the work is.
func TestMinHoldKeepsTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		eng, other := newEngine(t, spy), newEngine(t, spy.Peer())
		began := time.Now()
		l := mustAcquire(t, eng, "k", core.WithMinHold(10*time.Second))
		time.Sleep(3 * time.Second)
		mustRelease(t, l)
		if time.Since(began) != 3*time.Second || !errors.Is(context.Cause(l.Context()), core.ErrReleased) {
			t.Errorf("released after %v: %v", time.Since(began), context.Cause(l.Context()))
		}
		for _, e := range []*core.Engine{eng, other} {
			_, err := e.TryAcquire(bg, "k")
			wantOnly(t, err, core.ErrHeld)
		}
		next := mustAcquire(t, eng, "k", core.WithMinHold(time.Second))
		if got := time.Since(began); got != 10*time.Second || next.Token() <= l.Token() {
			t.Errorf("the next one came after %v, with token %d after %d", got, next.Token(), l.Token())
		}
		time.Sleep(2 * time.Second)
		mustRelease(t, next)
		isFree(t, other, "k") // its min hold was over
	})
}

// TestMinHoldAfterAnUnansweredRelease: the debt keeps the key for what is left by then.
func TestMinHoldAfterAnUnansweredRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		eng, other := newEngine(t, spy), newEngine(t, spy.Peer())
		l := mustAcquire(t, eng, "k", core.WithMinHold(10*time.Second))
		spy.change(func() { spy.onRelease = func(context.Context, driver.Grant) error { return errDown } })
		wantOnly(t, l.Release(bg), core.ErrOutcomeUnknown, core.ErrUnavailable)
		time.Sleep(4 * time.Second)
		spy.mend()
		time.Sleep(5 * time.Second)
		_, err := other.TryAcquire(bg, "k")
		wantOnly(t, err, core.ErrHeld)
		time.Sleep(1100 * time.Millisecond)
		isFree(t, other, "k")
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
		if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			mustRelease(t, l)
		}
	}
	_, err := newEngine(t, spy).Once(bg, "k", func(context.Context) ([]byte, error) { return nil, nil }, core.WithMinHold(time.Second))
	wantOnly(t, err, core.ErrInvalidOption)
}

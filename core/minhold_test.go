package core_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

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
				_, err := e.TryAcquire(bg, "k")
				wantOnly(t, err, core.ErrHeld)
			}
			next := mustAcquire(t, eng, "k", core.WithMinHold(time.Second))
			if got := time.Since(began); got < 10*time.Second || got > 10100*time.Millisecond || next.Token() <= l.Token() {
				t.Errorf("the next one came after %v, with token %d after %d", got, next.Token(), l.Token())
			}
			time.Sleep(2 * time.Second)
			mustRelease(t, next)
			isFree(t, other, "k") // its min hold was over
		})
	}
}

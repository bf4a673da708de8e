package core_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/memstore"
)

// A store that has told the head to wait owes no further word. Who comes later
// and leaves sooner waited for the holder, and must not run unlocked beside it.
func TestWhoJoinsLaterWaitsForTheHolderToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := newEngine(t, memstore.New())
		holder := mustAcquire(t, eng, "k")
		var head sync.WaitGroup
		head.Go(func() {
			_, err := eng.Acquire(context.Background(), "k", core.WithMaxWait(10*time.Second))
			wantOnly(t, err, core.ErrHeld, core.ErrWaitTimeout)
		})
		time.Sleep(time.Second)
		err := eng.Do(context.Background(), "k", func(context.Context) error {
			t.Error("ran beside the holder")
			return nil
		}, core.WithMaxWait(time.Second), core.WithRunUnlocked())
		wantOnly(t, err, core.ErrHeld, core.ErrWaitTimeout)
		head.Wait()
		mustRelease(t, holder)
	})
}

// A store that nobody asked is not out, however short the caller's time was.
func TestTimeOverBeforeTheStoreWasAsked(t *testing.T) {
	past, cancel := context.WithTimeout(context.Background(), -time.Second)
	defer cancel()
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for name, tc := range map[string]struct {
		ctx  context.Context
		wait time.Duration
		want []error
	}{
		"the caller's deadline": {past, time.Minute, []error{context.DeadlineExceeded}},
		"the caller's cancel":   {gone, time.Minute, []error{context.Canceled}},
		"the maximum wait":      {context.Background(), 1, []error{core.ErrHeld, core.ErrWaitTimeout}},
	} {
		t.Run(name, func(t *testing.T) {
			spy := newSpy()
			eng := newEngine(t, spy)
			err := eng.Do(tc.ctx, "k", func(context.Context) error {
				t.Error("ran")
				return nil
			}, core.WithMaxWait(tc.wait), core.WithRunUnlocked())
			wantOnly(t, err, tc.want...)
			if spy.mostAtOne > 0 {
				t.Error("the store was asked for somebody who had gone")
			}
		})
	}
}

// A head whose caller hangs up cuts its request short: what the store then says
// of silence is no outage for those behind.
func TestHeadThatHangsUpIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const roundTrip = 10 * time.Millisecond
		spy := newSpy()
		eng := newEngine(t, spy)
		holder := mustAcquire(t, eng, "k")
		spy.onAcquire = func(ctx context.Context, _ core.Request) error {
			select {
			case <-time.After(roundTrip):
				return nil
			case <-ctx.Done():
				return &core.UnavailableError{Op: "acquire", Err: ctx.Err()}
			}
		}
		ctx, hangUp := context.WithCancel(context.Background())
		time.AfterFunc(time.Second+roundTrip/2, hangUp)
		var all sync.WaitGroup
		for _, w := range []struct {
			ctx     context.Context
			maxWait time.Duration
			want    []error
		}{
			{context.Background(), time.Second, []error{core.ErrHeld, core.ErrWaitTimeout}},
			{ctx, time.Minute, []error{context.Canceled}}, // asks after a second, hangs up before the answer
			{context.Background(), 2 * time.Second, []error{core.ErrHeld, core.ErrWaitTimeout}},
			{context.Background(), time.Second + roundTrip, []error{core.ErrHeld, core.ErrWaitTimeout}},
		} {
			all.Go(func() {
				_, err := eng.Acquire(w.ctx, "k", core.WithMaxWait(w.maxWait))
				wantOnly(t, err, w.want...)
			})
			synctest.Wait()
		}
		all.Wait()
		mustRelease(t, holder)
	})
}

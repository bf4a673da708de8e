package core_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/watchdog"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/store/memstore"
)

// Two goroutines of one process are strangers to each other. (etcd#11360)
func TestOneAtATimePerKey(t *testing.T) {
	eng := newEngine(t, memstore.New())
	var inside, most, ran int // unguarded on purpose: the race detector watches
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			err := eng.Do(bg, "k", func(context.Context) error {
				inside++
				most = max(most, inside)
				ran++
				inside--
				return nil
			})
			wantNil(t, err)
		})
	}
	all.Wait()
	check(t, most == 1 && ran == 200, "at most %d at once, %d ran", most, ran)
}

func TestCallerMayUseItsClaimsAgain(t *testing.T) {
	eng := newEngine(t, memstore.New())
	claims := make([]core.Claim, 1)
	var leases []*core.Lease
	for _, key := range []string{"a", "b"} {
		claims[0] = core.Exclusive(key)
		l, err := eng.AcquireAll(bg, claims)
		must(t, err)
		leases = append(leases, l)
	}
	for _, l := range leases {
		mustRelease(t, l)
	}
	isFree(t, eng, "a")
	isFree(t, eng, "b")
}

// Contention, the caller's own cancel and the caller's own deadline are told
// apart, and each comes when it should. (redsync#98, #164)
func TestHeldKeyIsRefusedByKind(t *testing.T) {
	held := []error{core.ErrHeld}
	timedOut := []error{core.ErrHeld, core.ErrWaitTimeout}
	for name, tc := range map[string]struct {
		cancelAfter, deadline time.Duration
		opts                  []core.CallOption
		took                  time.Duration
		want                  []error
	}{
		"waited out":            {took: 3 * time.Second, want: timedOut},
		"waited out, own bound": {opts: []core.CallOption{core.WithMaxWait(time.Second)}, took: time.Second, want: timedOut},
		"fail fast":             {opts: []core.CallOption{core.WithFailFast()}, want: held},
		"waits after all":       {opts: []core.CallOption{policy(t, core.WithFailFast()), core.WithMaxWait(time.Second)}, took: time.Second, want: timedOut},
		"the caller gave up":    {cancelAfter: time.Second, took: time.Second, want: []error{context.Canceled}},
		"the caller's deadline": {deadline: time.Second, took: time.Second, want: []error{context.DeadlineExceeded}},
		"deadline, no max wait": {deadline: time.Hour, opts: []core.CallOption{core.WithMaxWait(core.Forever), core.WithMaxHold(core.Forever)}, took: time.Hour, want: []error{context.DeadlineExceeded}},
	} {
		inBubble(t, name, func(t *testing.T) {
			eng := newEngine(t, memstore.New(), core.WithMaxWait(3*time.Second), core.WithMaxHold(core.Forever))
			holder := mustAcquire(t, eng, "k")
			ctx := callerFor(t, tc.deadline, tc.cancelAfter)
			// In line behind another waiter it must be no different.
			var both sync.WaitGroup
			for range 2 {
				both.Go(func() {
					began := time.Now()
					_, err := eng.Acquire(ctx, "k", tc.opts...)
					wantOnly(t, err, tc.want...)
					wantTook(t, began, tc.took)
					var details *core.HeldError
					if errors.As(err, &details) && (details.Holder != holder.Owner() || details.Key != "k" || details.Waited != tc.took || details.RetryAfter <= 0) {
						t.Errorf("details: %+v", details)
					}
				})
			}
			both.Wait()
			mustRelease(t, holder)
			mustRelease(t, mustAcquire(t, eng, "k")) // nobody left in line
		})
	}
}

// An answer that comes after the lease's time is no lease: by then the key may be somebody else's. (The
// process was stopped between request and reply; etcd#11456.) Nothing runs without a lock for that.
func TestAnswerAfterTheLeaseIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := lateBy(2 * time.Second)
		var seen observe.Lease
		var ends []error
		eng := newEngine(t, late, core.WithHooks(observe.Hooks{HoldEnd: func(_ context.Context, l observe.Lease, err error) { seen, ends = l, append(ends, err) }}))
		err := eng.Do(bg, "k", func(context.Context) error { t.Error("it ran"); return nil }, core.WithTTL(time.Second), core.WithRunUnlocked())
		wantOnly(t, err, core.ErrUnavailable)
		synctest.Wait()
		if len(ends) != 1 || !errors.Is(ends[0], core.ErrUnavailable) || seen.Context().Err() == nil {
			t.Errorf("the observer was told of the ends %v, context %v", ends, seen.Context().Err())
		}
		wantEqual(t, "releases of what was granted too late", len(late.released), 1)
	})
}

// The deadline counts from before the request was sent, never from the reply. The reply comes before a
// third of the TTL is over, when the lease would be renewed at once.
func TestDeadlineCountsFromBeforeTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := lateBy(200 * time.Millisecond)
		eng := newEngine(t, late)
		asked := time.Now()
		l := mustAcquire(t, eng, "k", core.WithTTL(time.Second))
		if got, want := l.Deadline().Sub(asked), time.Second-watchdog.Margin(time.Second); got != want {
			t.Errorf("deadline %v after asking, want %v", got, want)
		}
		mustRelease(t, l)
	})
}

func TestStoreErrorsComeThrough(t *testing.T) {
	odd := errors.New("wrong type")
	spy := newSpy()
	spy.onAcquire = func(context.Context, driver.Request) error { return odd }
	_, err := newEngine(t, spy).Acquire(bg, "k")
	check(t, errors.Is(err, odd), "error %v", err)
	wantOnly(t, err)
}

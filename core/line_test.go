package core_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/memstore"
)

// The error of a caller whose time ends in line depends on the store's answer to the callers
// ahead of it. That answer takes a round trip.
func TestWhatTheLineKnows(t *testing.T) {
	const roundTrip = 10 * time.Millisecond
	contention := []error{core.ErrHeld, core.ErrWaitTimeout}
	outage := []error{core.ErrUnavailable}
	type who struct{}
	type caller struct {
		joins, leaves time.Duration
		hangsUp       bool
		store         error // nil: the truth, after a round trip; else this
		want          []error
	}
	silent := errors.New("says nothing until the request ends")
	for name, callers := range map[string][]caller{
		// The second one asks at 1s, and has no answer when the third one's time ends.
		"the store refused the one before": {
			{leaves: time.Second, want: contention},
			{joins: time.Second / 2, leaves: time.Minute, want: contention},
			{joins: time.Second / 2, leaves: time.Second + roundTrip/2, want: contention},
		},
		// Silence until somebody hangs up is no outage for those behind.
		"the one before hung up too soon": {
			{leaves: time.Second, want: contention},
			{joins: time.Second / 2, leaves: time.Second + roundTrip/2, hangsUp: true, want: []error{context.Canceled}},
			{joins: time.Second / 2, leaves: time.Minute, want: contention},
			{joins: time.Second / 2, leaves: time.Second + roundTrip, want: contention},
		},
		"the store says that it is out": {
			{leaves: time.Second, want: contention},
			{joins: time.Second / 2, leaves: time.Minute, store: errDown, want: outage},
			{joins: time.Second / 2, leaves: time.Minute, store: silent, want: outage},
			{joins: time.Second / 2, leaves: 2 * time.Second, want: outage},
		},
		"the store says nothing": {
			{leaves: time.Second, store: silent, want: outage},
			{joins: time.Second / 2, leaves: time.Second / 2, want: outage},
			{joins: time.Second / 2, leaves: 2 * time.Second, store: silent, want: outage},
			{joins: time.Second / 2, leaves: 2*time.Second - 1, want: outage},
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			spy, eng := newSpied(t, core.WithTTL(time.Hour), core.WithMaxHold(core.Forever))
			holder := mustAcquire(t, eng, "k")
			spy.onAcquire = func(ctx context.Context, _ driver.Request) error {
				c := ctx.Value(who{}).(caller)
				select {
				case <-time.After(roundTrip):
					if c.store == nil || c.store == errDown {
						return c.store
					}
					<-ctx.Done()
				case <-ctx.Done():
				}
				return &core.UnavailableError{Op: "acquire", Err: ctx.Err()}
			}
			began := time.Now()
			var all sync.WaitGroup
			for _, c := range callers {
				time.Sleep(c.joins - time.Since(began))
				all.Go(func() {
					ctx, hangUp := context.WithCancel(context.WithValue(bg, who{}, c))
					defer hangUp()
					stays := c.leaves - c.joins
					if c.hangsUp {
						time.AfterFunc(stays, hangUp)
						stays = time.Minute
					}
					wantOnly(t, errOf(eng.Acquire(ctx, "k", core.WithMaxWait(max(stays, 1)))), c.want...)
				})
				synctest.Wait()
			}
			all.Wait()
			mustRelease(t, holder)
		})
	}
}

// wantFull fails unless err says that so many wait for key already; "": for all keys together.
func wantFull(t *testing.T, err error, key string, limit int) {
	t.Helper()
	wantOnly(t, err, core.ErrTooManyWaiters)
	full := (*core.TooManyWaitersError)(nil)
	check(t, errors.As(err, &full) && full.Key == key && full.Limit == limit, "%+v", full)
}

func TestTooManyWaiters(t *testing.T) {
	for most, opts := range map[int][]core.EngineOption{2: {core.WithMaxWaiters(2)}, 1000: nil} {
		synctest.Test(t, func(t *testing.T) {
			eng := newEngine(t, memstore.New(), append(opts, core.WithMaxWait(time.Second))...)
			holder := mustAcquire(t, eng, "k")
			for range 2 { // those that have given up make room
				var waiting sync.WaitGroup
				for range most {
					waiting.Go(func() {
						wantOnly(t, errOf(eng.Acquire(bg, "k")), core.ErrHeld, core.ErrWaitTimeout)
					})
				}
				synctest.Wait()
				wantFull(t, errOf(eng.Acquire(bg, "k")), "k", most)
				mustRelease(t, mustAcquire(t, eng, "other"))              // per key
				wantOnly(t, errOf(eng.TryAcquire(bg, "k")), core.ErrHeld) // does not stand in line
				waiting.Wait()
			}
			mustRelease(t, holder)
			mustRelease(t, mustAcquire(t, eng, "k"))
		})
	}
}

// A caller's own end during an outage says outage, unless it hung up, or left too little time to say anything about the
// store: of the caller that asks and of those in line behind it. A store that hands the engine's own bound back says
// nothing of a holder.
func TestDeadlineDuringAnOutageSaysOutage(t *testing.T) {
	out := func(ctx context.Context) error { return &core.UnavailableError{Op: "acquire", Err: ctx.Err()} }
	for name, tc := range map[string]struct {
		deadline, hangsUp time.Duration
		store             func(context.Context) error
		callers           int // 1, if not said
		want              error
	}{
		"deadline":         {deadline: time.Second, store: out, want: core.ErrUnavailable},
		"hangs up":         {hangsUp: time.Second, store: out, want: context.Canceled},
		"too short":        {deadline: 20 * time.Millisecond, store: out, callers: 3, want: context.DeadlineExceeded},
		"the engine's own": {store: context.Context.Err, want: core.ErrUnavailable},
	} {
		inBubble(t, name, func(t *testing.T) {
			spy, eng := newSpied(t, core.WithMaxWait(1500*time.Millisecond))
			spy.onAcquire = func(ctx context.Context, _ driver.Request) error { <-ctx.Done(); return tc.store(ctx) }
			var all sync.WaitGroup
			for range max(tc.callers, 1) {
				all.Go(func() { wantOnly(t, errOf(eng.Acquire(callerFor(t, tc.deadline, tc.hangsUp), "k")), tc.want) })
			}
			all.Wait()
		})
	}
}

// A lease that is held for long has no line, so that many of them cost little;
// and who comes for its key then waits as for any other.
func TestLongHoldsNeedNoLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := newEngine(t, newSpy(), core.WithTTL(time.Hour), core.WithMaxHold(core.Forever))
		var held []*core.Lease
		for i := range 5000 {
			held = append(held, mustAcquire(t, eng, fmt.Sprint("k", i)))
			time.Sleep(time.Millisecond)
		}
		n := core.Lines(eng)
		check(t, n <= 1500, "%d lines for %d leases", n, len(held))
		got := make(chan *core.Lease)
		go func() { got <- mustAcquire(t, eng, "k0") }()
		synctest.Wait()
		mustRelease(t, held[0])
		mustRelease(t, <-got)
		for _, l := range held[1:] {
			mustRelease(t, l)
		}
		wantEqual(t, "lines left", core.Lines(eng), 0)
	})
}

package core_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/memstore"
)

const (
	adaptiveFloor   = 200 * time.Millisecond
	adaptiveCeiling = 30 * time.Second
)

// holdMany has n leases held for so long each.
func holdMany(t *testing.T, eng *core.Engine, n int, d time.Duration, opts ...core.CallOption) {
	t.Helper()
	for range n {
		err := eng.Do(context.Background(), "k", func(context.Context) error { time.Sleep(d); return nil }, opts...)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// ttlNow is the TTL that a lease gets.
func ttlNow(t *testing.T, eng *core.Engine, opts ...core.CallOption) time.Duration {
	t.Helper()
	l := mustAcquire(t, eng, "ttl", opts...)
	defer mustRelease(t, l)
	return l.TTL()
}

// After many short holds the key of a crashed holder is free after about the
// floor; before, after the ceiling.
func TestAdaptiveTTLOfACrashedHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		spy := newSpy()
		spy.Store = mem
		var crashed atomic.Bool
		spy.onRenew = func(context.Context, driver.Grant) error {
			if crashed.Load() {
				return errDown
			}
			return nil
		}
		eng := newEngine(t, spy, core.WithAdaptiveTTL(adaptiveFloor, adaptiveCeiling))
		other := newEngine(t, mem.Peer(), core.WithMaxWait(core.Forever))
		freedAfter := func() time.Duration {
			l := mustAcquire(t, eng, "k")
			began := time.Now()
			crashed.Store(true)
			mustRelease(t, mustAcquire(t, other, "k"))
			crashed.Store(false)
			freed := time.Since(began)
			wantOnly(t, l.Release(context.Background()), core.ErrLeaseLost)
			return freed
		}
		if got := freedAfter(); got != adaptiveCeiling {
			t.Errorf("with nothing known it is free after %v", got)
		}
		holdMany(t, eng, 100, 20*time.Millisecond)
		if got := freedAfter(); got != adaptiveFloor {
			t.Errorf("after holds of 20ms it is free after %v", got)
		}
	})
}

// A handler that suddenly takes a hundred times as long as all before keeps its
// lease.
func TestAdaptiveTTLOfASlowHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		eng := newEngine(t, spy, core.WithAdaptiveTTL(adaptiveFloor, adaptiveCeiling))
		holdMany(t, eng, 100, 20*time.Millisecond)
		if n := spy.renewals(); n > 0 {
			t.Errorf("%d renewals of usual leases", n)
		}
		holdMany(t, eng, 1, time.Minute) // fails if the lease is lost
		if spy.renewals() == 0 {
			t.Error("the minute was not renewed")
		}
		if got := ttlNow(t, eng); got != adaptiveFloor {
			t.Errorf("one slow holder of a hundred makes the TTL %v", got)
		}
		holdMany(t, eng, 10, time.Second)
		if got := ttlNow(t, eng); got < 3*time.Second || got > 4*time.Second {
			t.Errorf("ten slow holders make the TTL %v", got)
		}
	})
}

// Each rule goes by its own holds, in a memory that is bounded, and a call
// without one by all.
func TestAdaptiveTTLOfRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := newEngine(t, memstore.New(), core.WithAdaptiveTTL(driver.MinTTL, adaptiveCeiling), core.WithMaxHold(core.Forever))
		rule := func(i any) core.CallOption { return core.WithRule(fmt.Sprint("rule ", i)) }
		quick, slow := rule("quick"), rule("slow")
		holdMany(t, eng, 31, 100*time.Millisecond, quick)
		if got := ttlNow(t, eng, rule("unknown")); got != adaptiveCeiling {
			t.Errorf("a rule that nothing is known of: %v", got)
		}
		if got := ttlNow(t, eng, quick); got != adaptiveCeiling {
			t.Errorf("31 holds are enough for %v", got)
		}
		holdMany(t, eng, 100, 100*time.Millisecond, quick)
		holdMany(t, eng, 100, 4*time.Second, slow)
		for name, tc := range map[string]struct {
			opt      []core.CallOption
			min, max time.Duration
		}{
			"quick":                {[]core.CallOption{quick}, 300 * time.Millisecond, 375 * time.Millisecond},
			"slow":                 {[]core.CallOption{slow}, 12 * time.Second, 15 * time.Second},
			"none":                 {nil, 12 * time.Second, 15 * time.Second},
			"bounded by the call":  {[]core.CallOption{slow, core.WithAdaptiveTTL(driver.MinTTL, time.Second)}, time.Second, time.Second},
			"taken back":           {[]core.CallOption{slow, core.WithTTL(time.Minute)}, time.Minute, time.Minute},
			"adaptive after all":   {[]core.CallOption{policy(t, core.WithTTL(time.Minute)), quick, core.WithAdaptiveTTL(adaptiveFloor, adaptiveCeiling)}, 300 * time.Millisecond, 375 * time.Millisecond},
			"fractions":            {[]core.CallOption{quick, core.WithAdaptiveTTL(adaptiveCeiling, adaptiveCeiling+999)}, adaptiveCeiling, adaptiveCeiling},
			"fractions of a floor": {[]core.CallOption{quick, core.WithAdaptiveTTL(time.Second+999, adaptiveCeiling)}, time.Second + time.Millisecond, time.Second + time.Millisecond},
		} {
			if got := ttlNow(t, eng, tc.opt...); got < tc.min || got > tc.max {
				t.Errorf("%s: TTL %v, want %v to %v", name, got, tc.min, tc.max)
			}
		}
		for i := range 270 { // more than there is room for
			holdMany(t, eng, 33, 10*time.Millisecond, rule(i))
		}
		if got := ttlNow(t, eng, rule(0)); got > 50*time.Millisecond {
			t.Errorf("one of the first rules: %v", got)
		}
		for i := range 20 { // one that found no room goes by them all
			holdMany(t, eng, 10, time.Minute, rule(i), core.WithTTL(time.Hour)) // which needs no renewals
		}
		if got := ttlNow(t, eng, rule(269)); got != adaptiveCeiling {
			t.Errorf("one of the last rules: %v", got)
		}
	})
}

// Leases that are lost make the TTL longer, as they would have been held for
// longer; and what is refused is told the rule's usual hold.
func TestAdaptiveTTLGrowsWithLosses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		eng := newEngine(t, spy, core.WithAdaptiveTTL(adaptiveFloor, adaptiveCeiling))
		holdMany(t, eng, 100, time.Millisecond)
		spy.onRenew = func(context.Context, driver.Grant) error { return errDown }
		for range 5 {
			err := eng.Do(context.Background(), "k", func(ctx context.Context) error { <-ctx.Done(); return nil })
			wantOnly(t, err, core.ErrLeaseLost)
			time.Sleep(adaptiveCeiling)
		}
		var held *core.HeldError
		other := mustAcquire(t, eng, "other", core.WithTTL(time.Hour))
		_, err := eng.TryAcquire(context.Background(), "other")
		if !errors.As(err, &held) || held.RetryAfter != time.Millisecond {
			t.Errorf("%v: retry after %v: only a release says when to come back", err, held.RetryAfter)
		}
		mustRelease(t, other)
		if got := ttlNow(t, eng); got < 2*adaptiveFloor {
			t.Errorf("after losses the TTL is %v", got)
		}
		l := mustAcquire(t, eng, "never refused before", core.WithRule("r"))
		time.Sleep(40 * time.Millisecond)
		mustRelease(t, l)
		holder := mustAcquire(t, eng, "another", core.WithTTL(time.Hour))
		spy.onRenew = nil
		_, err = eng.TryAcquire(context.Background(), "another", core.WithRule("r"))
		if !errors.As(err, &held) || held.RetryAfter != 40*time.Millisecond {
			t.Errorf("%v: retry after %v, want what the rule's leases take", err, held.RetryAfter)
		}
		mustRelease(t, holder)
	})
}

func TestAdaptiveTTLOutOfRange(t *testing.T) {
	for name, o := range map[string]core.Option{
		"floor":       core.WithAdaptiveTTL(driver.MinTTL-1, time.Second),
		"ceiling":     core.WithAdaptiveTTL(time.Second, driver.MaxTTL+1),
		"upside down": core.WithAdaptiveTTL(2*time.Second, time.Second),
		"zero":        core.WithAdaptiveTTL(0, 0),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := core.New(memstore.New(), o)
			wantOnly(t, err, core.ErrInvalidOption)
			_, err = core.NewPolicy(o)
			wantOnly(t, err, core.ErrInvalidOption)
		})
	}
}

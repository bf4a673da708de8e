package core_test

import (
	"context"
	"errors"
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
		err := eng.Do(bg, "k", func(context.Context) error { time.Sleep(d); return nil }, opts...)
		must(t, err)
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
		spy := newSpy()
		var crashed atomic.Bool
		spy.onRenew = func(context.Context, driver.Grant) error {
			if crashed.Load() {
				return errDown
			}
			return nil
		}
		eng := newEngine(t, spy, core.WithAdaptiveTTL(adaptiveFloor, adaptiveCeiling))
		other := newEngine(t, spy.Peer(), core.WithMaxWait(core.Forever))
		freedAfter := func() time.Duration {
			l := mustAcquire(t, eng, "k")
			began := time.Now()
			crashed.Store(true)
			mustRelease(t, mustAcquire(t, other, "k"))
			crashed.Store(false)
			freed := time.Since(began)
			wantOnly(t, l.Release(bg), core.ErrLeaseLost)
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

// Each rule goes by its own holds, and a call without one by all.
func TestAdaptiveTTLOfRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := newEngine(t, memstore.New(), core.WithAdaptiveTTL(driver.MinTTL, adaptiveCeiling), core.WithMaxHold(core.Forever))
		quick, slow := core.WithRule("quick"), core.WithRule("slow")
		holdMany(t, eng, 100, 100*time.Millisecond, quick)
		holdMany(t, eng, 100, 4*time.Second, slow)
		for name, tc := range map[string]struct {
			opt      []core.CallOption
			min, max time.Duration
		}{
			"unknown":              {[]core.CallOption{core.WithRule("unknown")}, adaptiveCeiling, adaptiveCeiling},
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
	})
}

// Leases that are lost make the TTL longer, as they would have been held for
// longer.
func TestAdaptiveTTLGrowsWithLosses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		eng := newEngine(t, spy, core.WithAdaptiveTTL(adaptiveFloor, adaptiveCeiling))
		holdMany(t, eng, 100, time.Millisecond)
		spy.onRenew = func(context.Context, driver.Grant) error { return errDown }
		for range 5 {
			err := eng.Do(bg, "k", func(ctx context.Context) error { <-ctx.Done(); return nil })
			wantOnly(t, err, core.ErrLeaseLost)
			time.Sleep(adaptiveCeiling)
		}
		if got := ttlNow(t, eng); got < 2*adaptiveFloor {
			t.Errorf("after losses the TTL is %v", got)
		}
	})
}

func TestAdaptiveTTLOutOfRange(t *testing.T) {
	for name, o := range map[string]core.Option{
		"floor":       core.WithAdaptiveTTL(driver.MinTTL-1, time.Second),
		"ceiling":     core.WithAdaptiveTTL(time.Second, driver.MaxTTL+1),
		"upside down": core.WithAdaptiveTTL(2*time.Second, time.Second),
		"zero":        core.WithAdaptiveTTL(0, 0),
	} {
		_, err := core.New(memstore.New(), o)
		_, again := core.NewPolicy(o)
		if !errors.Is(err, core.ErrInvalidOption) || !errors.Is(again, core.ErrInvalidOption) {
			t.Errorf("%s: %v, %v", name, err, again)
		}
	}
}

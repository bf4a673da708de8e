package core_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/memstore"
)

// keeping is a spy on a store that keeps leases for whole seconds, from 2 s to a minute.
func keeping(spy *spy) driver.Store {
	return described{spy, func(d *driver.Description) {
		d.TTLs = driver.TTLs{Least: 2 * time.Second, Most: time.Minute, Step: time.Second}
	}}
}

func TestTTLThatTheStoreCannotKeepIsRefusedAtTheStart(t *testing.T) {
	for name, opt := range map[string]core.Option{
		"WithTTL":         core.WithTTL(300 * time.Millisecond),
		"WithTTL ":        core.WithTTL(time.Hour),
		"WithAdaptiveTTL": core.WithAdaptiveTTL(100*time.Millisecond, time.Second),
		// from above the longest on
		"WithAdaptiveTTL ": core.WithAdaptiveTTL(time.Hour, 2*time.Hour),
	} {
		refused := func(what string, err error) {
			t.Helper()
			var wrong *core.OptionError
			check(t, errors.As(err, &wrong) && wrong.Option == strings.TrimSpace(name) && strings.Contains(err.Error(), "2s to 1m0s"), "%s, %s: %v", name, what, err)
		}
		spy := newSpy()
		refused("New", errOf(core.New(keeping(spy), opt)))
		eng := newEngine(t, keeping(spy))
		refused("Acquire", errOf(eng.Acquire(bg, "k", opt)))
		refused("a policy", errOf(eng.Acquire(bg, "k", policy(t, opt))))
		for _, once := range []bool{false, true} {
			refused("a rule", declared(eng, policy(t, opt), coverage.Rule{Once: once}, "k"))
		}
		check(t, spy.mostAtOne == 0, "%s: the store was asked", name)
	}
}

// TestStoreThatCanKeepNoTTL: whatever is asked for, New says so.
func TestStoreThatCanKeepNoTTL(t *testing.T) {
	for _, ttls := range []driver.TTLs{
		{Least: 2 * time.Second, Most: time.Second},
		{Least: 1200 * time.Millisecond, Most: 1500 * time.Millisecond, Step: time.Second},
	} {
		none := described{newSpy(), func(d *driver.Description) { d.TTLs = ttls }}
		for _, opts := range [][]core.EngineOption{nil, {core.WithTTL(1300 * time.Millisecond)}, {core.WithAdaptiveTTL(time.Second, 10*time.Second)}} {
			wantOnly(t, errOf(core.New(none, opts...)), core.ErrInvalidOption)
		}
	}
}

func TestTTLIsRoundedUpToTheStoresStep(t *testing.T) {
	spy := newSpy()
	for _, tc := range []struct {
		opts []core.EngineOption
		want time.Duration
	}{
		{nil, defaultTTL},
		{[]core.EngineOption{core.WithTTL(2001 * time.Millisecond)}, 3 * time.Second},
		{[]core.EngineOption{core.WithTTL(1100 * time.Millisecond)}, 2 * time.Second},
		{[]core.EngineOption{core.WithTTL(time.Minute)}, time.Minute},
		{[]core.EngineOption{core.WithAdaptiveTTL(time.Second, 2500*time.Millisecond)}, 3 * time.Second},
		{[]core.EngineOption{core.WithAdaptiveTTL(time.Second, time.Hour)}, time.Minute},
	} {
		l := mustAcquire(t, newEngine(t, keeping(spy), tc.opts...), "k")
		asked := spy.asked[len(spy.asked)-1].TTL
		check(t, l.TTL() == tc.want && asked == tc.want, "TTL %v, asked for %v, want %v", l.TTL(), asked, tc.want)
		mustRelease(t, l)
	}
}

func TestDefaultTTLGivesWayToTheStore(t *testing.T) {
	brief := described{newSpy(), func(d *driver.Description) { d.TTLs.Most = 10 * time.Second }}
	l := mustAcquire(t, newEngine(t, brief), "k")
	defer mustRelease(t, l)
	wantEqual(t, "TTL", l.TTL(), 10*time.Second)
}

func TestExtensionIsRoundedUpToTheStoresStep(t *testing.T) {
	spy := newSpy()
	l := mustAcquire(t, newEngine(t, keeping(spy)), "k")
	defer mustRelease(t, l)
	for _, ttl := range []time.Duration{300 * time.Millisecond, time.Hour} {
		if err := l.Extend(bg, ttl); !errors.Is(err, core.ErrInvalidOption) || len(spy.renewedAt) > 0 {
			t.Errorf("Extend(%v): %v, %d renewals", ttl, err, len(spy.renewedAt))
		}
	}
	if err := l.Extend(bg, 40*time.Second+1); err != nil || l.TTL() != 41*time.Second {
		t.Errorf("%v, TTL %v", err, l.TTL())
	}
}

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
			got := ttlNow(t, eng, tc.opt...)
			check(t, got >= tc.min && got <= tc.max, "%s: TTL %v, want %v to %v", name, got, tc.min, tc.max)
		}
	})
}

// Leases that are lost make the TTL longer, as they would have been held for
// longer.
func TestAdaptiveTTLGrowsWithLosses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy, eng := newSpied(t, core.WithAdaptiveTTL(adaptiveFloor, adaptiveCeiling))
		holdMany(t, eng, 100, time.Millisecond)
		spy.onRenew = func(context.Context, driver.Grant) error { return errDown }
		for range 5 {
			err := eng.Do(bg, "k", func(ctx context.Context) error { <-ctx.Done(); return nil })
			wantOnly(t, err, core.ErrLeaseLost)
			time.Sleep(adaptiveCeiling)
		}
		got := ttlNow(t, eng)
		check(t, got >= 2*adaptiveFloor, "after losses the TTL is %v", got)
	})
}

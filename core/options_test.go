package core_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/store/memstore"
)

// policy bundles options.
func policy(t testing.TB, opts ...core.CallOption) core.Policy {
	t.Helper()
	p, err := core.NewPolicy(opts...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Two options of one level that decide the same are refused, whatever their order. The
// error names the options that exclude each other.
func TestOptionsThatExcludeEachOther(t *testing.T) {
	ttl, adaptive := core.WithTTL(time.Second), core.WithAdaptiveTTL(time.Second, time.Minute)
	wait, failFast := core.WithMaxWait(time.Second), core.WithFailFast()
	shared, permits := core.WithShared(), core.WithPermits(2)
	for name, pair := range map[string][]core.CallOption{
		"WithTTL and WithAdaptiveTTL":  {ttl, adaptive},
		"WithMaxWait and WithFailFast": {wait, failFast},
		"WithShared and WithPermits":   {shared, permits},
		"WithTTL":                      {ttl, ttl},
		"WithRule":                     {core.WithRule("a"), core.WithRule("b")},
		"WithResultLimit":              {core.WithResultLimit(1), core.WithResultLimit(2)},
		"WithFingerprint":              {core.WithFingerprint([]byte("a")), core.WithFingerprint([]byte("b"))},
		"policies":                     {policy(t, ttl), policy(t, adaptive)},
		"the same option twice":        {policy(t, policy(t, ttl)), policy(t, adaptive)},
	} {
		t.Run(name, func(t *testing.T) {
			spy := newSpy()
			eng := newEngine(t, spy)
			for range 2 {
				_, err := core.NewPolicy(pair...)
				wantOnly(t, err, core.ErrInvalidOption)
				if !strings.Contains(err.Error(), name) {
					t.Errorf("%v: want %q in it", err, name)
				}
				_, err = eng.Acquire(context.Background(), "k", pair...)
				wantOnly(t, err, core.ErrInvalidOption)
				slices.Reverse(pair)
			}
			if spy.mostAtOne > 0 {
				t.Error("the store was asked all the same")
			}
		})
	}
	for name, pair := range map[string][]core.EngineOption{
		"TTL":     {ttl, adaptive},
		"wait":    {wait, failFast},
		"circuit": {core.WithCircuit(time.Second), core.WithCircuit(time.Minute)},
		"waiters": {core.WithMaxWaiters(1), core.WithMaxWaiters(2)},
		"logger":  {core.WithLogger(nil), core.WithLogger(nil)},
	} {
		for range 2 {
			if _, err := core.New(memstore.New(), pair...); !errors.Is(err, core.ErrInvalidOption) {
				t.Errorf("New, %s: error %v", name, err)
			}
			slices.Reverse(pair)
		}
	}
	eng := newEngine(t, memstore.New(), core.WithHooks(observe.Hooks{}), core.WithHooks(observe.Hooks{}))
	l := mustAcquire(t, eng, "k", ttl, wait, shared, core.WithMaxHold(time.Second), core.WithRule("r"))
	mustRelease(t, l)
}

// An option at a higher level overrides an option below about the same matter, wherever it
// stands in the list. The levels are New, then policies in policies, then policies, then the
// call.
func TestLevelsOfOptions(t *testing.T) {
	adaptive := core.WithAdaptiveTTL(40*time.Second, 50*time.Second)
	const adaptively = 50 * time.Second
	for name, tc := range map[string]struct {
		engine []core.EngineOption
		call   []core.CallOption
		ttl    time.Duration
		waits  time.Duration
	}{
		"defaults":            {nil, nil, 30 * time.Second, 30 * time.Second},
		"engine":              {[]core.EngineOption{core.WithTTL(time.Hour), core.WithFailFast()}, nil, time.Hour, 0},
		"call":                {[]core.EngineOption{core.WithTTL(time.Hour), core.WithFailFast()}, []core.CallOption{adaptive, core.WithMaxWait(time.Second)}, adaptively, time.Second},
		"call, the other way": {[]core.EngineOption{adaptive, core.WithMaxWait(time.Second)}, []core.CallOption{core.WithTTL(time.Hour), core.WithFailFast()}, time.Hour, 0},
		"policy":              {[]core.EngineOption{core.WithTTL(time.Hour), core.WithFailFast()}, []core.CallOption{policy(t, adaptive, core.WithMaxWait(time.Second))}, adaptively, time.Second},
		"call and policy":     {nil, []core.CallOption{core.WithTTL(time.Minute), policy(t, adaptive, core.WithMaxWait(time.Second)), core.WithFailFast()}, time.Minute, 0},
		"policy in a policy":  {nil, []core.CallOption{policy(t, adaptive, policy(t, core.WithTTL(time.Minute), core.WithFailFast()))}, adaptively, 0},
		"two policies":        {nil, []core.CallOption{policy(t, adaptive), policy(t, core.WithFailFast())}, adaptively, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				eng := newEngine(t, memstore.New(), tc.engine...)
				for range 2 {
					l := mustAcquire(t, eng, "k", tc.call...)
					if l.TTL() != tc.ttl {
						t.Errorf("TTL %v, want %v", l.TTL(), tc.ttl)
					}
					began := time.Now()
					_, err := eng.Acquire(context.Background(), "k", tc.call...)
					if !errors.Is(err, core.ErrHeld) || errors.Is(err, core.ErrWaitTimeout) != (tc.waits > 0) || time.Since(began) != tc.waits {
						t.Errorf("error %v after %v, want to wait for %v", err, time.Since(began), tc.waits)
					}
					mustRelease(t, l)
					slices.Reverse(tc.engine)
					slices.Reverse(tc.call)
				}
			})
		})
	}
}

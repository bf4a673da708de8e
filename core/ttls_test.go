package core_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/author"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/driver"
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
			if !errors.As(err, &wrong) || wrong.Option != strings.TrimSpace(name) || !strings.Contains(err.Error(), "2s to 1m0s") {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
		spy := newSpy()
		_, err := core.New(keeping(spy), opt)
		refused("New", err)
		eng := newEngine(t, keeping(spy))
		_, err = eng.Acquire(bg, "k", opt)
		refused("Acquire", err)
		_, err = eng.Acquire(bg, "k", policy(t, opt))
		refused("a policy", err)
		for _, once := range []bool{false, true} {
			_, err = author.Declare(eng, author.Rule{Policy: policy(t, opt), About: coverage.Rule{Once: once}, Like: []string{"k"}})
			refused("a rule", err)
		}
		if spy.mostAtOne != 0 {
			t.Errorf("%s: the store was asked", name)
		}
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
			_, err := core.New(none, opts...)
			wantOnly(t, err, core.ErrInvalidOption)
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
		if l.TTL() != tc.want || asked != tc.want {
			t.Errorf("TTL %v, asked for %v, want %v", l.TTL(), asked, tc.want)
		}
		mustRelease(t, l)
	}
}

func TestDefaultTTLGivesWayToTheStore(t *testing.T) {
	brief := described{newSpy(), func(d *driver.Description) { d.TTLs.Most = 10 * time.Second }}
	l := mustAcquire(t, newEngine(t, brief), "k")
	defer mustRelease(t, l)
	if l.TTL() != 10*time.Second {
		t.Errorf("TTL %v", l.TTL())
	}
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

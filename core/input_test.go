package core_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/store/memstore"
)

// Neither a bad key nor a call without a function reaches the store.
func TestKeysThatCannotNameALock(t *testing.T) {
	bad := map[string]string{
		"empty":              "",
		"over 512 bytes":     strings.Repeat("k", 513),
		"a megabyte":         strings.Repeat("k", 1<<20),
		"invalid UTF-8":      "user:\xff",
		"NUL":                "user:\x00",
		"newline":            "user:\r\n",
		"DEL":                "user:\x7f",
		"C1 control":         "user:\u0085",
		"opening brace":      "foo{bar",
		"closing brace":      "foo}bar",
		"a Redis hash tag":   "{user}:1",
		"cut in a character": "user:\xe2\x82",
	}
	spy, eng := newSpied(t)
	for name, key := range bad {
		for _, err := range []error{
			errOf(eng.Acquire(bg, key)), errOf(eng.TryAcquire(bg, key)), errOf(eng.Once(bg, key, nothing)), eng.Do(bg, key, noWork),
		} {
			wantOnly(t, err, core.ErrInvalidKey)
			check(t, len(err.Error()) <= 400, "%s: the message has %d bytes: a hostile key must not fill the log", name, len(err.Error()))
		}
	}
	wantOnly(t, eng.Do(bg, "k", nil), core.ErrInvalidOption) // nothing to run
	wantOnly(t, errOf(eng.Once(bg, "k", nil)), core.ErrInvalidOption)
	check(t, spy.mostAtOne == 0, "a bad key reached the store")
	for _, key := range []string{"a", strings.Repeat("k", 512), "user:status:42", "群:7", "a b", "%7B", "x/y/z"} {
		wantIs(t, key, driver.ValidateKey(key), nil)
	}
}

func TestClaimSetsThatCannotBe(t *testing.T) {
	eng := newEngine(t, plain{memstore.New()})
	for name, tc := range map[string]struct {
		claims []core.Claim
		want   error
	}{
		"empty":            {nil, core.ErrInvalidClaim},
		"the same twice":   {[]core.Claim{core.Exclusive("a"), core.Exclusive("b"), core.Exclusive("a")}, core.ErrInvalidClaim},
		"same, two modes":  {[]core.Claim{core.Exclusive("a"), core.Shared("a")}, core.ErrInvalidClaim},
		"no permits":       {[]core.Claim{core.Permit("a", 0)}, core.ErrInvalidClaim},
		"negative permits": {[]core.Claim{core.Permit("a", -1)}, core.ErrInvalidClaim},
		"stray permits":    {[]core.Claim{{Key: "a", Permits: 2}}, core.ErrInvalidClaim},
		"unknown mode":     {[]core.Claim{{Key: "a", Mode: 9}}, core.ErrInvalidClaim},
		"bad key":          {[]core.Claim{core.Exclusive("")}, core.ErrInvalidKey},
		// Requests that are well-formed but that the store does not support.
		"shared": {[]core.Claim{core.Shared("a")}, errors.ErrUnsupported},
		"permit": {[]core.Claim{core.Permit("a", 3)}, errors.ErrUnsupported},
		"two":    {[]core.Claim{core.Exclusive("a"), core.Exclusive("b")}, errors.ErrUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			wantOnly(t, errOf(eng.AcquireAll(bg, tc.claims)), tc.want)
		})
	}
}

// Of several faults each is named.
func TestEveryFaultIsNamed(t *testing.T) {
	_, engine := core.New(nil, core.WithTTL(0), core.WithMaxWaiters(-1))
	_, policy := core.NewPolicy(core.WithTTL(0), nil, core.WithMaxWait(-1))
	_, claims := newEngine(t, memstore.New()).AcquireAll(bg, []core.Claim{core.Exclusive(""), core.Permit("p", 0), core.Exclusive("fi}ne")})
	wantOnly(t, engine, core.ErrInvalidOption)
	for err, wants := range map[error][]string{
		engine: {"a store", "WithTTL", "WithMaxWaiters"},
		policy: {"WithTTL", "WithMaxWait"},
		claims: {"is empty", "less than one permit", "contains a brace"},
	} {
		for _, want := range wants {
			check(t, err != nil && strings.Contains(err.Error(), want), "%v does not say %q", err, want)
		}
	}
	var nilStore *memstore.Store
	wantOnly(t, errOf(core.New(nilStore)), core.ErrInvalidOption)
}

func TestOptionsOutOfRange(t *testing.T) {
	for name, o := range map[string]core.Option{
		"TTL zero":           core.WithTTL(0),
		"TTL negative":       core.WithTTL(-1),
		"TTL below 10ms":     core.WithTTL(10*time.Millisecond - 1),
		"TTL over 24h":       core.WithTTL(24*time.Hour + 1),
		"TTL overflow":       core.WithTTL(math.MaxInt64),
		"wait zero":          core.WithMaxWait(0),
		"hold zero":          core.WithMaxHold(0),
		"wait negative":      core.WithMaxWait(-1),
		"hold negative":      core.WithMaxHold(-1),
		"retention zero":     core.WithRetention(0),
		"retention negative": core.WithRetention(-time.Hour),
		"limit negative":     core.WithResultLimit(-1),
		"linger negative":    core.WithLinger(-1),
		"linger over a day":  core.WithLinger(25 * time.Hour),
		"adaptive floor":     core.WithAdaptiveTTL(driver.MinTTL-1, time.Second),
		"adaptive ceiling":   core.WithAdaptiveTTL(time.Second, driver.MaxTTL+1),
		"upside down":        core.WithAdaptiveTTL(2*time.Second, time.Second),
		"adaptive zero":      core.WithAdaptiveTTL(0, 0),
	} {
		t.Run(name, func(t *testing.T) {
			wantOnly(t, errOf(core.New(memstore.New(), o)), core.ErrInvalidOption)
			wantOnly(t, errOf(core.NewPolicy(o)), core.ErrInvalidOption)
			spy := newSpy() // an option that is wrong is an error also if a later one overrides it
			wantOnly(t, errOf(newEngine(t, spy).Acquire(bg, "k", o, core.WithTTL(time.Second), core.WithMaxWait(time.Second))), core.ErrInvalidOption)
			check(t, spy.mostAtOne == 0, "the store was asked all the same")
		})
	}
	for name, o := range map[string]core.EngineOption{
		"no waiters":        core.WithMaxWaiters(0),
		"circuit":           core.WithCircuit(-1),
		"circuit zero":      core.WithCircuit(0),
		"no waiters at all": core.WithMaxWaitersTotal(0),
		"release timeout":   core.WithReleaseTimeout(0),
		"nil option":        nil,
		"negative timeout":  core.WithReleaseTimeout(-time.Second),
	} {
		t.Run(name, func(t *testing.T) {
			wantOnly(t, errOf(core.New(memstore.New(), o)), core.ErrInvalidOption)
		})
	}
	var none core.CallOption
	wantOnly(t, errOf(newEngine(t, memstore.New()).Acquire(bg, "k", none)), core.ErrInvalidOption)
}

func TestOwnersAreTraceableAndDistinct(t *testing.T) {
	const id = "/0123456789abcdef0123456789abcdef"
	seen := map[string]bool{}
	eng := newEngine(t, newSpy())
	for range 1000 {
		l := mustAcquire(t, eng, "k")
		mustRelease(t, l)
		o, err := driver.ParseOwner(l.Owner())
		if err != nil || o.String() != l.Owner() || seen[o.ID] || strings.ContainsAny(l.Owner(), ": \n") || o.PID == 0 || o.Instance == 0 || time.Since(o.Start) > time.Minute {
			t.Fatalf("owner %q, parsed %+v, %v; its id came before: %v", l.Owner(), o, err, seen[o.ID])
		}
		seen[o.ID] = true
	}
	for _, bad := range []string{"", "uuid-of-a-stranger", "h/1/1/abc/xyz", "h/x/1/abc" + id, "h/1/x/abc" + id, "h/1/1/!" + id, "h/1/1/a/" + strings.Repeat("g", 32), "/1/1/a" + id, "h/+1/1/a" + id, "h h/1/1/a" + id} {
		if _, err := driver.ParseOwner(bad); err == nil {
			t.Errorf("ParseOwner(%q) gave no error", bad)
		}
	}
	for host, want := range map[string]string{"": "unknown", "a:b/c d\n": "a-b-c-d-", "web-1.local_x": "web-1.local_x", strings.Repeat("h", 300): strings.Repeat("h", 64)} {
		wantEqual(t, "host "+host, driver.CleanHost(host), want)
	}
}

// A store gets the beginning of a long name, and no half of a character. Hooks get all of it.
func TestLongNameOfARule(t *testing.T) {
	name, told := "x"+strings.Repeat("é", driver.MaxNoteBytes), ""
	spy, eng := newSpied(t, core.WithHooks(observe.Hooks{Blocked: func(_ context.Context, a observe.Acquisition, _ core.HeldError, _ int) { told = a.Rule }}))
	defer mustRelease(t, mustAcquire(t, eng, "k"))
	wantOnly(t, errOf(eng.TryAcquire(bg, "k", core.WithRule(name))), core.ErrHeld)
	wantEqual(t, "rule", spy.asked[1].Rule, "x"+strings.Repeat("é", (driver.MaxNoteBytes-1)/2))
	wantEqual(t, "rule that hooks see", told, name)
}

// A trace that a store may refuse counts as none, so the next hook's counts.
func TestTraceThatNoStoreKeeps(t *testing.T) {
	long := strings.Repeat("x", driver.MaxNoteBytes)
	for given, want := range map[string]string{long: long, long + "x": "next", "line\nbreak": "next", "a\x00": "next", "\xff": "next"} {
		first, next := observe.Hooks{Trace: func(context.Context) string { return given }}, observe.Hooks{Trace: func(context.Context) string { return "next" }}
		spy, eng := newSpied(t, core.WithHooks(first), core.WithHooks(next))
		mustRelease(t, mustAcquire(t, eng, "k"))
		wantEqual(t, "trace", spy.asked[0].Trace, want)
	}
}

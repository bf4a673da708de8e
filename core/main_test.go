package core_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/author"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var bg = context.Background()

// What the options' docstrings promise for an engine without options.
const (
	defaultTTL            = 15 * time.Second
	defaultCircuit        = 2 * time.Second
	defaultReleaseTimeout = 5 * time.Second
	defaultResultLimit    = 64 << 10
)

var errDown = &core.UnavailableError{Op: "test", Err: errors.New("connection refused")}

// newEngine makes an engine that is closed, gracefully, before the test ends.
func newEngine(t testing.TB, store driver.Store, opts ...core.EngineOption) *core.Engine {
	t.Helper()
	eng, err := core.New(store, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, eng) })
	return eng
}

var (
	must    = checktest.Must
	check   = checktest.That
	wantNil = checktest.WantNil
	wantIs  = checktest.WantIs
)

// errOf is the error of a call that returns more.
func errOf[T any](_ T, err error) error { return err }

// callerFor is the context of a caller who has a deadline, or hangs up after a while; 0: never, -1: before.
func callerFor(t testing.TB, deadline, hangsUp time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(bg)
	switch {
	case deadline != 0:
		ctx, cancel = context.WithTimeout(bg, deadline)
	case hangsUp > 0:
		time.AfterFunc(hangsUp, cancel)
	case hangsUp < 0:
		cancel()
	}
	t.Cleanup(cancel)
	return ctx
}

// shut closes an engine whose leases the test has all released.
func shut(t testing.TB, eng *core.Engine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(bg, 10*time.Second)
	defer cancel()
	wantNil(t, eng.Close(ctx))
}

func mustAcquire(t testing.TB, eng *core.Engine, key string, opts ...core.CallOption) *core.Lease {
	t.Helper()
	return acquireIn(t, bg, eng, key, opts...)
}

func acquireIn(t testing.TB, ctx context.Context, eng *core.Engine, key string, opts ...core.CallOption) *core.Lease {
	t.Helper()
	l, err := eng.Acquire(ctx, key, opts...)
	if err != nil {
		t.Fatalf("Acquire(%q): %v", key, err)
	}
	return l
}

func mustRelease(t testing.TB, l *core.Lease) {
	t.Helper()
	wantNil(t, l.Release(bg))
}

// sentinels are the causes that must never look alike.
var sentinels = []error{
	core.ErrHeld, core.ErrWaitTimeout, core.ErrTooManyWaiters, core.ErrLeaseLost, core.ErrOutcomeUnknown,
	core.ErrUnavailable, core.ErrInvalidKey, core.ErrInvalidClaim, core.ErrInvalidOption, core.ErrClosed,
	core.ErrFingerprintMismatch, core.ErrResultNotKept, core.ErrReleased, core.ErrNotHeld,
	core.ErrCircuitOpen, core.ErrRolledBack,
	context.Canceled, context.DeadlineExceeded, errors.ErrUnsupported,
}

// wantOnly fails unless err matches exactly the sentinels in want.
func wantOnly(t testing.TB, err error, want ...error) {
	t.Helper()
	for _, s := range sentinels {
		wanted := false
		for _, w := range want {
			wanted = wanted || w == s
		}
		check(t, errors.Is(err, s) == wanted, "errors.Is(%v, %v) = %v, want %v", err, s, !wanted, wanted)
	}
}

func wantEqual[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	check(t, got == want, "%s: %v, want %v", what, got, want)
}

// inBubble runs a subtest with a clock of its own.
func inBubble(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func wantTook(t testing.TB, began time.Time, want time.Duration) {
	t.Helper()
	took := time.Since(began)
	check(t, took == want, "took %v, want %v", took, want)
}

// wantNothingLeft fails if an engine still keeps books on something.
func wantNothingLeft(t testing.TB, engines ...*core.Engine) {
	t.Helper()
	for _, eng := range engines {
		left := eng.Left()
		check(t, left == "", "left: %s", left)
	}
}

var discard = slog.New(slog.DiscardHandler)

// policy bundles options.
func policy(t testing.TB, opts ...core.CallOption) core.Policy {
	t.Helper()
	p, err := core.NewPolicy(opts...)
	must(t, err)
	return p
}

// declared is the error for a rule with that policy, whose keys are like that.
func declared(eng *core.Engine, p core.Policy, about coverage.Rule, like string) error {
	return errOf(author.Declare(eng, author.Rule{Policy: p, About: about, Like: []string{like}}))
}

func acquireAll(t *testing.T, eng *core.Engine, claims ...core.Claim) *core.Lease {
	t.Helper()
	l, err := eng.AcquireAll(bg, claims)
	must(t, err)
	return l
}

func exclusive(keys ...string) (claims []core.Claim) {
	for _, k := range keys {
		claims = append(claims, core.Exclusive(k))
	}
	return claims
}

// isFree fails unless key can be had at once.
func isFree(t *testing.T, eng *core.Engine, key string) {
	t.Helper()
	l, err := eng.TryAcquire(bg, key)
	if err != nil {
		t.Fatalf("%q is not free: %v", key, err)
	}
	mustRelease(t, l)
}

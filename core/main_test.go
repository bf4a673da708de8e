package core_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What the options' docstrings promise for an engine without options.
const (
	defaultTTL            = 15 * time.Second
	defaultCircuit        = 2 * time.Second
	defaultReleaseTimeout = 5 * time.Second
	defaultResultLimit    = 64 << 10
)

var errDown = &core.UnavailableError{Op: "test", Err: errors.New("connection refused")}

// spy is a memstore that notes what is asked of it and breaks on demand. A
// hook that returns a nil error lets the call through.
type spy struct {
	*memstore.Store

	mu        sync.Mutex
	onAcquire func(context.Context, driver.Request) error // and Begin
	onRenew   func(context.Context, driver.Grant) error
	onRelease func(context.Context, driver.Grant) error
	onRecord  func(context.Context, driver.Grant) error
	asked     []driver.Request
	waiting   map[string]int   // requests at the store per key, now
	mostAtOne int              // the most there ever were for one key
	batches   [][]driver.Grant // of renewals
	renewedAt []time.Time
	released  []driver.Grant
	closed    int
}

func newSpy() *spy { return &spy{Store: memstore.New(), waiting: make(map[string]int)} }

// peer is a spy of another process, on the same memory.
func (s *spy) peer() *spy { return &spy{Store: s.Peer(), waiting: make(map[string]int)} }

// change sets a hook while the watchdog may be at work.
func (s *spy) change(how func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	how()
}

// mend has the store answer releases again, so that the engine owes it none.
func (s *spy) mend() { s.change(func() { s.onRelease, s.onRecord = nil, nil }) }

func (s *spy) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	key := req.Claims[0].Key
	s.mu.Lock()
	s.waiting[key]++
	s.mostAtOne = max(s.mostAtOne, s.waiting[key])
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waiting[key]--
	}()
	if err := s.ask(ctx, req); err != nil {
		return driver.Grant{}, err
	}
	return s.Store.Acquire(ctx, req)
}

func (s *spy) Begin(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
	if err := s.ask(ctx, req); err != nil {
		return driver.Grant{}, nil, err
	}
	return s.Store.Begin(ctx, req)
}

func (s *spy) ask(ctx context.Context, req driver.Request) error {
	s.mu.Lock()
	s.asked = append(s.asked, req)
	hook := s.onAcquire
	s.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(ctx, req)
}

func (s *spy) Renew(ctx context.Context, grants []driver.Grant) []error {
	s.mu.Lock()
	s.batches = append(s.batches, grants)
	s.renewedAt = append(s.renewedAt, time.Now())
	hook := s.onRenew
	s.mu.Unlock()
	errs := make([]error, len(grants))
	for i, g := range grants {
		if hook != nil {
			if errs[i] = hook(ctx, g); errs[i] != nil {
				continue
			}
		}
		errs[i] = s.Store.Renew(ctx, []driver.Grant{g})[0]
	}
	return errs
}

func (s *spy) Release(ctx context.Context, g driver.Grant) error {
	s.mu.Lock()
	s.released = append(s.released, g)
	hook := s.onRelease
	s.mu.Unlock()
	if hook != nil {
		if err := hook(ctx, g); err != nil {
			return err
		}
	}
	return s.Store.Release(ctx, g)
}

func (s *spy) Complete(ctx context.Context, g driver.Grant, rec driver.Record, retention time.Duration) error {
	s.mu.Lock()
	hook := s.onRecord
	s.mu.Unlock()
	if hook != nil {
		if err := hook(ctx, g); err != nil {
			return err
		}
	}
	return s.Store.Complete(ctx, g, rec, retention)
}

func (s *spy) Close() error {
	s.mu.Lock()
	s.closed++
	s.mu.Unlock()
	return s.Store.Close()
}

func (s *spy) renewals() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.batches)
}

func (s *spy) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

func (s *spy) releases() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.released)
}

// late is a spy after whose grants something happens before the engine has them.
type late struct {
	*spy
	then func()
}

func (s *late) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	g, err := s.spy.Acquire(ctx, req)
	if err == nil {
		s.then()
	}
	return g, err
}

// lateBy is late by so much.
func lateBy(d time.Duration) *late { return &late{newSpy(), func() { time.Sleep(d) }} }

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

// newSpied is a spy, and an engine on it.
func newSpied(t testing.TB, opts ...core.EngineOption) (*spy, *core.Engine) {
	t.Helper()
	s := newSpy()
	return s, newEngine(t, s, opts...)
}

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
	l, err := eng.Acquire(context.Background(), key, opts...)
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
		if errors.Is(err, s) != wanted {
			t.Errorf("errors.Is(%v, %v) = %v, want %v", err, s, !wanted, wanted)
		}
	}
}

func wantNil(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func wantEqual[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// wantIs is for an error that may be nil.
func wantIs(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) || (err == nil) != (want == nil) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// inBubble runs a subtest with a clock of its own.
func inBubble(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// check fails with a message unless ok.
func check(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Errorf(format, args...)
	}
}

func wantTook(t testing.TB, began time.Time, want time.Duration) {
	t.Helper()
	if took := time.Since(began); took != want {
		t.Errorf("took %v, want %v", took, want)
	}
}

// wantNothingLeft fails if an engine still keeps books on something.
func wantNothingLeft(t testing.TB, engines ...*core.Engine) {
	t.Helper()
	for _, eng := range engines {
		if left := eng.Left(); left != "" {
			t.Errorf("left: %s", left)
		}
	}
}

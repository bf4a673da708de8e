package tracing_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/store/memstore"
	"github.com/keyturn/keyturn/tracing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var must, check = checktest.Must, checktest.That

// secret makes the hashes in testdata what they are.
var secret = []byte("a secret for the tests")

var errDown = &core.UnavailableError{Op: "test", Err: errors.New("dial tcp 192.0.2.1:6379: refused")}

// shaky is a memstore with switches that break it. They are set while nothing is asked of it.
type shaky struct {
	*memstore.Store
	refusal  error         // for every acquisition
	delay    time.Duration // of the answer to one
	panics   bool
	renewErr error // for every renewal
	// Releases go unanswered. The engine may try one once more on its own.
	mute atomic.Bool
}

func (s *shaky) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	g, _, err := s.acquire(ctx, req, func(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
		g, err := s.Store.Acquire(ctx, req)
		return g, nil, err
	})
	return g, err
}

func (s *shaky) Begin(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
	return s.acquire(ctx, req, s.Store.Begin)
}

func (s *shaky) acquire(ctx context.Context, req driver.Request,
	ask func(context.Context, driver.Request) (driver.Grant, *driver.Record, error),
) (driver.Grant, *driver.Record, error) {
	switch {
	case s.panics:
		panic("the store")
	case s.refusal != nil:
		return driver.Grant{}, nil, s.refusal
	}
	g, rec, err := ask(ctx, req)
	time.Sleep(s.delay)
	return g, rec, err
}

func (s *shaky) Renew(ctx context.Context, grants []driver.Grant) []error {
	if s.renewErr == nil {
		return s.Store.Renew(ctx, grants)
	}
	errs := make([]error, len(grants))
	for i := range errs {
		errs[i] = s.renewErr
	}
	return errs
}

func (s *shaky) Release(ctx context.Context, g driver.Grant) error {
	if s.mute.Load() {
		return errDown
	}
	return s.Store.Release(ctx, g)
}

func (s *shaky) Complete(ctx context.Context, g driver.Grant, rec driver.Record, retention time.Duration) error {
	if s.mute.Load() {
		return errDown
	}
	return s.Store.Complete(ctx, g, rec, retention)
}

// scene is an engine whose spans are recorded, under a caller's span.
type scene struct {
	t     testing.TB
	rec   *recorder
	meter *meter
	store *shaky
	eng   *core.Engine
	obs   observe.Hooks
	ctx   context.Context // the caller's
	root  trace.Span
}

// newScene takes options that are added to the defaults for tests.
func newScene(t testing.TB, opts ...tracing.Option) *scene {
	t.Helper()
	s := &scene{t: t, rec: newRecorder(), meter: newMeter(), store: &shaky{Store: memstore.New()}}
	opts = append([]tracing.Option{tracing.WithTracerProvider(s.rec), tracing.WithMeterProvider(s.meter), tracing.WithKeySecret(secret)}, opts...)
	var err error
	if s.obs, err = tracing.New(opts...); err != nil {
		t.Fatal(err)
	}
	s.eng = newEngine(t, s.store, core.WithHooks(s.obs))
	s.ctx, s.root = s.rec.Start(context.Background(), "caller")
	return s
}

func newEngine(t testing.TB, store driver.Store, opts ...core.EngineOption) *core.Engine {
	t.Helper()
	return newLoggingEngine(t, store, slog.New(slog.DiscardHandler), opts...)
}

func newLoggingEngine(t testing.TB, store driver.Store, log *slog.Logger, opts ...core.EngineOption) *core.Engine {
	t.Helper()
	eng, err := core.New(store, append(opts, core.WithTTL(30*time.Second), core.WithLogger(log))...)
	must(t, err)
	return eng
}

// finish closes the engine, ends the caller's span, and reports what was left open.
func (s *scene) finish() {
	s.t.Helper()
	if err := s.eng.Close(context.Background()); err != nil {
		s.t.Errorf("Close: %v", err)
	}
	s.root.End()
	for _, fault := range append(s.rec.amiss(), s.meter.amiss()...) {
		s.t.Error(fault)
	}
}

// occupy has somebody else, who is not traced, hold key until the returned function is called.
func (s *scene) occupy(key string) (release func()) {
	s.t.Helper()
	return s.occupyAs(context.Background(), key)
}

// occupyTraced is occupy by somebody whose trace is recorded.
func (s *scene) occupyTraced(key string) (release func()) {
	s.t.Helper()
	ctx, span := s.rec.Start(context.Background(), "occupant")
	end := s.occupyAs(ctx, key, core.WithHooks(s.obs))
	return func() {
		end()
		span.End()
	}
}

func (s *scene) occupyAs(ctx context.Context, key string, opts ...core.EngineOption) (release func()) {
	s.t.Helper()
	other := newEngine(s.t, s.store.Peer(), opts...)
	lease, err := other.Acquire(ctx, key)
	if err != nil {
		s.t.Fatal(err)
	}
	return func() {
		s.t.Helper()
		s.want(lease.Release(ctx), nil)
		s.want(other.Close(ctx), nil)
	}
}

// steal gives key's lease to somebody who forgets it at once.
func (s *scene) steal(lease *core.Lease) {
	s.t.Helper()
	err := s.store.Store.Release(context.Background(), driver.Grant{Owner: lease.Owner(), Claims: lease.Claims()[:1]})
	if err != nil {
		s.t.Fatal(err)
	}
}

// work is a handler that leaves a span and takes so long.
func (s *scene) work(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		_, span := s.rec.Start(ctx, "handler")
		defer span.End()
		time.Sleep(d)
		return nil
	}
}

func (s *scene) result(d time.Duration) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) { return []byte("a result"), s.work(d)(ctx) }
}

// seen is a lease as hooks see it, for tests that call them.
type seen struct{ *core.Lease }

func (seen) Rule() string    { return rule }
func (seen) Store() string   { return "memory" }
func (seen) Depth() int      { return 1 }
func (seen) HandedOff() bool { return false }
func (seen) Lingered() bool  { return false }
func (seen) Shadow() bool    { return false }
func (seen) Early() bool     { return false }

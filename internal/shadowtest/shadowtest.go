package shadowtest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/store/memstore"
)

// Middleware puts a rule around handler, with keys made of the id of a request. call makes a request
// from a client; without an id no key can be made. Its error says that the request was not served. A
// nil call: there are no such rules with Once.
type Middleware func(t testing.TB, eng *core.Engine, once bool, handler func(context.Context) error, opts ...core.CallOption) (call func(id string) error)

// Run runs all tests.
func Run(t *testing.T, m Middleware) {
	t.Run("Waits", func(t *testing.T) { waits(t, m) })
	t.Run("Refuses", func(t *testing.T) { refuses(t, m) })
	t.Run("Replays", func(t *testing.T) { replays(t, m) })
	t.Run("WithoutAKey", func(t *testing.T) { withoutAKey(t, m) })
	t.Run("Outage", func(t *testing.T) { outage(t, m) })
}

// seen is what the hooks saw.
type seen struct {
	mu                        sync.Mutex
	blocked, granted, repeats int
	errs                      []error
	real                      bool // something was no shadow
}

func (s *seen) hooks() observe.Hooks {
	note := func(shadow bool, how func()) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.real = s.real || !shadow
		how()
	}
	return observe.Hooks{
		Blocked: func(_ context.Context, a observe.Acquisition, _ driver.HeldError, _ int) {
			note(a.Shadow, func() { s.blocked++ })
		},
		AcquireEnd: func(_ context.Context, a observe.Acquisition, l observe.Lease, err error) {
			note(a.Shadow && (l == nil || l.Shadow()), func() {
				if err != nil {
					s.errs = append(s.errs, err)
				} else if l != nil {
					s.granted++
				}
			})
		},
		OnceEnd: func(_ context.Context, x observe.Execution, out observe.Outcome, err error) {
			note(x.Shadow, func() {
				if out.Duplicate {
					s.repeats++
				}
			})
		},
	}
}

// is calls done, which reads s.
func (s *seen) is(done func() bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return done()
}

// until waits until the hooks have seen something: a shadow is seen beside the request.
func (s *seen) until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if s.is(func() bool { return s.real }) {
			t.Fatal("something was no shadow")
		}
		if s.is(done) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the hooks were not told that %s: %+v", what, s)
		}
	}
}

// engine is an engine whose calls s sees.
func engine(t testing.TB, s *seen, store driver.Store) *core.Engine {
	t.Helper()
	eng, err := core.New(store, core.WithHooks(s.hooks()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := eng.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return eng
}

// both makes two requests for one key, and tests that both are served. They stay inside until the
// hooks were told what would have become of the second: a shadow asks beside the request, maybe later.
func both(t testing.TB, m Middleware, s *seen, told func() bool, opts ...core.CallOption) {
	t.Helper()
	var inside sync.WaitGroup
	inside.Add(2)
	call := m(t, engine(t, s, memstore.New()), false, func(ctx context.Context) error {
		if _, ok := core.LeaseFrom(ctx); ok {
			t.Error("the handler has a lease")
		}
		inside.Done()
		inside.Wait() // the other one, too, which it is not if one waits for the other
		for end := time.Now().Add(10 * time.Second); !s.is(told) && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		return nil
	}, append(opts, core.WithShadow())...)
	served := make(chan error, 2)
	for range 2 {
		go func() { served <- call("1") }()
	}
	for range 2 {
		select {
		case err := <-served:
			if err != nil {
				t.Errorf("a request was refused: %v", err)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("one request waits for the other")
		}
	}
}

func waits(t *testing.T, m Middleware) {
	s := &seen{}
	both(t, m, s, func() bool { return s.blocked == 1 })
	s.until(t, "one would have waited for the other", func() bool { return s.blocked == 1 && s.granted == 2 })
}

func refuses(t *testing.T, m Middleware) {
	s := &seen{}
	refused := func() bool {
		return slices.ContainsFunc(s.errs, func(err error) bool { return errors.Is(err, core.ErrHeld) })
	}
	both(t, m, s, refused, core.WithFailFast())
	s.until(t, "one would have been refused", func() bool { return s.granted == 1 && refused() })
}

func replays(t *testing.T, m Middleware) {
	s := &seen{}
	runs := 0
	call := m(t, engine(t, s, memstore.New()), true, func(context.Context) error { runs++; return nil }, core.WithShadow())
	if call == nil {
		t.Skip("no rules with Once")
	}
	for i := range 3 {
		if err := call("1"); err != nil {
			t.Fatal(err)
		}
		s.until(t, "a repeat would have been replayed", func() bool { return s.granted == 1 && s.repeats == i })
	}
	if runs != 3 {
		t.Errorf("the handler ran %d times", runs)
	}
}

func withoutAKey(t *testing.T, m Middleware) {
	served(t, m, memstore.New(), "", func(error) bool { return true })
}

func outage(t *testing.T, m Middleware) {
	served(t, m, down{memstore.New()}, "1", func(err error) bool { return errors.Is(err, core.ErrUnavailable) })
}

// served makes a request of each kind, and tests that it is served and that the hooks were told of an error.
func served(t *testing.T, m Middleware, store driver.Store, id string, is func(error) bool) {
	t.Helper()
	for _, once := range []bool{false, true} {
		s := &seen{}
		runs := 0
		call := m(t, engine(t, s, store), once, func(context.Context) error { runs++; return nil }, core.WithShadow())
		if call == nil {
			continue
		}
		if err := call(id); err != nil || runs != 1 {
			t.Errorf("%d runs, %v", runs, err)
		}
		s.until(t, "a request would have been refused", func() bool { return len(s.errs) == 1 && is(s.errs[0]) })
	}
}

// down is a store that refuses connections.
type down struct{ driver.Store }

var errDown = &core.UnavailableError{Op: "acquire", Err: errors.New("connection refused")}

func (down) Acquire(context.Context, driver.Request) (driver.Grant, error) {
	return driver.Grant{}, errDown
}

func (down) Begin(context.Context, driver.Request) (driver.Grant, *driver.Record, error) {
	return driver.Grant{}, nil, errDown
}

package drivertest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// waiter is a request that waits in a goroutine.
type waiter struct {
	s      *scene
	st     driver.Store
	req    driver.Request
	cancel context.CancelFunc
	called time.Time
	queued chan struct{}                    // closed when the store says that it has to wait
	told   atomic.Int64                     // how often the store said so
	behind atomic.Pointer[driver.HeldError] // whom it named last
	done   chan struct{}                    // closed when the rest is set
	grant  driver.Grant
	rec    *driver.Record
	err    error
	at     time.Time
}

// enqueue makes a new owner wait for key, and returns once it is in the queue.
func (s *scene) enqueue(st driver.Store, key string, ttl time.Duration) *waiter {
	s.Helper()
	return s.enqueueUntil(s.ctx, st, key, ttl)
}

func (s *scene) enqueueUntil(ctx context.Context, st driver.Store, key string, ttl time.Duration) *waiter {
	s.Helper()
	return s.queueUntil(ctx, st, s.request(key, ttl))
}

// queue makes a new owner wait for claims, and returns once it is in the queue.
func (s *scene) queue(st driver.Store, ttl time.Duration, claims ...driver.Claim) *waiter {
	s.Helper()
	return s.queueUntil(s.ctx, st, s.ask(ttl, claims...))
}

func (s *scene) queueUntil(ctx context.Context, st driver.Store, req driver.Request) *waiter {
	s.Helper()
	return s.wait(ctx, st, req, plain(st, s.acquire))
}

// asking is how a waiter asks.
type asking func(context.Context, driver.Request) (driver.Grant, *driver.Record, error)

// plain asks st for a lease and no record.
func plain(st driver.Store, ask func(context.Context, driver.Store, driver.Request) (driver.Grant, error)) asking {
	return func(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
		g, err := ask(ctx, st, req)
		return g, nil, err
	}
}

// wait sends req to st by calling ask, and returns once it is in the queue.
func (s *scene) wait(ctx context.Context, st driver.Store, req driver.Request, ask asking) *waiter {
	s.Helper()
	w := s.start(ctx, st, req, ask)
	select {
	case <-w.queued:
	default:
		if w.err == nil || ctx.Err() == nil { // otherwise the machine was so slow that the wait ended before it began
			s.Fatalf("a request that has to wait was answered: %+v, %v", w.grant, w.err)
		}
	}
	return w
}

// follow makes a new owner wait for claims that are held by a lease which runs out. On a slow machine it
// may be over already.
func (s *scene) follow(st driver.Store, claims ...driver.Claim) *waiter {
	s.Helper()
	return s.start(s.ctx, st, s.ask(long, claims...), plain(st, s.acquire))
}

// start sends req to st by calling ask, in a goroutine that ends with the test, and returns once it is in the
// queue or answered.
func (s *scene) start(ctx context.Context, st driver.Store, req driver.Request, ask asking) *waiter {
	s.Helper()
	ctx, cancel := context.WithCancel(ctx)
	w := &waiter{s: s, st: st, req: req, cancel: cancel, called: time.Now(), queued: make(chan struct{}), done: make(chan struct{})}
	var once sync.Once
	w.req.Wait = true
	w.req.OnHeld = func(held driver.HeldError) {
		w.behind.Store(&held)
		w.told.Add(1)
		once.Do(func() { close(w.queued) })
	}
	go func() {
		defer close(w.done)
		w.grant, w.rec, w.err = ask(ctx, w.req)
		w.at = time.Now()
	}()
	s.Cleanup(func() {
		cancel()
		w.await(s.Late)
	})
	select {
	case <-w.queued:
	case <-w.done:
	case <-s.ctx.Done():
		s.Fatalf("OnHeld was not called for a request that has to wait")
	}
	return w
}

// held returns whom the store named last.
func (w *waiter) held() driver.HeldError { return *w.behind.Load() }

// await reports whether the wait ended within d.
func (w *waiter) await(d time.Duration) bool {
	select {
	case <-w.done:
		return true
	case <-time.After(d):
		return false
	}
}

// granted returns the grant that must come within d.
func (w *waiter) granted(d time.Duration) hold {
	w.s.Helper()
	if d = w.s.soon(d); !w.await(d) {
		w.s.Fatalf("a waiter was not served within %v", d)
	}
	if w.err != nil {
		w.s.Fatalf("a waiter got an error: %v", w.err)
	}
	return hold{w.grant, w.st, w.at, w.at}
}

// refused returns the error that must come within d.
func (w *waiter) refused(d time.Duration) error {
	w.s.Helper()
	if d = w.s.soon(d); !w.await(d) {
		w.s.Fatalf("a wait did not end within %v", d)
	}
	if w.err == nil {
		w.s.Fatalf("a wait that should end in an error was granted: %+v", w.grant)
	}
	return w.err
}

// waits checks that no answer has come.
func (w *waiter) waits() {
	w.s.Helper()
	select {
	case <-w.done:
		w.s.Fatalf("a waiter was answered out of turn: %+v, %v", w.grant, w.err)
	default:
	}
}

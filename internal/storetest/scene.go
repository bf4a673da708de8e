package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
)

var owners atomic.Int64

// Request asks for key as a new owner, or for a set with those further claims.
func Request(key string, ttl time.Duration, more ...driver.Claim) driver.Request {
	return RequestFor(ttl, append([]driver.Claim{driver.Exclusive(key)}, more...)...)
}

// RequestFor asks for claims as a new owner.
func RequestFor(ttl time.Duration, claims ...driver.Claim) driver.Request {
	owner := driver.Owner{Host: "test", PID: 1, Instance: 1, Start: time.Unix(1, 0), ID: fmt.Sprintf("%032x", owners.Add(1))}
	return driver.Request{Owner: owner.String(), Claims: claims, TTL: ttl}
}

// Hold acquires what is free.
func Hold(t testing.TB, s driver.Store, req driver.Request) driver.Grant {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), checktest.Soon)
	defer cancel()
	g, err := s.Acquire(ctx, req)
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	return g
}

// Release gives back what is held.
func Release(t testing.TB, s driver.Store, g driver.Grant) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), checktest.Soon)
	defer cancel()
	if err := s.Release(ctx, g); err != nil {
		t.Fatalf("Release: %v", err)
	}
}

// Renew renews one lease.
func Renew(t testing.TB, s driver.Store, g driver.Grant) error {
	t.Helper()
	return s.Renew(checktest.Within(t, 5*time.Second), []driver.Grant{g})[0]
}

// Use takes keys, which are free, and gives them back.
func Use(t testing.TB, s driver.Store, keys ...string) {
	t.Helper()
	for _, key := range keys {
		Release(t, s, Hold(t, s, Request(key, time.Minute)))
	}
}

// Waiting is a request that waits.
type Waiting struct {
	Owner  string
	Cancel context.CancelFunc // ends the request's context, as the end of the test does
	t      testing.TB
	queued chan struct{} // closed when it is in the queue
	ended  chan struct{} // closed when the rest is set
	grant  driver.Grant
	err    error
}

// Start has a request wait.
func Start(t testing.TB, s driver.Store, req driver.Request) *Waiting {
	t.Helper()
	w := &Waiting{Owner: req.Owner, t: t, queued: make(chan struct{}), ended: make(chan struct{})}
	var once sync.Once
	req.Wait, req.OnHeld = true, func(driver.HeldError) { once.Do(func() { close(w.queued) }) }
	var ctx context.Context
	ctx, w.Cancel = context.WithCancel(context.Background())
	t.Cleanup(func() { w.Cancel(); <-w.ended })
	go func() {
		defer close(w.ended)
		w.grant, w.err = s.Acquire(ctx, req)
	}()
	return w
}

// Enqueue has a request wait, and returns when it is in the queue.
func Enqueue(t testing.TB, s driver.Store, req driver.Request) *Waiting {
	t.Helper()
	w := Start(t, s, req)
	w.Waits()
	return w
}

// Waits returns when the request is in the queue. It must not have been answered.
func (w *Waiting) Waits() {
	w.t.Helper()
	if w.IsAnswered() {
		w.t.Fatalf("a request does not wait: %+v, %v", w.grant, w.err)
	}
	select {
	case <-w.queued:
	case <-w.ended:
		w.t.Fatalf("a request did not wait: %+v, %v", w.grant, w.err)
	case <-time.After(checktest.Soon):
		w.t.Fatal("a request has no place in the queue")
	}
}

// Answered is closed when the request has been answered.
func (w *Waiting) Answered() <-chan struct{} { return w.ended }

// IsAnswered reports whether the request has been answered.
func (w *Waiting) IsAnswered() bool {
	select {
	case <-w.ended:
		return true
	default:
		return false
	}
}

// Answer returns the answer, which must come soon.
func (w *Waiting) Answer() (driver.Grant, error) {
	w.t.Helper()
	return w.answerIn(checktest.Soon)
}

func (w *Waiting) answerIn(d time.Duration) (driver.Grant, error) {
	w.t.Helper()
	select {
	case <-w.ended:
	case <-time.After(d):
		w.t.Fatalf("a waiter has no answer after %v", d)
	}
	return w.grant, w.err
}

// Granted returns the grant, which must come soon.
func (w *Waiting) Granted() driver.Grant {
	w.t.Helper()
	return w.GrantedIn(checktest.Soon)
}

// GrantedIn returns the grant, which must come within d.
func (w *Waiting) GrantedIn(d time.Duration) driver.Grant {
	w.t.Helper()
	g, err := w.answerIn(d)
	checktest.Require(w.t, err == nil, "a waiter got an error: %v", err)
	return g
}

// Refused returns the error, which must come soon.
func (w *Waiting) Refused() error {
	w.t.Helper()
	g, err := w.Answer()
	checktest.Require(w.t, err != nil, "a waiter was granted %+v", g)
	return err
}

// IsHeld checks that a request is told that its key is held.
func IsHeld(t testing.TB, s driver.Store, req driver.Request) {
	t.Helper()
	if g, err := s.Acquire(t.Context(), req); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("a key that is held: %+v, %v", g, err)
	}
}

// IsLost checks that an error tells of a loss.
func IsLost(t testing.TB, err error) {
	t.Helper()
	if !errors.Is(err, driver.ErrLeaseLost) {
		t.Errorf("want a loss, got %v", err)
	}
}

// IsForeign checks that a store says that a key holds no lock, which is neither an outage nor contention.
func IsForeign(t testing.TB, err error) {
	t.Helper()
	if !errors.Is(err, driver.ErrForeign) || errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrHeld) {
		t.Errorf("want an error about a foreign value, got %v", err)
	}
}

// IsRefused checks that a server has refused a request, which is no outage that passes by itself, and that the
// error names these.
func IsRefused(t testing.TB, err error, names ...string) {
	t.Helper()
	var out *driver.UnavailableError
	if !errors.As(err, &out) || !out.Refused {
		t.Errorf("want a refusal, got %v", err)
		return
	}
	for _, name := range names {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("the error does not name %s: %v", name, err)
		}
	}
}

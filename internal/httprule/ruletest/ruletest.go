// Package ruletest is the conformance suite of the HTTP middlewares. [Run] has the tests of
// what lockhttp and lockecho do alike. Each of the two passes a [Face], a function that puts a
// route with a rule behind a real server. Tests of what only one framework does are in its own
// package. This package also has tools for both: a store that fails on demand, a slow client,
// and answers that were read to their end. What is not of HTTP, such as an engine that ends with its
// test, is for other middlewares, too.
package ruletest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/middleware/http"
	"github.com/keyturn/keyturn/store/memstore"
)

// Store is a memstore that fails on demand.
type Store struct {
	*memstore.Store
	mu       sync.Mutex
	acquire  error // the error of Acquire and Begin; nil: as usual
	complete error // the error of Complete; nil: as usual

	waiting, requests atomic.Int64 // under way, and so far
}

// NewStore returns a store that works.
func NewStore() *Store { return &Store{Store: memstore.New()} }

// BreakDown makes Acquire and Begin, and Complete, return these errors; nil: as usual.
func (s *Store) BreakDown(acquire, complete error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acquire, s.complete = acquire, complete
}

func (s *Store) broken() (acquire, complete error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acquire, s.complete
}

func (s *Store) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	if err, _ := s.broken(); err != nil {
		return driver.Grant{}, err
	}
	s.requests.Add(1)
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	return s.Store.Acquire(ctx, req)
}

// Requests is the number of requests for a lock so far.
func (s *Store) Requests() int { return int(s.requests.Load()) }

// Asked is the number of requests for a lock that wait in the store.
func (s *Store) Asked() int { return int(s.waiting.Load()) }

func (s *Store) Begin(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
	if err, _ := s.broken(); err != nil {
		return driver.Grant{}, nil, err
	}
	s.requests.Add(1)
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	return s.Store.Begin(ctx, req)
}

func (s *Store) Complete(ctx context.Context, g driver.Grant, rec driver.Record, retention time.Duration) error {
	if _, err := s.broken(); err != nil {
		return err
	}
	return s.Store.Complete(ctx, g, rec, retention)
}

// ErrDown is an outage.
var ErrDown = &core.UnavailableError{Op: "test", Err: errors.New("connection refused by 10.0.0.7")}

// NewEngine makes an engine that is closed when the test ends.
func NewEngine(t testing.TB, s driver.Store, opts ...core.EngineOption) *core.Engine {
	t.Helper()
	eng, err := core.New(s, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := eng.Close(ctx); err != nil {
			t.Errorf("closing the engine: %v", err)
		}
	})
	return eng
}

// SeeLeases puts each lease, as hooks see it, into the context of the work under it.
var SeeLeases = observe.Hooks{HoldStart: func(ctx context.Context, l observe.Lease) context.Context {
	return context.WithValue(ctx, seenLease{}, l)
}}

type seenLease struct{}

// Seen returns the innermost lease that SeeLeases has put into ctx.
func Seen(ctx context.Context) observe.Lease { return ctx.Value(seenLease{}).(observe.Lease) }

// Site is a handler behind a real HTTP server.
type Site struct {
	*httptest.Server
	Log *Buffer // the server's log

	t testing.TB
}

// Serve starts a server for h, with TLS if http2 is true. The functions with change the server
// before it starts.
func Serve(t testing.TB, h http.Handler, http2 bool, with ...func(*http.Server)) *Site {
	t.Helper()
	s := &Site{Server: httptest.NewUnstartedServer(h), Log: new(Buffer), t: t}
	// Some tests end a stream on a connection that was closed, and net/http logs that.
	s.Config.ErrorLog = log.New(s.Log, "", 0)
	for _, change := range with {
		change(s.Config)
	}
	if s.EnableHTTP2 = http2; http2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Server.Close)
	return s
}

// LogTo has the default logger write to w while the test runs.
func LogTo(t testing.TB, w io.Writer) {
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(w, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
}

// Answer is a response that was read to its end.
type Answer struct {
	Status int
	Header http.Header
	Body   string
	Broken error // the error of reading the body; nil: it was whole

	Trailer http.Header
}

// NewRequest makes a request. header is a list of name, value, name, value.
func (s *Site) NewRequest(method, target, body string, header ...string) *http.Request {
	s.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, s.URL+target, reader)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	return req
}

// Do makes a request and reads the answer.
func (s *Site) Do(method, target, body string, header ...string) Answer {
	s.t.Helper()
	a, err := s.Send(s.NewRequest(method, target, body, header...))
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

// Send is Do for an existing request, or one that may fail.
func (s *Site) Send(req *http.Request) (Answer, error) {
	res, err := s.Client().Do(req)
	if err != nil {
		return Answer{}, err
	}
	return readAnswer(res), nil
}

func readAnswer(res *http.Response) Answer {
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	return Answer{Status: res.StatusCode, Header: res.Header, Body: string(data), Broken: err, Trailer: res.Trailer}
}

// Problem checks that a is problem details with this status and reason.
func (a Answer) Problem(t testing.TB, status int, reason string) lockhttp.Problem {
	t.Helper()
	var p lockhttp.Problem
	if err := json.Unmarshal([]byte(a.Body), &p); err != nil {
		t.Fatalf("answer %d %q is not JSON: %v", a.Status, a.Body, err)
	}
	if got := a.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type = %q, want application/problem+json", got)
	}
	if a.Status != status || p.Status != status || p.Reason != reason {
		t.Errorf("answer = %d %s, want %d with reason %s", a.Status, a.Body, status, reason)
	}
	if p.Type != "about:blank" || p.Title != http.StatusText(status) || p.Detail == "" {
		t.Errorf("problem = %+v, want about:blank, the status as title, and a detail", p)
	}
	return p
}

// patience is for what has to happen; a busy machine may need seconds.
const patience = 30 * time.Second

// Until waits for something that another goroutine or process does.
func Until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// Receive returns the next value from ch, or fails the test if it takes too long.
func Receive[T any](t testing.TB, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("waited %v for %s", patience, what)
		panic("unreachable")
	}
}

// MustAcquire makes the test hold key.
func MustAcquire(t testing.TB, eng *core.Engine, key string) *core.Lease {
	t.Helper()
	lease, err := eng.Acquire(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// MustRelease ends a lease.
func MustRelease(t testing.TB, lease *core.Lease) {
	t.Helper()
	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// IsHeld reports whether somebody holds key.
func IsHeld(t testing.TB, eng *core.Engine, key string) bool {
	t.Helper()
	lease, err := eng.TryAcquire(context.Background(), key)
	if errors.Is(err, core.ErrHeld) {
		return true
	}
	if err != nil {
		t.Fatal(err)
	}
	MustRelease(t, lease)
	return false
}

// Buffer is a buffer that goroutines share.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *Buffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *Buffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

package lockecho_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core"
	lockecho "github.com/keyturn/keyturn/middleware/echo"
	"github.com/keyturn/keyturn/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store is a memstore that breaks on demand.
type store struct {
	*memstore.Store
	mu       sync.Mutex
	acquire  error // what Acquire and Begin say instead
	complete error // what Complete says instead
	waiting  int   // requests that are being answered
}

func newStore() *store { return &store{Store: memstore.New()} }

func (s *store) breakDown(acquire, complete error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acquire, s.complete = acquire, complete
}

func (s *store) broken() (acquire, complete error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acquire, s.complete
}

func (s *store) Acquire(ctx context.Context, req core.Request) (core.Grant, error) {
	if err, _ := s.broken(); err != nil {
		return core.Grant{}, err
	}
	s.count(1)
	defer s.count(-1)
	return s.Store.Acquire(ctx, req)
}

func (s *store) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting += n
}

// asked is how many requests for a lock are waiting in the store.
func (s *store) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}

func (s *store) Begin(ctx context.Context, req core.Request) (core.Grant, *core.Record, error) {
	if err, _ := s.broken(); err != nil {
		return core.Grant{}, nil, err
	}
	s.count(1)
	defer s.count(-1)
	return s.Store.Begin(ctx, req)
}

func (s *store) Complete(ctx context.Context, g core.Grant, rec core.Record, retention time.Duration) error {
	if _, err := s.broken(); err != nil {
		return err
	}
	return s.Store.Complete(ctx, g, rec, retention)
}

var errDown = &core.UnavailableError{Op: "test", Err: errors.New("connection refused by 10.0.0.7")}

func newEngine(t testing.TB, s core.Store, opts ...core.EngineOption) *core.Engine {
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

// site is an Echo behind a real HTTP server.
type site struct {
	t testing.TB
	*echo.Echo
	server *httptest.Server
	log    *syncBuffer
}

// newSite starts a server. Routes may be added until the first request.
func newSite(t testing.TB) *site {
	t.Helper()
	e := echo.New()
	s := &site{t: t, Echo: e, log: new(syncBuffer)}
	e.Logger.SetOutput(s.log)
	s.start(false)
	return s
}

func (s *site) start(http2 bool) {
	s.server = httptest.NewUnstartedServer(s.Echo)
	// Gzip finishes its stream on a connection that was closed under it, and
	// net/http remarks on that.
	s.server.Config.ErrorLog = log.New(s.log, "", 0)
	if http2 {
		s.server.EnableHTTP2 = true
		s.server.StartTLS()
	} else {
		s.server.Start()
	}
	s.t.Cleanup(s.server.Close)
}

// useHTTP2 starts the server again, with TLS and HTTP/2.
func (s *site) useHTTP2() {
	s.server.Close()
	s.start(true)
}

// answer is a response that was read to its end.
type answer struct {
	status int
	header http.Header
	body   string
	broken error // what reading the body ended with, if not well
}

// request makes a request; header is name, value, name, value.
func (s *site) request(method, target, body string, header ...string) *http.Request {
	s.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, s.server.URL+target, reader)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	return req
}

func (s *site) do(method, target, body string, header ...string) answer {
	s.t.Helper()
	a, err := s.send(s.request(method, target, body, header...))
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

func (s *site) send(req *http.Request) (answer, error) {
	res, err := s.server.Client().Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	return answer{status: res.StatusCode, header: res.Header, body: string(data), broken: err}, nil
}

// problem checks that a is problem details with this status and reason.
func (a answer) problem(t testing.TB, status int, reason string) lockecho.Problem {
	t.Helper()
	var p lockecho.Problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Fatalf("answer %d %q is not JSON: %v", a.status, a.body, err)
	}
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type = %q, want application/problem+json", got)
	}
	if a.status != status || p.Status != status || p.Reason != reason {
		t.Errorf("answer = %d %s, want %d with reason %s", a.status, a.body, status, reason)
	}
	if p.Type != "about:blank" || p.Title != http.StatusText(status) || p.Detail == "" {
		t.Errorf("problem = %+v, want about:blank, the status as title, and a detail", p)
	}
	return p
}

// until waits for something that another goroutine or process does.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited 10 s for %s", what)
		}
	}
}

// receive takes what comes from ch, in good time.
func receive[T any](t testing.TB, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(10 * time.Second):
		t.Fatalf("waited 10 s for %s", what)
		panic("unreachable")
	}
}

func mustAcquire(t testing.TB, eng *core.Engine, key string) *core.Lease {
	t.Helper()
	lease, err := eng.Acquire(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func release(t testing.TB, lease *core.Lease) {
	t.Helper()
	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// isHeld reports whether somebody has key.
func isHeld(t testing.TB, eng *core.Engine, key string) bool {
	t.Helper()
	lease, err := eng.TryAcquire(context.Background(), key)
	if errors.Is(err, core.ErrHeld) {
		return true
	}
	if err != nil {
		t.Fatal(err)
	}
	release(t, lease)
	return false
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

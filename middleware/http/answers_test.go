package lockhttp_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

// scene is what a row of TestAnswers may prepare.
type scene struct {
	*testing.T
	eng   *core.Engine
	store *ruletest.Store
	site  *site
}

const theKey = "user:status:42"

// TestAnswers goes through the table of the package's documentation, over real
// connections.
func TestAnswers(t *testing.T) {
	const byPath = "user:status:{path.id}"
	soon := core.WithMaxHold(20 * time.Millisecond)
	down := func(acquire, complete error) func(scene) {
		return func(s scene) { s.store.BreakDown(acquire, complete) }
	}
	tests := []struct {
		name    string
		engine  []core.EngineOption
		handler http.HandlerFunc // default: ok
		rule    func(*lockhttp.Locks) middleware
		before  func(scene)
		target  string // default: /users/42
		body    string
		header  []string
		status  int
		reason  string
		retry   bool
	}{
		{name: "held, and the rule says not to wait", rule: serialize(byPath, core.WithFailFast()), before: holding, status: 409, reason: "LOCK_HELD", retry: true},
		{name: "waited too long", rule: serialize(byPath, core.WithMaxWait(20*time.Millisecond)), before: holding, status: 409, reason: "WAIT_TIMEOUT", retry: true},
		{
			name: "too many waiters", engine: []core.EngineOption{core.WithMaxWaiters(1)}, rule: serialize(byPath),
			before: func(s scene) { holding(s); ruletest.Waiting(s, s.eng, s.store, theKey) },
			status: 429, reason: "TOO_MANY_WAITERS", retry: true,
		},
		{name: "Once: the first is still running", rule: once(byPath, core.WithFailFast()), before: holding, status: 409, reason: "LOCK_HELD", retry: true},
		{name: "Once: the first is still running after the wait", rule: once(byPath, core.WithMaxWait(20*time.Millisecond)), before: holding, status: 409, reason: "WAIT_TIMEOUT", retry: true},
		{
			name: "Once: same key, other content", rule: once(byPath), body: "another",
			before: func(s scene) {
				if a := s.site.Do("PUT", "/users/42", "one"); a.Status != 200 {
					s.Fatalf("first request: %+v", a)
				}
			},
			status: 422, reason: "FINGERPRINT_MISMATCH",
		},
		{name: "key missing", rule: serialize("user:{query.id}"), status: 400, reason: "KEY_INVALID"},
		{name: "key too long", rule: serialize("user:{query.id}"), target: "/users/42?id=" + strings.Repeat("x", 600), status: 400, reason: "KEY_INVALID"},
		{name: "key function makes none", rule: func(l *lockhttp.Locks) middleware { return l.SerializeBy(func(*http.Request) string { return "" }) }, status: 400, reason: "KEY_INVALID"},
		{name: "key function makes an invalid one", rule: func(l *lockhttp.Locks) middleware { return l.OnceBy(func(*http.Request) string { return "a{b}" }) }, status: 400, reason: "KEY_INVALID"},
		{name: "body is not JSON", rule: serialize("user:{body.id}"), body: `{"id":`, status: 400, reason: "KEY_INVALID"},
		{name: "body has the member twice", rule: serialize("user:{body.id}"), body: `{"id":1,"ID":2}`, status: 400, reason: "KEY_INVALID"},
		{name: "body says that it is not JSON", rule: serialize("user:{body.id}"), body: `{"id":1}`, header: []string{"Content-Type", "text/plain"}, status: 415, reason: "MEDIA_TYPE"},
		{name: "body over the limit", rule: once(byPath), body: strings.Repeat("x", lockhttp.DefaultBodyLimit+1), status: 413, reason: "BODY_TOO_LARGE"},
		{name: "store down", rule: serialize(byPath), before: down(ruletest.ErrDown, nil), status: 503, reason: "STORE_UNAVAILABLE", retry: true},
		{name: "Once: store down", rule: once(byPath), before: down(ruletest.ErrDown, nil), status: 503, reason: "STORE_UNAVAILABLE", retry: true},
		{
			name: "Once: record uncertain", engine: []core.EngineOption{core.WithReleaseTimeout(30 * time.Millisecond)},
			rule: once(byPath), before: down(nil, ruletest.ErrDown), status: 503, reason: "OUTCOME_UNKNOWN", retry: true,
		},
		{
			name: "engine closed", rule: serialize(byPath),
			before: func(s scene) {
				if err := s.eng.Close(context.Background()); err != nil {
					s.Fatal(err)
				}
			},
			status: 503, reason: "STOPPING", retry: true,
		},
		{name: "lease lost while running", handler: untilLost, rule: serialize(byPath, soon), status: 409, reason: "LEASE_LOST"},
		{name: "Once: lease lost while running", handler: untilLost, rule: once(byPath, soon), status: 409, reason: "LEASE_LOST"},
		{name: "the route has no such parameter", rule: serialize("user:{path.user_id}"), status: 500, reason: "INTERNAL"},
		{
			name: "a record that is no response", rule: once(byPath, core.WithoutFingerprint()),
			before: func(s scene) {
				if _, err := s.eng.Once(context.Background(), theKey, func(context.Context) ([]byte, error) { return []byte("else"), nil }); err != nil {
					s.Fatal(err)
				}
			},
			status: 500, reason: "INTERNAL",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			quiet(t)
			st, s := ruletest.NewStore(), newSite(t)
			eng := ruletest.NewEngine(t, st, tt.engine...)
			if tt.handler == nil {
				tt.handler = ok
			}
			s.handle("PUT /users/{id}", tt.handler, requestID, tt.rule(lockhttp.New(eng)))
			if tt.before != nil {
				tt.before(scene{t, eng, st, s})
			}
			if tt.target == "" {
				tt.target = "/users/42"
			}
			a := s.Do("PUT", tt.target, tt.body, tt.header...)
			a.Problem(t, tt.status, tt.reason)
			a.CheckRetryAfter(t, tt.retry)
			a.CheckDiscretion(t, theKey)
			if a.Header.Get("X-Request-Id") == "" {
				t.Error("the request id of an outer middleware is lost")
			}
		})
	}
}

func serialize(template string, opts ...core.CallOption) func(*lockhttp.Locks) middleware {
	return func(l *lockhttp.Locks) middleware { return l.Serialize(template, opts...) }
}

func once(template string, opts ...core.CallOption) func(*lockhttp.Locks) middleware {
	return func(l *lockhttp.Locks) middleware { return l.Once(template, opts...) }
}

func holding(s scene) {
	lease := ruletest.MustAcquire(s, s.eng, theKey)
	s.Cleanup(func() { ruletest.MustRelease(s, lease) })
}

// requestID is an outer middleware that sets a header.
func requestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "1")
		next.ServeHTTP(w, r)
	})
}

// TestTheServersOwnFaultIsLogged: the client is not told.
func TestTheServersOwnFaultIsLogged(t *testing.T) {
	log := quiet(t)
	s := newSite(t)
	locks := lockhttp.New(ruletest.NewEngine(t, ruletest.NewStore()))
	s.handle("GET /users/{id}", ok, locks.Serialize("user:{path.user_id}"))
	s.Do("GET", "/users/42", "").Problem(t, 500, "INTERNAL")
	if said := log.String(); !strings.Contains(said, "path.user_id") || !strings.Contains(said, "/users/{id}") {
		t.Errorf("log = %q, want the placeholder and the route", said)
	}
	outside := ruletest.Serve(t, locks.Serialize("user:{path.id}")(s.ServeMux), false)
	outside.Do("GET", "/users/42", "").Problem(t, 500, "INTERNAL")
	if said := log.String(); !strings.Contains(said, "behind the router") {
		t.Errorf("log = %q, want what is wrong with the order", said)
	}
}

// TestTheRequestsOwnEnd: a deadline and a cancel of the request itself are not
// contention.
func TestTheRequestsOwnEnd(t *testing.T) {
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	lease := ruletest.MustAcquire(t, eng, "user:42")
	defer ruletest.MustRelease(t, lease)
	seen := make(chan error, 1)
	rule, err := lockhttp.SerializeConfig{
		Engine: eng, Template: "user:{path.id}",
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			lockhttp.DefaultErrorHandler(w, r, err)
			seen <- err
		},
	}.ToMiddleware()
	if err != nil {
		t.Fatal(err)
	}
	deadline := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), 20*time.Millisecond)
			defer cancel()
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}
	s := newSite(t)
	s.handle("GET /short/{id}", ok, deadline, rule)
	s.handle("GET /long/{id}", ok, rule)

	s.Do("GET", "/short/42", "").Problem(t, 503, "DEADLINE_EXCEEDED")
	if err := ruletest.Receive(t, "the error", seen); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, core.ErrHeld) {
		t.Errorf("error = %v, want DeadlineExceeded and not ErrHeld", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	if _, err := s.Send(s.NewRequest("GET", "/long/42", "").WithContext(ctx)); err == nil {
		t.Fatal("the client got an answer")
	}
	err = ruletest.Receive(t, "the error", seen)
	if p := lockhttp.ProblemOf(err); !errors.Is(err, context.Canceled) || p.Status != 499 || p.Title == "" {
		t.Errorf("error = %v, want 499 for Canceled", err)
	}
}

func TestErrorHandlerTakesOver(t *testing.T) {
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	lease := ruletest.MustAcquire(t, eng, "user:42")
	defer ruletest.MustRelease(t, lease)
	rule, err := lockhttp.SerializeConfig{
		Engine: eng, Template: "user:{path.id}", Options: []core.CallOption{core.WithFailFast()},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			var held *core.HeldError
			if !errors.As(err, &held) || held.Key != "user:42" || held.Holder != lease.Owner() {
				t.Errorf("error = %v, want core's, with the holder for those who log", err)
			}
			text(w, http.StatusTeapot, lockhttp.ProblemOf(err).Reason)
		},
	}.ToMiddleware()
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t)
	s.handle("GET /users/{id}", ok, rule)
	if a := s.Do("GET", "/users/42", ""); a.Status != http.StatusTeapot || a.Body != "LOCK_HELD" {
		t.Errorf("answer = %+v", a)
	}
}

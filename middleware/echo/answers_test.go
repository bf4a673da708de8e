package lockecho_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockecho "github.com/keyturn/keyturn/middleware/echo"
)

func ok(c echo.Context) error { return c.String(http.StatusOK, "done") }

// untilLost returns when the request's lease is lost, as if nothing were wrong.
func untilLost(c echo.Context) error {
	<-c.Request().Context().Done()
	return ok(c)
}

// TestAnswers goes through the table of the package's documentation, over real
// connections.
func TestAnswers(t *testing.T) {
	const key = "user:status:42"
	tests := []struct {
		name    string
		engine  []core.EngineOption
		handler echo.HandlerFunc // default: ok
		rule    func(*lockecho.Locks) echo.MiddlewareFunc
		before  func(*testing.T, *core.Engine, *ruletest.Store, *site)
		method  string // default: PUT
		target  string // default: /users/42
		body    string
		header  []string
		status  int
		reason  string
		retry   bool
	}{
		{
			name: "held, and the rule says not to wait",
			rule: func(l *lockecho.Locks) echo.MiddlewareFunc {
				return l.Serialize("user:status:{path.id}", core.WithFailFast())
			},
			before: holding(key),
			status: 409, reason: "LOCK_HELD", retry: true,
		},
		{
			name: "waited too long",
			rule: func(l *lockecho.Locks) echo.MiddlewareFunc {
				return l.Serialize("user:status:{path.id}", core.WithMaxWait(20*time.Millisecond))
			},
			before: holding(key),
			status: 409, reason: "WAIT_TIMEOUT", retry: true,
		},
		{
			name:   "too many waiters",
			engine: []core.EngineOption{core.WithMaxWaiters(1)},
			rule:   func(l *lockecho.Locks) echo.MiddlewareFunc { return l.Serialize("user:status:{path.id}") },
			before: func(t *testing.T, eng *core.Engine, st *ruletest.Store, s *site) {
				holding(key)(t, eng, st, s)
				ruletest.Waiting(t, eng, st, key)
			},
			status: 429, reason: "TOO_MANY_WAITERS", retry: true,
		},
		{
			name: "Once: the first is still running",
			rule: func(l *lockecho.Locks) echo.MiddlewareFunc {
				return l.Once("user:status:{path.id}", core.WithFailFast())
			},
			before: holding(key),
			status: 409, reason: "LOCK_HELD", retry: true,
		},
		{
			name: "Once: the first is still running after the wait",
			rule: func(l *lockecho.Locks) echo.MiddlewareFunc {
				return l.Once("user:status:{path.id}", core.WithMaxWait(20*time.Millisecond))
			},
			before: holding(key),
			status: 409, reason: "WAIT_TIMEOUT", retry: true,
		},
		{
			name: "Once: same key, other content",
			rule: func(l *lockecho.Locks) echo.MiddlewareFunc { return l.Once("user:status:{path.id}") },
			before: func(t *testing.T, _ *core.Engine, _ *ruletest.Store, s *site) {
				if a := s.Do("PUT", "/users/42", "one"); a.Status != 200 {
					t.Fatalf("first request: %+v", a)
				}
			},
			body:   "another",
			status: 422, reason: "FINGERPRINT_MISMATCH",
		},
		{
			name:   "key missing",
			rule:   func(l *lockecho.Locks) echo.MiddlewareFunc { return l.Serialize("user:{query.id}") },
			status: 400, reason: "KEY_INVALID",
		},
		{
			name:   "key too long",
			rule:   func(l *lockecho.Locks) echo.MiddlewareFunc { return l.Serialize("user:{query.id}") },
			target: "/users/42?id=" + strings.Repeat("x", 600),
			status: 400, reason: "KEY_INVALID",
		},
		{
			name: "key function makes none",
			rule: func(l *lockecho.Locks) echo.MiddlewareFunc {
				return l.SerializeBy(func(echo.Context) string { return "" })
			},
			status: 400, reason: "KEY_INVALID",
		},
		{
			name: "key function makes an invalid one",
			rule: func(l *lockecho.Locks) echo.MiddlewareFunc {
				return l.OnceBy(func(echo.Context) string { return "a{b}" })
			},
			status: 400, reason: "KEY_INVALID",
		},
		{
			name:   "body is not JSON",
			rule:   func(l *lockecho.Locks) echo.MiddlewareFunc { return l.Serialize("user:{body.id}") },
			body:   `{"id":`,
			status: 400, reason: "KEY_INVALID",
		},
		{
			name:   "body says that it is not JSON",
			rule:   func(l *lockecho.Locks) echo.MiddlewareFunc { return l.Serialize("user:{body.id}") },
			body:   `{"id":1,"x":"&id=2&"}`,
			header: []string{"Content-Type", "application/x-www-form-urlencoded"},
			status: 415, reason: "MEDIA_TYPE",
		},
		{
			name:   "body over the limit",
			rule:   func(l *lockecho.Locks) echo.MiddlewareFunc { return l.Once("user:{path.id}") },
			body:   strings.Repeat("x", lockecho.DefaultBodyLimit+1),
			status: 413, reason: "BODY_TOO_LARGE",
		},
		{
			name:   "store down",
			rule:   func(l *lockecho.Locks) echo.MiddlewareFunc { return l.Serialize("user:status:{path.id}") },
			before: func(_ *testing.T, _ *core.Engine, st *ruletest.Store, _ *site) { st.BreakDown(ruletest.ErrDown, nil) },
			status: 503, reason: "STORE_UNAVAILABLE", retry: true,
		},
		{
			name:   "Once: store down",
			rule:   func(l *lockecho.Locks) echo.MiddlewareFunc { return l.Once("user:status:{path.id}") },
			before: func(_ *testing.T, _ *core.Engine, st *ruletest.Store, _ *site) { st.BreakDown(ruletest.ErrDown, nil) },
			status: 503, reason: "STORE_UNAVAILABLE", retry: true,
		},
		{
			name:   "Once: record uncertain",
			engine: []core.EngineOption{core.WithReleaseTimeout(30 * time.Millisecond)},
			rule:   func(l *lockecho.Locks) echo.MiddlewareFunc { return l.Once("user:status:{path.id}") },
			before: func(_ *testing.T, _ *core.Engine, st *ruletest.Store, _ *site) { st.BreakDown(nil, ruletest.ErrDown) },
			status: 503, reason: "OUTCOME_UNKNOWN", retry: true,
		},
		{
			name: "engine closed",
			rule: func(l *lockecho.Locks) echo.MiddlewareFunc { return l.Serialize("user:status:{path.id}") },
			before: func(t *testing.T, eng *core.Engine, _ *ruletest.Store, _ *site) {
				if err := eng.Close(context.Background()); err != nil {
					t.Fatal(err)
				}
			},
			status: 503, reason: "STOPPING", retry: true,
		},
		{
			name:    "lease lost while running",
			handler: untilLost,
			rule: func(l *lockecho.Locks) echo.MiddlewareFunc {
				return l.Serialize("user:status:{path.id}", core.WithMaxHold(20*time.Millisecond))
			},
			status: 409, reason: "LEASE_LOST",
		},
		{
			name:    "Once: lease lost while running",
			handler: untilLost,
			rule: func(l *lockecho.Locks) echo.MiddlewareFunc {
				return l.Once("user:status:{path.id}", core.WithMaxHold(20*time.Millisecond))
			},
			status: 409, reason: "LEASE_LOST",
		},
		{
			name: "lease lost, and the handler failed because of it",
			handler: func(c echo.Context) error {
				<-c.Request().Context().Done()
				return c.Request().Context().Err()
			},
			rule: func(l *lockecho.Locks) echo.MiddlewareFunc {
				return l.Once("user:status:{path.id}", core.WithMaxHold(20*time.Millisecond))
			},
			status: 409, reason: "LEASE_LOST",
		},
		{
			name:   "the route has no such parameter",
			rule:   func(l *lockecho.Locks) echo.MiddlewareFunc { return l.Serialize("user:{path.user_id}") },
			status: 500, reason: "INTERNAL",
		},
		{
			name: "a record that is no response",
			rule: func(l *lockecho.Locks) echo.MiddlewareFunc {
				return l.Once("user:status:{path.id}", core.WithoutFingerprint())
			},
			before: recorded(key, "something else"),
			status: 500, reason: "INTERNAL",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			st, s := ruletest.NewStore(), newSite(t)
			eng := ruletest.NewEngine(t, st, tt.engine...)
			handler := tt.handler
			if handler == nil {
				handler = ok
			}
			s.Use(middleware.RequestID(), middleware.Recover()) // what outer middleware sets stays
			s.PUT("/users/:id", handler, tt.rule(lockecho.New(eng)))
			if tt.before != nil {
				tt.before(t, eng, st, s)
			}
			target := tt.target
			if target == "" {
				target = "/users/42"
			}
			a := s.Do("PUT", target, tt.body, tt.header...)
			a.Problem(t, tt.status, tt.reason)
			a.CheckRetryAfter(t, tt.retry)
			a.CheckDiscretion(t, key)
			if a.Header.Get("X-Request-Id") == "" {
				t.Error("the request id of an outer middleware is lost")
			}
		})
	}
}

// holding has the test hold key.
func holding(key string) func(*testing.T, *core.Engine, *ruletest.Store, *site) {
	return func(t *testing.T, eng *core.Engine, _ *ruletest.Store, _ *site) {
		lease := ruletest.MustAcquire(t, eng, key)
		t.Cleanup(func() { ruletest.MustRelease(t, lease) })
	}
}

// recorded puts something on record for key.
func recorded(key, result string) func(*testing.T, *core.Engine, *ruletest.Store, *site) {
	return func(t *testing.T, eng *core.Engine, _ *ruletest.Store, _ *site) {
		_, err := eng.Once(context.Background(), key, func(context.Context) ([]byte, error) { return []byte(result), nil })
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestRetryAfterComesFromHowLongLocksAreHeld(t *testing.T) {
	held := &core.HeldError{Key: "k", Holder: "secret"}
	for _, tt := range []struct{ known, want time.Duration }{
		{0, time.Second},
		{-1, time.Second},
		{time.Millisecond, time.Second},
		{time.Second, time.Second},
		{time.Second + 1, 2 * time.Second},
		{3500 * time.Millisecond, 4 * time.Second},
	} {
		held.RetryAfter = tt.known
		if got := lockecho.ProblemOf(held).RetryAfter; got != tt.want {
			t.Errorf("RetryAfter of %v = %v, want %v", tt.known, got, tt.want)
		}
	}
	full := &core.TooManyWaitersError{RetryAfter: 7 * time.Second}
	if got := lockecho.ProblemOf(full).RetryAfter; got != 7*time.Second {
		t.Errorf("RetryAfter = %v, want what the engine estimated", got)
	}
}

func TestARouteWithoutTheParameterIsLogged(t *testing.T) {
	s := newSite(t)
	s.GET("/users/:id", ok, lockecho.New(ruletest.NewEngine(t, ruletest.NewStore())).Serialize("user:{path.user_id}"))
	s.Do("GET", "/users/42", "").Problem(t, 500, "INTERNAL")
	if log := s.Log.String(); !strings.Contains(log, "path.user_id") || !strings.Contains(log, "/users/:id") {
		t.Errorf("log = %q, want the placeholder and the route", log)
	}
}

// TestTheRequestsOwnEnd: a deadline and a cancel of the request itself are
// answered as Echo answers them, by its HTTPErrorHandler.
func TestTheRequestsOwnEnd(t *testing.T) {
	seen := make(chan error, 1)
	site := func(t *testing.T, outer ...echo.MiddlewareFunc) *site {
		eng := ruletest.NewEngine(t, ruletest.NewStore())
		lease := ruletest.MustAcquire(t, eng, "user:42")
		t.Cleanup(func() { ruletest.MustRelease(t, lease) })
		s := newSite(t)
		s.HTTPErrorHandler = func(err error, c echo.Context) {
			seen <- err
			s.DefaultHTTPErrorHandler(err, c)
		}
		s.Use(outer...)
		s.GET("/users/:id", ok, lockecho.New(eng).Serialize("user:{path.id}"))
		return s
	}
	t.Run("a deadline of ContextTimeout", func(t *testing.T) {
		s := site(t, middleware.ContextTimeout(20*time.Millisecond))
		a := s.Do("GET", "/users/42", "")
		if a.Status != 503 || !strings.Contains(a.Body, `"message"`) {
			t.Errorf("answer = %d %s, want Echo's 503", a.Status, a.Body)
		}
		if err := ruletest.Receive(t, "the error", seen); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v, want DeadlineExceeded", err)
		}
	})
	t.Run("a deadline of somebody else", func(t *testing.T) {
		s := site(t, func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error {
				ctx, cancel := context.WithTimeout(c.Request().Context(), 20*time.Millisecond)
				defer cancel()
				c.SetRequest(c.Request().WithContext(ctx))
				return next(c)
			}
		})
		if a := s.Do("GET", "/users/42", ""); a.Status != 503 {
			t.Errorf("answer = %d %s, want 503", a.Status, a.Body)
		}
		if err := ruletest.Receive(t, "the error", seen); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, core.ErrHeld) {
			t.Errorf("error = %v, want DeadlineExceeded and not ErrHeld", err)
		}
	})
	t.Run("the client hangs up", func(t *testing.T) {
		s := site(t)
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
		defer cancel()
		if _, err := s.Send(s.NewRequest("GET", "/users/42", "").WithContext(ctx)); err == nil {
			t.Fatal("the client got an answer")
		}
		err := ruletest.Receive(t, "the error", seen)
		var answered *echo.HTTPError
		if !errors.Is(err, context.Canceled) || !errors.As(err, &answered) || answered.Code != 499 {
			t.Errorf("error = %v, want 499 with Canceled", err)
		}
	})
}

func TestErrorHandlerTakesOver(t *testing.T) {
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	lease := ruletest.MustAcquire(t, eng, "user:42")
	defer ruletest.MustRelease(t, lease)
	s := newSite(t)
	s.GET("/users/:id", ok, lockecho.SerializeWithConfig(lockecho.SerializeConfig{
		Engine: eng, Template: "user:{path.id}", Options: []core.CallOption{core.WithFailFast()},
		ErrorHandler: func(c echo.Context, err error) error {
			var held *core.HeldError
			if !errors.As(err, &held) || held.Key != "user:42" {
				t.Errorf("error = %v, want core's", err)
			}
			return c.String(http.StatusTeapot, lockecho.ProblemOf(err).Reason)
		},
	}))
	if a := s.Do("GET", "/users/42", ""); a.Status != http.StatusTeapot || a.Body != "LOCK_HELD" {
		t.Errorf("answer = %+v", a)
	}
}

// TestRefusalsReachOuterMiddleware: what is not told to the client is told to
// those who log.
func TestRefusalsReachOuterMiddleware(t *testing.T) {
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	lease := ruletest.MustAcquire(t, eng, "user:42")
	defer ruletest.MustRelease(t, lease)
	s := newSite(t)
	seen := make(chan error, 1)
	s.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			err := next(c)
			seen <- err
			return err
		}
	})
	s.GET("/users/:id", ok, lockecho.New(eng).Serialize("user:{path.id}", core.WithFailFast()))
	a := s.Do("GET", "/users/42", "")
	a.Problem(t, 409, "LOCK_HELD") // and nothing behind it
	err := ruletest.Receive(t, "the error", seen)
	var held *core.HeldError
	var answered *echo.HTTPError
	if !errors.As(err, &held) || held.Holder != lease.Owner() || !errors.As(err, &answered) || answered.Code != 409 {
		t.Errorf("error = %v, want an HTTPError 409 with the holder inside", err)
	}
}

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
	lockhttp "github.com/keyturn/keyturn/middleware/http"
	"github.com/keyturn/keyturn/middleware/reasons"
)

func ok(c echo.Context) error { return c.String(http.StatusOK, "done") }

// untilLost returns when the request's lease is lost, as if nothing were wrong.
func untilLost(c echo.Context) error {
	<-c.Request().Context().Done()
	return ok(c)
}

// TestAHandlerThatFailsWithItsLease: the loss is what is answered.
func TestAHandlerThatFailsWithItsLease(t *testing.T) {
	s := newSite(t)
	s.Use(middleware.Recover())
	s.PUT("/:id", func(c echo.Context) error {
		<-c.Request().Context().Done()
		return c.Request().Context().Err()
	}, rule(t, ruletest.NewEngine(t, ruletest.NewStore()), lockhttp.Once("*", "m:{path.id}", core.WithMaxHold(20*time.Millisecond))))
	s.Do("PUT", "/1", "").Problem(t, 409, "LEASE_LOST")
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
	s.GET("/users/:id", ok, rule(t, ruletest.NewEngine(t, ruletest.NewStore()), lockhttp.Serialize("*", "user:{path.user_id}")))
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
		s.GET("/users/:id", ok, rule(t, eng, lockhttp.Serialize("*", "user:{path.id}")))
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
	locks, err := lockecho.New(eng, lockhttp.Serialize("GET /users/:id", "user:{path.id}", core.WithFailFast()))
	if err != nil {
		t.Fatal(err)
	}
	locks = locks.WithErrorHandler(func(c echo.Context, err *reasons.Refusal) error {
		var held *core.HeldError
		if !errors.As(err, &held) || held.Key != "user:42" {
			t.Errorf("error = %v, want core's", err)
		}
		return c.String(http.StatusTeapot, lockecho.ProblemOf(err).Reason)
	})
	s.Use(locks.Middleware)
	s.GET("/users/:id", ok)
	if a := s.Do("GET", "/users/42", ""); a.Status != http.StatusTeapot || a.Body != "LOCK_HELD" {
		t.Errorf("answer = %+v", a)
	}
}

// TestRefusalsReachOuterMiddleware: middleware that logs gets the details that the client does
// not get.
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
	s.GET("/users/:id", ok, rule(t, eng, lockhttp.Serialize("*", "user:{path.id}", core.WithFailFast())))
	a := s.Do("GET", "/users/42", "")
	a.Problem(t, 409, "LOCK_HELD") // and nothing behind it
	err := ruletest.Receive(t, "the error", seen)
	var held *core.HeldError
	var answered *echo.HTTPError
	if !errors.As(err, &held) || held.Holder != lease.Owner() || !errors.As(err, &answered) || answered.Code != 409 {
		t.Errorf("error = %v, want an HTTPError 409 with the holder inside", err)
	}
}

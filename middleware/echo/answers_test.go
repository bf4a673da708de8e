package lockecho_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
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

// TestRefusalsReachOuterMiddleware: middleware that logs gets the details that the client does not get.
func TestRefusalsReachOuterMiddleware(t *testing.T) {
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	lease := ruletest.MustAcquire(t, eng, "user:42")
	defer ruletest.MustRelease(t, lease)
	s := newSite(t)
	seen := s.seeErrors()
	s.GET("/users/:id", ok, rule(t, eng, lockhttp.Serialize("*", "user:{path.id}", core.WithFailFast())))
	a := s.Do("GET", "/users/42", "")
	a.Problem(t, 409, "LOCK_HELD") // and nothing behind it
	err := ruletest.Receive(t, "the error", seen)
	var held *core.HeldError
	var answered *echo.HTTPError
	check(t, errors.As(err, &held) && held.Holder == lease.Owner() && errors.As(err, &answered) && answered.Code == 409, "error = %v, want an HTTPError 409 with the holder inside", err)
}

// TestTheRequestsOwnEnd: a deadline and a cancel of the request itself are answered as Echo answers them, by its
// HTTPErrorHandler.
func TestTheRequestsOwnEnd(t *testing.T) {
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	defer ruletest.MustRelease(t, ruletest.MustAcquire(t, eng, "user:42"))
	e := echo.New()
	var seen error
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		seen = err
		e.DefaultHTTPErrorHandler(err, c)
	}
	e.GET("/:id", ok, rule(t, eng, lockhttp.Serialize("*", "user:{path.id}")))
	for want, status := range map[error]int{context.DeadlineExceeded: 503, context.Canceled: 499} {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		if status == 499 {
			ctx, cancel = context.WithCancel(context.Background())
			time.AfterFunc(20*time.Millisecond, cancel)
		}
		rec := httptest.NewRecorder()
		e.ServeHTTP(rec, httptest.NewRequestWithContext(ctx, http.MethodGet, "/42", nil))
		cancel()
		var answered *echo.HTTPError
		check(t, errors.Is(seen, want) && !errors.Is(seen, core.ErrHeld) && errors.As(seen, &answered) && answered.Code == status, "error = %v, want %d for %v", seen, status, want)
		check(t, rec.Code == status && strings.Contains(rec.Body.String(), `"message"`), "answer = %d %s, want Echo's %d", rec.Code, rec.Body, status)
	}
}

// TestErrorHandler: it gets what the service needs for an answer of its own.
func TestErrorHandler(t *testing.T) {
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	defer ruletest.MustRelease(t, ruletest.MustAcquire(t, eng, "k:1"))
	locks, err := lockecho.New(eng, lockhttp.Serialize("POST /:id", "k:{path.id}", core.WithFailFast()))
	must(t, err)
	var told *reasons.Refusal
	e := echo.New()
	e.POST("/:id", ok, locks.WithErrorHandler(func(_ echo.Context, refused *reasons.Refusal) error {
		told = refused
		return echo.NewHTTPError(http.StatusTeapot)
	}).Middleware)
	if got := send(e, http.MethodPost, "/1", ""); !strings.HasPrefix(got, "418 ") || told == nil || told.Reason != reasons.LockHeld ||
		told.Rule != "k:{path.id}" || told.Key != "k:1" || told.RetryAfter < time.Second || !errors.Is(told, core.ErrHeld) {
		t.Errorf("%s, told %+v", got, told)
	}
}

// TestALossAfterAHijack is told to those who log, and not to the connection, which is the handler's.
func TestALossAfterAHijack(t *testing.T) {
	for _, announced := range []bool{true, false} {
		t.Run(fmt.Sprintf("status announced: %v", announced), func(t *testing.T) {
			s := newSite(t)
			seen := make(chan error, 1)
			s.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
				return func(c echo.Context) error {
					err := next(c)
					c.Error(err) // as those do who log the status
					seen <- err
					return err
				}
			})
			s.GET("/:id", func(c echo.Context) error {
				if announced {
					c.Response().Header().Set("Connection", "Upgrade")
					c.Response().Header().Set("Upgrade", "raw")
					c.Response().WriteHeader(http.StatusSwitchingProtocols)
				}
				conn, rw, err := c.Response().Hijack()
				if err != nil {
					return err
				}
				defer conn.Close()
				<-c.Request().Context().Done()
				if !announced {
					fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\n")
				}
				fmt.Fprint(rw, "raw")
				return rw.Flush()
			}, rule(t, ruletest.NewEngine(t, ruletest.NewStore()), lockhttp.Serialize("*", "user:{path.id}", core.WithMaxHold(20*time.Millisecond))))
			res, err := s.Client().Do(s.NewRequest("GET", "/1", "", "Connection", "Upgrade", "Upgrade", "raw"))
			must(t, err)
			defer res.Body.Close()
			data, err := io.ReadAll(res.Body)
			check(t, res.StatusCode == 101 && string(data) == "raw" && err == nil, "response = %s %q, %v", res.Status, data, err)
			wantIs(t, "error", ruletest.Receive(t, "the error", seen), core.ErrLeaseLost)
			check(t, s.Log.String() == "", "somebody wrote to the handler's connection: %s", s.Log)
		})
	}
}

// TestABodyThatAnEarlierMiddlewareLimits is refused as too large.
func TestABodyThatAnEarlierMiddlewareLimits(t *testing.T) {
	s := newSite(t)
	s.Use(middleware.BodyLimit("10B"))
	s.POST("/:id", ok, rule(t, ruletest.NewEngine(t, ruletest.NewStore()), lockhttp.Serialize("*", "b:{body|hash}")))

	req := s.NewRequest("POST", "/1", strings.Repeat("x", 20))
	req.ContentLength = -1
	a, err := s.Send(req)
	must(t, err)
	a.Problem(t, 413, "BODY_TOO_LARGE")
}

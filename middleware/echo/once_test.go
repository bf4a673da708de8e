package lockecho_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockecho "github.com/keyturn/keyturn/middleware/echo"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

// counted counts the calls of a handler.
func counted(n *atomic.Int64, next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		n.Add(1)
		return next(c)
	}
}

// TestResponsesByEchosMeans are stored like those that are written with net/http's; a returned error is,
// by the status that Echo makes of it.
func TestResponsesByEchosMeans(t *testing.T) {
	for _, tt := range []struct {
		name    string
		handler echo.HandlerFunc
		status  int
		body    string
		runs    int64 // of two requests
	}{
		{"JSON", func(c echo.Context) error { return c.JSON(201, map[string]int{"id": 7}) }, 201, "{\"id\":7}\n", 1},
		{"past Echo's response", func(c echo.Context) error {
			_, err := c.Response().Writer.Write([]byte("raw"))
			return err
		}, 200, "raw", 1},
		{"an interim response past it", func(c echo.Context) error {
			c.Response().Writer.WriteHeader(http.StatusEarlyHints)
			return c.String(202, "then")
		}, 202, "then", 1},
		{"a returned error that is an outcome", func(echo.Context) error { return echo.NewHTTPError(404, "no such user") }, 404, "{\"message\":\"no such user\"}\n", 1},
		{"a returned error that is none", func(echo.Context) error { return echo.NewHTTPError(409, "busy") }, 409, "{\"message\":\"busy\"}\n", 2},
		{"any error", func(echo.Context) error { return errors.New("broken") }, 500, "{\"message\":\"Internal Server Error\"}\n", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			var calls atomic.Int64
			s.POST("/:id", counted(&calls, tt.handler), rule(t, ruletest.NewEngine(t, ruletest.NewStore()), lockhttp.Once("*", "m:{path.id}")))
			first, again := s.Do("POST", "/1", ""), s.Do("POST", "/1", "")
			if calls.Load() != tt.runs || first.Replayed() || again.Replayed() != (tt.runs == 1) {
				t.Fatalf("%d calls; replayed: %v, then %v", calls.Load(), first.Replayed(), again.Replayed())
			}
			for _, a := range []ruletest.Answer{first, again} {
				check(t, a.Status == tt.status && a.Body == tt.body && a.Broken == nil, "answer = %d %q, want %d %q", a.Status, a.Body, tt.status, tt.body)
			}
		})
	}
}

// TestTheErrorHandlerDecidesTheStatus: an error means what the application's
// HTTPErrorHandler makes of it, and is answered once.
func TestTheErrorHandlerDecidesTheStatus(t *testing.T) {
	errNoFunds := errors.New("no funds")
	s := newSite(t)
	var calls, answers atomic.Int64
	s.HTTPErrorHandler = func(err error, c echo.Context) {
		if c.Response().Committed {
			return
		}
		if errors.Is(err, errNoFunds) {
			answers.Add(1)
			_ = c.String(http.StatusPaymentRequired, "no funds")
		}
		// Any other error is left unanswered.
	}
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	s.POST("/pay/:id", counted(&calls, func(echo.Context) error { return errNoFunds }), rule(t, eng, lockhttp.Once("*", "pay:{path.id}")))
	s.POST("/odd/:id", counted(&calls, func(echo.Context) error { return errors.New("odd") }), rule(t, eng, lockhttp.Once("*", "odd:{path.id}")))

	first, again := s.Do("POST", "/pay/1", ""), s.Do("POST", "/pay/1", "")
	check(t, first.Status == 402 && first.Body == "no funds" && again.Status == 402 && again.Body == "no funds" && again.Replayed(), "answers = %+v, %+v", first, again)
	check(t, calls.Load() == 1 && answers.Load() == 1, "%d calls, %d answers, want one of each", calls.Load(), answers.Load())
	calls.Store(0)
	s.Do("POST", "/odd/1", "")
	again = s.Do("POST", "/odd/1", "")
	check(t, !again.Replayed() && calls.Load() == 2, "an unanswered error was stored: %+v after %d calls", again, calls.Load())
}

// TestOnceAroundSerialize: a refusal of the inner rule is no outcome.
func TestOnceAroundSerialize(t *testing.T) {
	once, inner := lockhttp.Once("*", "once:{path.id}"), lockhttp.Serialize("*", "user:{path.id}", core.WithFailFast())
	for name, rules := range map[string]func(*core.Engine) []echo.MiddlewareFunc{
		"in two sets": func(eng *core.Engine) []echo.MiddlewareFunc {
			return []echo.MiddlewareFunc{rule(t, eng, once), rule(t, eng, inner)}
		},
		"in one set": func(eng *core.Engine) []echo.MiddlewareFunc { return []echo.MiddlewareFunc{rule(t, eng, once, inner)} },
	} {
		t.Run(name, func(t *testing.T) {
			eng := ruletest.NewEngine(t, ruletest.NewStore())
			s := newSite(t)
			s.POST("/:id", ok, rules(eng)...)
			lease := ruletest.MustAcquire(t, eng, "user:1")
			s.Do("POST", "/1", "").Problem(t, 409, "LOCK_HELD")
			ruletest.MustRelease(t, lease)
			if a := s.Do("POST", "/1", ""); a.Status != 200 || a.Body == "" || a.Replayed() {
				t.Errorf("answer = %+v, want the handler's", a)
			}
			if a := s.Do("POST", "/1", ""); a.Status != 200 || !a.Replayed() {
				t.Errorf("answer = %+v, want the stored one", a)
			}
		})
	}
}

// TestOnceInsideCompression: the record is what the handler wrote, and each
// client gets it in the encoding that it takes.
func TestOnceInsideCompression(t *testing.T) {
	s := newSite(t)
	s.Use(middleware.Gzip())
	text := strings.Repeat("compressible ", 100)
	s.POST("/:id", func(c echo.Context) error { return c.String(200, text) }, rule(t, ruletest.NewEngine(t, ruletest.NewStore()), lockhttp.Once("*", "m:{path.id}")))
	for _, encoding := range []string{"gzip", "identity"} { // the transport decodes only what it asked for
		a := s.Do("POST", "/1", "", "Accept-Encoding", encoding)
		gzipped := bytes.HasPrefix([]byte(a.Body), []byte{0x1f, 0x8b})
		check(t, gzipped == (encoding == "gzip"), "%s: got %.20q", encoding, a.Body)
	}
}

// TestIdempotency: for all routes at once, by e.Use; the route and whoever has
// been authenticated are part of the record's key.
func TestIdempotency(t *testing.T) {
	s := newSite(t)
	var calls atomic.Int64
	authenticate := func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			c.Set("user", c.Request().Header.Get("User"))
			return next(c)
		}
	}
	user := func(r *http.Request) string { return lockecho.Context(r).Get("user").(string) }
	s.Use(authenticate, rule(t, ruletest.NewEngine(t, ruletest.NewStore()), lockhttp.Idempotency("*", user)))
	pay := func(c echo.Context) error { return c.String(201, fmt.Sprint(calls.Add(1))) }
	s.POST("/accounts/:id/pay", pay)
	s.POST("/accounts/:id/refund", pay)

	for _, tt := range []struct {
		name, target, user, key string
		body                    string // the number of the call whose response it is
		replayed                bool
	}{
		{"first", "/accounts/1/pay", "ada", "k", "1", false},
		{"again", "/accounts/1/pay", "ada", `"k"`, "1", true},
		{"another user", "/accounts/1/pay", "eve", "k", "2", false},
		{"another route", "/accounts/1/refund", "ada", "k", "3", false},
	} {
		a := s.Do("POST", tt.target, "ten", "User", tt.user, "Idempotency-Key", tt.key)
		check(t, a.Body == tt.body && a.Replayed() == tt.replayed, "%s: %+v, want %q, replayed: %v", tt.name, a, tt.body, tt.replayed)
	}
	s.Do("POST", "/accounts/2/pay", "ten", "User", "ada", "Idempotency-Key", "k").Problem(t, 422, "FINGERPRINT_MISMATCH") // of the same route
}

// A handler that gave up because of a ContextTimeout inside of the rule had its part of an answer stored and
// replayed: the timeout ends a context of its own, not the one that the rule made. Every rule of a set, not only the
// innermost, learns of it, and of an error that nobody answered.
func TestRulesLearnHowTheHandlerEnded(t *testing.T) {
	once, inner := lockhttp.Idempotency("*", lockhttp.AnyCaller), lockhttp.Serialize("*", "k")
	for _, rules := range [][]lockhttp.Rule{{once}, {once, inner}} {
		s := newSite(t)
		s.HTTPErrorHandler = func(error, echo.Context) {}
		s.Use(rule(t, ruletest.NewEngine(t, ruletest.NewStore()), rules...), middleware.ContextTimeout(20*time.Millisecond))
		s.POST("/orders", func(c echo.Context) error {
			_ = c.String(200, "the beginn")
			<-c.Request().Context().Done()
			return nil
		})
		var calls atomic.Int64
		s.POST("/failed", counted(&calls, func(echo.Context) error { return errors.New("failed") }))
		for range 2 {
			s.Do("POST", "/failed", "", "Idempotency-Key", "2")
		}
		check(t, calls.Load() == 2, "%d rules: %d calls after an error, want 2", len(rules), calls.Load())
		s.Do("POST", "/orders", "body", "Idempotency-Key", "1")
		s.Do("POST", "/orders", "body", "Idempotency-Key", "1").Problem(t, 409, "RESULT_NOT_KEPT")
	}
}
